"""What holds for every metric module: its folder, its card, its page, and what must not change its scores."""

from __future__ import annotations

import contextlib
import copy
import doctest
import importlib
import json
import math
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import evaluate
import numpy as np
import pandas
import pytest
import torch
import yaml
from metric_cases import CASES

import vl_assay.metrics
from vl_assay.metrics.errors import ScoresError, UnknownNameError
from vl_assay.metrics.modules import install_metric, load_metric, metric_names
from vl_assay.metrics.page import tabulate

METRICS = Path(vl_assay.metrics.__file__).parent
NAMES = metric_names()
EVERY = pytest.mark.parametrize("name", NAMES)


def test_every_metric_has_a_case():
    assert sorted(CASES) == NAMES


def module_of(name, part=None):
    return importlib.import_module(f"vl_assay.metrics.{name}.{part or name}")


def compute(name, inputs, **options):
    return load_metric(name).compute(**inputs, **{**CASES[name].settings, **options})


def set_scores(inputs, path, change):
    """A copy of the inputs with every score changed."""
    inputs = copy.deepcopy(inputs)

    def rescale(value):
        return [rescale(part) for part in value] if isinstance(value, list) else change(value)

    top, *below = path
    if below:
        for row in inputs[top]:
            row[below[0]] = rescale(row[below[0]])
    else:
        inputs[top] = rescale(inputs[top])
    return inputs


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


