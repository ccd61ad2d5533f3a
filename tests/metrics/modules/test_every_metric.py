"""What holds for every metric module: what must not change its scores, what it rejects, what its results have."""

import contextlib
import copy
import json
import math

import datasets
import numpy as np
import pandas
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_cases import CASES, EVERY, NAMES, compute, input_names, rows_of

from vl_assay.metrics.common.errors import ScoresError, UnknownNameError, VLAssayError
from vl_assay.metrics.estimation import bootstrap
from vl_assay.metrics.estimation.aggregate import option_names
from vl_assay.metrics.modules.discovery import load_metric

INTERVALS = {"confidence": 0.9, "resamples": 100}
# Answers are no scores: they have no ties and no scale.
SCORED = pytest.mark.parametrize("name", [name for name in NAMES if name != "yes_no_f1"])


def test_every_metric_has_a_case():
    assert sorted(CASES) == NAMES


def numbers(result, without=()):
    """A result's numbers by path; `without` names keys that are left out wherever they stand."""
    flat = {}

    def visit(path, value):
        if isinstance(value, dict):
            for key, part in value.items():
                if key not in without and key.removesuffix("_interval") not in without:
                    visit((*path, key), part)
        elif isinstance(value, list):
            for place, part in enumerate(value):
                visit((*path, str(place)), part)
        else:
            flat[path] = value

    visit((), result)
    return flat


def assert_same(actual, expected, without=(), tolerance=1e-9):
    left, right = numbers(actual, without), numbers(expected, without)
    assert left.keys() == right.keys()
    for path, value in right.items():
        if isinstance(value, float):
            assert left[path] == pytest.approx(value, abs=tolerance, rel=tolerance), path
        else:
            assert left[path] == value, path


@EVERY
def test_the_order_of_rows_does_not_matter(name):
    inputs = rows_of(name)
    order = np.random.default_rng(1).permutation(len(inputs["clusters"]))
    shuffled = {key: [rows[place] for place in order] for key, rows in inputs.items()}
    options = INTERVALS | CASES[name].settings
    assert_same(compute(name, shuffled, **options), compute(name, inputs, **options))