def rows_of(name, seed=0, n=60):
    rng = np.random.default_rng(seed)
    inputs = CASES[name].random(rng, n)
    rows = len(next(iter(inputs.values())))
    return inputs | {"clusters": [row // 3 for row in range(rows)]}


INTERVALS = {"confidence": 0.9, "resamples": 200}


# --- what must not matter -------------------------------------------------------------------------------------


@EVERY
def test_the_order_of_rows_does_not_matter(name):
    inputs = rows_of(name)
    order = np.random.default_rng(1).permutation(len(inputs["clusters"]))
    shuffled = {key: [rows[place] for place in order] for key, rows in inputs.items()}
    options = INTERVALS | CASES[name].settings
    assert_same(compute(name, shuffled, **options), compute(name, inputs, **options))


@EVERY
def test_rows_that_come_twice_change_counts_alone(name):
    case, inputs = CASES[name], rows_of(name, seed=2)
    if name == "group_recall_at_1":
        inputs["clusters"] = [pair // 2 for pair in inputs["pair_ids"]]
    options = INTERVALS | case.settings
    once, twice = compute(name, inputs, **options), compute(name, case.twice(inputs), **options)
    ignored = (*case.counts, "per_condition", "rare", "n_captions_without_image", *_by_size(name))
    assert_same(twice, once, without=ignored)
    for key in case.counts:
        assert twice[key] == 2 * once[key]


def _by_size(name):
    # McNemar's test knows no clusters: to it twice the rows are twice the evidence.
    return ("mcnemar_p_value", "mcnemar_method") if name == "paired_difference" else ()


@EVERY
@pytest.mark.parametrize("change", [lambda s: 3 * s + 7, math.exp, lambda s: s**3], ids=["linear", "exp", "cube"])
def test_a_monotone_rescaling_of_scores_does_not_matter(name, change):
    case, inputs = CASES[name], rows_of(name, seed=3)
    if name == "yes_no_f1":
        pytest.skip("answers are no scores")
    rescaled = set_scores(inputs, case.scores, change)
    assert_same(compute(name, rescaled), compute(name, inputs), without=case.depends_on_scale)


@EVERY
def test_other_modules_computed_before_do_not_matter(name):
    # The TRICD authors' script changes the predictions while it computes one score, and gets the next one wrong.
    inputs = rows_of(name, seed=4)
    before = copy.deepcopy(inputs)
    expected = compute(name, inputs)
    for other in NAMES:
        wanted = CASES[other].random(np.random.default_rng(0), 4).keys()
        if wanted <= inputs.keys():
            with contextlib.suppress(ValueError):  # of another shape
                compute(other, {key: inputs[key] for key in wanted})
    assert inputs == before
    assert compute(name, inputs) == expected


# --- what must not pass ---------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_is_refused_and_its_row_named(name, bad):
    inputs, case = rows_of(name, seed=5), CASES[name]
    top, *below = case.scores
    row = next(r for r, value in enumerate(inputs[top]) if r > 3 and (not below or value[below[0]]))
    target = inputs[top][row] if not below else inputs[top][row][below[0]]
    while isinstance(target, list) and isinstance(target[0], list):
        target = target[0]
    if isinstance(target, list):
        target[0] = bad
    else:
        inputs[top][row] = bad
    with pytest.raises(ScoresError, match=rf"\brows? {row}\b"):
        compute(name, inputs)


@EVERY
def test_an_empty_set_is_refused_with_the_cure(name):
    nothing = {key: [] for key in CASES[name].random(np.random.default_rng(0), 4)}
    with pytest.raises(ScoresError, match=r"at least|there are no"):
        compute(name, nothing)


@EVERY
def test_labels_of_another_number_are_refused(name):
    inputs = rows_of(name)
    with pytest.raises(ScoresError, match="clusters"):
        compute(name, inputs | {"clusters": inputs["clusters"][1:]}, **INTERVALS)


@EVERY
def test_confidence_outside_its_range_is_refused(name):
    with pytest.raises(ScoresError, match="confidence is 95"):
        compute(name, rows_of(name), confidence=95)


@EVERY
def test_after_a_refusal_the_next_call_starts_afresh(name):
    module, inputs = load_metric(name), rows_of(name)
    with pytest.raises(ScoresError):
        module.compute(**inputs, confidence=95)
    assert module.compute(**inputs, **CASES[name].settings)["n"] > 0


@EVERY
def test_an_unknown_option_names_the_known_ones(name):
    with pytest.raises(UnknownNameError, match=r"unknown option 'tie'; known: .*confidence"):
        compute(name, rows_of(name), tie="half")


@EVERY
def test_a_batch_that_is_refused_leaves_nothing_behind(name):
    inputs = {key: rows for key, rows in rows_of(name).items() if key in load_metric(name)._feature_names()}
    others = {key: rows for key, rows in rows_of(name).items() if key not in inputs}
    module = load_metric(name)
    expected = module.compute(**inputs, **others, **CASES[name].settings)
    first = next(iter(inputs))
    for bad in (inputs | {first: [object()] * 3}, inputs | {first: None}, inputs | {first: 5}):
        with pytest.raises(ValueError, match=r"."):
            module.add_batch(**bad)
    assert module.compute(**inputs, **others, **CASES[name].settings) == expected


@pytest.mark.parametrize("name", ["sugarcrepe_itm", "aro_itm", "artifact_gap", "paired_difference", "retrieval_recall"])
@pytest.mark.parametrize("kind", [list, np.array, torch.tensor], ids=["list", "numpy", "torch"])
def test_booleans_are_no_indices(name, kind):
    names = load_metric(name)._feature_names()
    inputs = {key: [[0.9, 0.1]] * 4 for key in names} | {"references": kind([True] * 4)}
    with pytest.raises(ScoresError, match="booleans, which could mean either caption"):
        load_metric(name).compute(**inputs)


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


def test_a_filtered_pandas_column_is_read():
    frame = pandas.DataFrame({"scores": [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]], "correct": [0, 0, 0]}).iloc[1:]
    result = load_metric("sugarcrepe_itm").compute(predictions=frame["scores"], references=frame["correct"])
    assert (result["accuracy"], result["n"]) == (0.5, 2)


# --- what every result has ------------------------------------------------------------------------------------


@EVERY
def test_results_are_json_and_say_how_many_examples_there_were(name):
    result = compute(name, rows_of(name))
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert isinstance(result["n"], int)
    assert name == "yes_no_f1" or any("tie_rate" in key for key in result)


@EVERY
def test_with_confidence_every_result_has_intervals_around_its_scores(name):
    result = compute(name, rows_of(name, n=300), **INTERVALS)
    assert result["confidence"] == 0.9
    intervals = {key.removesuffix("_interval"): value for key, value in result.items() if key.endswith("_interval")}
    assert intervals
    for key, (low, high) in intervals.items():
        assert low <= result[key] <= high
        assert low < high


@EVERY
def test_the_table_of_a_result_has_all_its_scores(name):
    result = compute(name, rows_of(name))
    headers, lines = tabulate(result)
    assert lines[-1][0] == "all"
    assert {len(line) for line in lines} == {len(headers)}
    shown = dict(zip(headers, lines[-1], strict=True))
    assert shown["n"] == result["n"]


# --- folder, card and page ------------------------------------------------------------------------------------


@pytest.fixture
def at_the_root(monkeypatch):
    """The examples load a metric by its path in a checkout."""
    monkeypatch.chdir(METRICS.parent)


@EVERY
@pytest.mark.usefixtures("at_the_root")
def test_the_examples_of_the_module_run(name):
    outcome = doctest.testmod(module_of(name))
    assert outcome.failed == 0
    assert outcome.attempted >= 3


def card(name):
    text = (METRICS / name / "README.md").read_text(encoding="utf-8")
    front_matter, body = text.removeprefix("---\n").split("\n---\n", 1)
    return yaml.safe_load(front_matter), body


@EVERY
@pytest.mark.usefixtures("at_the_root")
def test_the_examples_of_the_card_run(name):
    blocks = re.findall(r"```python\n(.*?)```", card(name)[1], flags=re.DOTALL)
    assert blocks
    for number, block in enumerate(blocks):
        test = doctest.DocTestParser().get_doctest(block, {}, f"{name} card block {number}", "README.md", 0)
        assert test.examples
        assert doctest.DocTestRunner().run(test).failed == 0


@EVERY
def test_the_card_is_that_of_a_metric_space(name):
    meta, text = card(name)
    assert meta["sdk"] == "gradio"
    assert meta["python_version"] == "3.11"
    assert meta["tags"] == ["evaluate", "comparison" if name == "paired_difference" else "metric"]
    assert (METRICS / name / meta["app_file"]).is_file()
    assert (METRICS / name / "requirements.txt").read_text(encoding="utf-8") == "vl-assay[space]\n"
    for heading in ("Definition", "Gates", "How to use", "Inputs", "Outputs", "Reference values", "Limitations"):
        assert re.search(rf"^##+ {heading}", text, flags=re.MULTILINE), heading
    assert load_metric(name).citation.strip() in text


def gates(name):
    """The rows of the card's table of gates, as dictionaries."""
    section = card(name)[1].split("## Gates")[1].split("\n## ")[0]
    lines = [
        [cell.strip() for cell in line.strip().strip("|").split("|")] for line in section.splitlines() if "|" in line
    ]
    header, _, *rows = lines
    return [dict(zip(header, row, strict=True)) for row in rows]


GATES = [(name, row) for name in NAMES for row in (gates(name) if (METRICS / name / "README.md").is_file() else [])]


@pytest.mark.parametrize(("name", "row"), GATES, ids=[f"{n}-{r['scorer']}-{r.get('ties')}" for n, r in GATES])
def test_gates_score_what_the_card_says(name, row):
    case, rng = CASES[name], np.random.default_rng(6)
    cells = {key: cell for key, cell in row.items() if key not in ("scorer", "ties") and cell != "–"}
    assert cells
    options = {"ties": row["ties"]} if row.get("ties", "–") != "–" else {}
    if row["scorer"] == "NaN":
        assert set(cells.values()) == {"refused"}
        with pytest.raises(ScoresError):
            compute(name, set_scores(case.random(rng, 30), case.scores, lambda _: math.nan), **options)
        return
    constant = row["scorer"].startswith("constant")
    assert constant or row["scorer"] == "random"
    result = compute(name, (case.constant if constant else case.random)(rng, 4_000), **options)
    for key, cell in cells.items():
        assert result[key] == pytest.approx(float(cell), abs=1e-9 if constant else 0.03), key


def test_every_card_says_what_a_constant_and_a_nan_get():
    for name in NAMES:
        scorers = {row["scorer"].split(",")[0] for row in gates(name)}
        assert {"constant", "NaN"} <= scorers | ({"NaN"} if name == "yes_no_f1" else set()), name


@EVERY
def test_the_page_judges_its_example(name):
    page = module_of(name, "app").PAGE
    chosen = [values[0] for values in page.options.values()]
    result = page.judge(page.example, *chosen)
    assert result["n"] >= 1
    with pytest.raises(ScoresError, match="the table is empty"):
        page.judge([[""] * len(page.columns)], *chosen)


@EVERY
def test_the_page_starts(name):
    page = module_of(name, "app").PAGE
    blocks = page.build()
    _, url, _ = blocks.launch(prevent_thread_lock=True, quiet=True, share=False)
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            assert page.title in answer.read().decode()
    finally:
        blocks.close()


def test_bare_names_load_from_any_folder_after_install(tmp_path):
    for name in NAMES:
        install_metric(name)
    code = f"import evaluate\nfor name in {NAMES}: print(type(evaluate.load(name)).__name__)"
    process = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert process.stdout.split() == [type(load_metric(name)).__name__ for name in NAMES]


@EVERY
def test_the_module_describes_itself(name):
    module = load_metric(name)
    assert len(module.description) > 30
    assert "Args:" in module.inputs_description
    assert "Returns:" in module.inputs_description
    assert isinstance(module, evaluate.EvaluationModule)