@pytest.mark.parametrize("name", [name for name in NAMES if CASES[name].twice])
def test_rows_that_come_twice_change_counts_alone(name):
    case, inputs = CASES[name], rows_of(name, seed=2)
    if name == "group_recall_at_1":
        inputs["clusters"] = [pair // 2 for pair in inputs["pair_ids"]]
    options = INTERVALS | case.settings
    once, twice = compute(name, inputs, **options), compute(name, case.twice(inputs), **options)
    # McNemar's test knows no clusters: to it twice the rows are twice the evidence.
    ignored = (*case.counts, "rare", "n_captions_without_image", "mcnemar_p_value", "mcnemar_method")
    assert_same(twice, once, without=ignored)
    for key in case.counts:
        assert twice[key] == 2 * once[key]


@SCORED
def test_a_monotone_rescaling_of_scores_does_not_matter(name):
    case, inputs = CASES[name], rows_of(name, seed=3)
    expected = compute(name, inputs)
    for change in (math.exp, lambda score: 1 + 1e-9 * score):  # the second within rounding of float32
        assert_same(compute(name, case.with_scores(inputs, change)), expected, without=case.depends_on_scale)


@EVERY
def test_a_score_that_is_no_number_is_rejected_and_its_row_named(name):
    case = CASES[name]
    top, *below = case.scores
    for bad, message in (
        (math.nan, "row"),
        (-math.inf, "row"),
        ("0.9", "text|neither"),
        (1j, "complex|numbers|neither"),
    ):
        inputs = rows_of(name, seed=5)
        row = next(r for r, value in enumerate(inputs[top]) if r > 3 and (not below or value[below[0]]))
        target = inputs[top][row] if not below else inputs[top][row][below[0]]
        while isinstance(target, list) and isinstance(target[0], list):
            target = target[0]
        if isinstance(target, list):
            target[0] = bad
        else:
            inputs[top][row] = bad
        with pytest.raises(ScoresError, match=rf"\brows? {row}\b" if message == "row" else message):
            compute(name, inputs)


@EVERY
def test_inputs_and_options_that_cannot_be_used_are_rejected_with_a_remedy(name):
    inputs = rows_of(name)
    with pytest.raises(ScoresError, match=r"at least|there are no"):
        compute(name, {key: [] for key in inputs if key != "clusters"})
    for options, message in (
        ({"confidence": 95}, "confidence is 95; it must lie strictly between 0 and 1, such as 0.95"),
        ({"confidence": "0.9"}, "confidence is '0.9'; it must lie strictly between 0 and 1"),
        ({"resamples": 99}, "resamples is 99; it must be a whole number of at least 100"),
        ({"seed": 0.5}, "seed is 0.5; it must be a whole number of at least 0"),
        ({"clusters": ["a"]}, "got 1 clusters for "),
        ({"categories": ["a"]}, r"got (1 )?categories"),
    ):
        with pytest.raises(ScoresError, match=message):
            compute(name, inputs | options)
    for labels in {"categories", "clusters"} & inputs.keys():
        lacking = [None if row == 4 else label for row, label in enumerate(inputs[labels])]
        with pytest.raises(ScoresError, match=f"{labels} are missing in row"):
            compute(name, inputs | {labels: lacking})
    for column in input_names(name):
        with pytest.raises(ScoresError, match=f"{column} are missing; pass one for each example"):
            compute(name, {key: rows for key, rows in inputs.items() if key != column})
    with pytest.raises(UnknownNameError, match=r"unknown option 'tie'; known: .*confidence"):
        compute(name, inputs, tie="half")
    known = "wrong, coco" if name == "cpd_ap" else "wrong, half, right"
    for ties in ("strict", ["wrong"]) if name != "yes_no_f1" else ():
        with pytest.raises(UnknownNameError, match=f"unknown tie policy .*; known: {known}"):
            compute(name, inputs, ties=ties)


SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=3)
JUNK = st.recursive(
    SCALARS,
    lambda part: (
        st.lists(part, max_size=4) | st.dictionaries(st.integers(0, 2) | st.text(max_size=2), part, max_size=3)
    ),
    max_leaves=8,
)


@EVERY
@given(data=st.data())
@settings(max_examples=8)
def test_junk_is_computed_or_rejected_in_words(name, data):
    module, inputs = load_metric(name), rows_of(name, n=data.draw(st.integers(1, 4)))
    columns = {key: inputs.pop(key) for key in input_names(name)}
    options = {"confidence": 0.9, "resamples": 100} | copy.deepcopy(CASES[name].settings) | inputs
    place = data.draw(st.sampled_from([*columns, *columns, *option_names(module.function)]))
    target = columns if place in columns else options
    junk = data.draw(JUNK)
    if isinstance(target.get(place), list) and data.draw(st.booleans()):
        target[place][0] = junk
    else:
        few = isinstance(junk, int) and place in ("resamples", "permutations", "subsamples")
        target[place] = min(junk, 200) if few else junk
    with contextlib.suppress(VLAssayError):
        json.dumps(module.function(*columns.values(), **options), allow_nan=False)


@EVERY
def test_a_batch_that_is_rejected_leaves_nothing_behind(name):
    inputs = {key: rows for key, rows in rows_of(name).items() if key in input_names(name)}
    others = {key: rows for key, rows in rows_of(name).items() if key not in inputs}
    module = load_metric(name)
    expected = module.compute(**inputs, **others, **CASES[name].settings)
    first = next(iter(inputs))
    for bad in (inputs | {first: [object()] * 3}, inputs | {first: None}, inputs | {first: 5}):
        with pytest.raises(ValueError, match=r"."):
            module.add_batch(**bad)
    assert module.compute(**inputs, **others, **CASES[name].settings) == expected


@pytest.mark.parametrize("name", ["sugarcrepe_itm", "aro_itm", "artifact_gap", "retrieval_recall", "paired_difference"])
def test_indices_are_whole_numbers(name):
    rows = {key: [[0.9, 0.1]] * 4 for key in input_names(name)}
    for kind in (list, np.array, torch.tensor):
        with pytest.raises(ScoresError, match="booleans, which could mean either caption"):
            compute(name, rows | {"references": kind([True] * 4)})
    for column in (0.9, -0.5):
        with pytest.raises(ScoresError, match=rf"is {column} in row 3"):
            compute(name, rows | {"references": [0, 0, 0, column]})


@pytest.mark.parametrize(
    "column",
    [
        lambda rows: pandas.Series([rows[0], *rows]).iloc[1:],
        lambda rows: datasets.Dataset.from_dict({"column": rows})["column"],
        lambda rows: torch.tensor(rows, dtype=torch.bfloat16, requires_grad=True),
    ],
    ids=["a filtered pandas column", "a column of a dataset", "a tensor with gradients"],
)
@pytest.mark.parametrize("way", ["compute", "add_batch"])
def test_columns_of_other_libraries_are_read(column, way):
    module = load_metric("sugarcrepe_itm")
    inputs = {"predictions": column([[0.25, 0.75], [0.75, 0.25]]), "references": [0, 0]}
    result = module.compute(**inputs) if way == "compute" else module.add_batch(**inputs) or module.compute()
    assert (result["accuracy"], result["n"]) == (0.5, 2)


@EVERY
def test_the_module_and_the_plain_function_agree_on_results_that_are_json(name):
    module = load_metric(name)
    inputs = CASES[name].with_scores(rows_of(name, seed=6), round)
    options = CASES[name].settings | INTERVALS | {"seed": 3}
    if "ties" in option_names(module.function):
        options["ties"] = "coco" if name == "cpd_ap" else "half"
    columns = [inputs[key] for key in input_names(name)]
    labels = {key: rows for key, rows in inputs.items() if key not in input_names(name)}
    before = copy.deepcopy(inputs)
    expected = module.function(*columns, **labels, **options)
    # The TRICD authors' script changes the predictions while it computes one score, and gets the next one wrong.
    assert inputs == before
    assert module.compute(**inputs, **options) == expected
    assert json.loads(json.dumps(expected, allow_nan=False)) == expected
    assert isinstance(expected["n"], int)
    assert name == "yes_no_f1" or any("tie_rate" in key for key in expected)


@EVERY
def test_batches_and_single_examples_add_up_to_the_whole(name):
    case, inputs = CASES[name], rows_of(name, n=20)
    batches, single = load_metric(name), load_metric(name)
    labels = {key: rows for key, rows in inputs.items() if key not in input_names(name)}
    # Rows of boxes are mappings, which come in lists alone.
    columns = {key: inputs[key] if len(case.scores) > 1 else np.array(inputs[key]) for key in input_names(name)}
    expected = compute(name, inputs)
    for part in (slice(0, 2), slice(2, None)):
        batches.add_batch(**{key: rows[part] for key, rows in (columns | labels).items()})
    assert batches.compute(**case.settings) == expected
    names = {"predictions": "prediction", "references": "reference"}
    for row in zip(*columns.values(), strict=True):
        single.add(**{names.get(key, key): value for key, value in zip(columns, row, strict=True)})
    assert single.compute(**labels, **case.settings) == expected


def test_labels_that_only_some_batches_have_or_that_are_too_few_are_rejected():
    module, rows = load_metric("aro_itm"), {"predictions": [[0.9, 0.1]] * 2, "references": [0, 0]}
    module.add_batch(**rows, categories=["on", "under"])
    for labels, message in (({"categories": ["on"]}, "1 categories for 2 examples"), ({}, "and this one no labels")):
        with pytest.raises(ScoresError, match=message):
            module.add_batch(**rows, **labels)
    with pytest.raises(ScoresError, match="categories came with the examples and again"):
        module.compute(categories=["on", "under"])
    assert module.compute()["per_category"].keys() == {"on", "under"}


@EVERY
def test_a_flat_result_has_every_number_on_one_level(name):
    inputs = rows_of(name, n=60) | INTERVALS
    nested, flat = compute(name, inputs), compute(name, inputs, flat=True)
    assert all(type(value) in (int, float) for value in flat.values())
    expected = []
    for path, value in numbers(nested).items():
        if value is None:
            expected += ["nan"] * (2 if path[-1].endswith("_interval") else 1)
        elif type(value) in (int, float):
            expected.append(repr(value))
    assert sorted(map(repr, flat.values())) == sorted(expected)


@EVERY
def test_every_option_reaches_the_intervals_of_all_parts(name, monkeypatch):
    monkeypatch.setattr(bootstrap, "FEW_CLUSTERS", 0)  # so that 100 clusters are resampled
    inputs = rows_of(name, seed=0 if name == "cpd_ap" else 7, n=300) | INTERVALS  # of which all resamples spread
    expected = compute(name, inputs)
    assert expected["confidence"] == 0.9
    for part in (expected, *expected.get("per_category", {}).values()):
        intervals = {key.removesuffix("_interval"): value for key, value in part.items() if key.endswith("_interval")}
        assert intervals
        for key, interval in intervals.items():
            labelled = interval if isinstance(interval, dict) else {None: interval}
            for label, (low, high) in labelled.items():
                assert low <= (part[key] if label is None else part[key][label]) <= high
                assert low < high
    for change in ({"clusters": None}, {"confidence": 0.5}, {"resamples": 150}, {"seed": 1}):
        result = compute(name, inputs | change)
        parts = [(result, expected)]
        parts += [(result["per_category"][label], part) for label, part in expected.get("per_category", {}).items()]
        for part, other in parts:
            assert any(part[key] != other[key] for key in part if key.endswith("_interval")), change
    if name != "paired_difference":  # which always has one
        assert not [path for path in numbers(compute(name, inputs | {"confidence": None})) if "interval" in str(path)]


def masked(rows, mask=True):
    """The rows as an array whose first value is masked; rows that are mappings with their first field so."""
    if isinstance(rows[0], dict):
        key = "boxes" if "boxes" in rows[0] else next(iter(rows[0]))
        place = next(place for place, row in enumerate(rows) if len(row[key]))
        return [row | {key: masked(row[key], mask)} if at == place else row for at, row in enumerate(rows)]
    if len({np.shape(row) for row in rows}) > 1:
        return [masked(rows[0], mask), *rows[1:]]
    values = np.ma.array(rows, mask=False)
    values[(0,) * values.ndim] = np.ma.masked if mask else values[(0,) * values.ndim]
    return values


@EVERY
def test_a_masked_value_is_rejected_in_every_input(name):
    module, inputs = load_metric(name), rows_of(name)
    settings = CASES[name].settings

    def run(rows):
        columns = [rows[key] for key in input_names(name)]
        return module.function(*columns, **{k: v for k, v in rows.items() if k not in input_names(name)}, **settings)

    for key in inputs:
        with pytest.raises(ScoresError, match=r"mask 1 of [\d,]+ values; leave these examples out"):
            run(inputs | {key: masked(inputs[key])})
    with pytest.raises(ScoresError, match="leave these examples out"):
        module.compute(**inputs | {key: masked(inputs[key])}, **settings)
    unmasked = {key: masked(rows, mask=False) for key, rows in inputs.items() if key in input_names(name)}
    assert_same(run(inputs | unmasked), run(inputs))


@pytest.mark.parametrize("name", ["cpd_ap", "grounding_recall", "group_recall_at_1"])
def test_a_key_too_many_or_too_few_is_named_with_its_row(name):
    inputs = rows_of(name)
    for row, change, message in (
        (0, lambda r: r | {"labels": []}, "the unknown key 'labels' in row 0"),
        (2, lambda r: {key: r[key] for key in ("boxes", "scores")}, "lack phrase_ids in row 2"),
    ):
        predictions = list(inputs["predictions"])
        predictions[row] = change(predictions[row])
        with pytest.raises(ScoresError, match=message):
            compute(name, inputs | {"predictions": predictions})
