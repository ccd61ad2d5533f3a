"""The ARO metric: its averages, its tasks, the authors' code, and the paper's Table 2."""

import json
import math
import re

import numpy as np
import pytest
from cards import card_rows, paper_text
from hypothesis import given
from hypothesis import strategies as st

from vl_assay.metrics.common.errors import VLAssayError
from vl_assay.metrics.functional.aro import SPATIAL, SYMMETRIC, VERBS, aro_accuracy
from vl_assay.metrics.modules.discovery import load_metric

RIGHT, WRONG, TIE = [2, 1], [1, 2], [1, 1]


@pytest.fixture
def metric():
    return load_metric("aro_itm")


def test_relations_by_arithmetic(metric):
    inputs = {
        "predictions": [RIGHT, WRONG, RIGHT, TIE, RIGHT, RIGHT, RIGHT],
        "references": [0] * 7,
        "categories": ["on", "on", "on", "under", "eating", "next to", "haunting"],
    }
    assert metric.compute(**inputs, keep_symmetric=True)["accuracy"] == 5 / 7
    result = metric.compute(**inputs)
    part = {"tie_rate": 0.0, "n": 1}
    assert result == {
        "accuracy": pytest.approx(4 / 6),  # on 2 of 3, under 0 of 1 (a tie), eating 1 of 1, haunting 1 of 1
        "macro_accuracy": pytest.approx(2 / 3),  # (2/3 + 0 + 1 + 1) / 4
        "tie_rate": pytest.approx(1 / 6),
        "n": 6,  # all but "next to"
        "per_category": {
            "on": {"accuracy": pytest.approx(2 / 3), "tie_rate": 0.0, "n": 3},
            "under": {"accuracy": 0.0, "tie_rate": 1.0, "n": 1},
            "eating": {"accuracy": 1.0, **part},
            "haunting": {"accuracy": 1.0, **part},
        },
        "per_group": {
            # on and under: 2 of 4; (2/3 + 0) / 2
            "spatial": {"accuracy": 0.5, "macro_accuracy": pytest.approx(1 / 3), "tie_rate": 0.25, "n": 4},
            "verb": {"accuracy": 1.0, "macro_accuracy": 1.0, **part},  # eating; haunting is not in Table 2
        },
        "rare": {},
        "n_symmetric": 1,
    }


def test_pairs_of_attributes_with_fewer_than_25_examples_are_not_in_the_macro_average(metric):
    pairs = [["small", "brown"]] * 25 + [["open", "white"]] * 24 + [["gray", "wood"]] * 50
    scores = [RIGHT] * 20 + [WRONG] * 5 + [RIGHT] * 24 + [RIGHT] * 10 + [WRONG] * 40
    inputs = {"predictions": scores, "references": [0] * 99, "categories": pairs, "task": "attribution"}
    result = metric.compute(**inputs)
    assert result["accuracy"] == pytest.approx(54 / 99)  # 20 + 24 + 10
    assert result["macro_accuracy"] == pytest.approx(0.5)  # (20/25 + 10/50) / 2
    assert result["rare"] == {"open & white": 24}
    assert result["per_category"]["open & white"] == {"accuracy": 1.0, "tie_rate": 0.0, "n": 24}
    assert metric.compute(**inputs, min_count=24)["macro_accuracy"] == pytest.approx(2 / 3)  # (0.8 + 0.2 + 1) / 3
    assert metric.compute(**inputs, min_count=50)["macro_accuracy"] == pytest.approx(0.2)
    nothing = metric.compute(**inputs, min_count=51, confidence=0.9, resamples=100)
    assert (nothing["macro_accuracy"], nothing["macro_accuracy_interval"]) == (None, None)
    assert nothing["accuracy_interval"][0] < 54 / 99 < nothing["accuracy_interval"][1]


GRID = st.lists(st.lists(st.integers(0, 2), min_size=5, max_size=5), min_size=1, max_size=30)


@given(scores=GRID)
def test_on_visual_genome_the_authors_argmax_is_ties_wrong(scores):
    pairs = np.array(scores, dtype=np.float16)[:, :2]  # their captions: [false, true]
    predicted = np.argmax(pairs, axis=-1)
    result = aro_accuracy(pairs, [1] * len(pairs), ties="wrong")
    assert result["accuracy"] == pytest.approx((predicted == 1).mean())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"categories": ["near", "next to"]}, "all relations are symmetric.*pass others, or keep_symmetric=True"),
        ({"categories": [["a", "b"], ["c", None]], "task": "attribution"}, "categories are missing in row 1"),
        ({"categories": [[], ["c", "d"]], "task": "attribution"}, "categories are missing in row 0"),
        ({"categories": [["a", math.nan], ["c", "d"]], "task": "attribution"}, "categories are missing in row 0"),
        ({"min_count": 0}, "min_count is 0; it must be a whole number of at least 1"),
        ({"task": "relations"}, r"unknown ARO task .*known: relation, attribution, order"),
    ],
)
def test_unusable_input_is_rejected_with_a_remedy(metric, options, message):
    with pytest.raises(VLAssayError, match=message):
        metric.compute(**{"predictions": [RIGHT, WRONG], "references": [0, 0], **options})


@pytest.fixture(scope="module")
def paper(shared_data):
    return paper_text(shared_data, 4)


def table_2(paper):
    """The relations of each half with six accuracies and a count each, and the averages as they are printed."""
    text = paper.split("Table 2: Fine-grained results")[1].split("\nB\nMODELS\n")[0]
    rows = []
    for line in map(str.strip, text.splitlines()):
        if re.fullmatch(r"\d+(\.\d+)?", line):
            rows[-1][1].append(line)
        else:
            rows.append((line, []))
    half, relations, printed = "all", {"Spatial Relationships": {}, "Verbs": {}}, {}
    for name, cells in rows:
        if name in relations:
            half = name
        elif name == "Accuracy":
            printed[half] = cells
        elif cells:
            relations[half][name] = ([float(cell) for cell in cells[:6]], int(cells[6]))
    return relations["Spatial Relationships"], relations["Verbs"], list(printed.values())


def test_the_sets_of_relations_are_those_of_the_paper_and_its_authors(paper, shared_data):
    spatial, verbs, _ = table_2(paper)
    assert set(spatial) == SPATIAL
    assert set(verbs) == VERBS
    assert (len(SPATIAL), len(VERBS)) == (13, 32)
    names = json.loads((shared_data / "data" / "aro" / "symmetric_relations.json").read_text(encoding="utf-8"))
    assert set(names) == SYMMETRIC
    assert len(names) == len(SYMMETRIC) == 157
    assert not SYMMETRIC & (SPATIAL | VERBS)


@pytest.mark.parametrize("model", range(6), ids=["CLIP", "NegCLIP", "CLIP-FT", "XVLM", "BLIP", "Flava"])
def test_table_2_has_the_averages_that_its_rows_give(paper, model):
    spatial, verbs, printed = table_2(paper)
    relations = {name: (accuracies[model], n) for name, (accuracies, n) in (spatial | verbs).items()}
    scores, names = [], []
    for name, (accuracy, n) in relations.items():
        right = round(accuracy * n)
        scores += [RIGHT] * right + [WRONG] * (n - right)
        names += [name] * n
    # Four relations of the authors' list, of which every example is right: they count in nothing.
    others = sorted(SYMMETRIC)[:4] * 25
    result = aro_accuracy(scores + [RIGHT] * 100, [0] * (len(names) + 100), categories=names + others)
    assert (result["n"], result["n_symmetric"], len(result["per_category"])) == (21_917, 100, 45)
    # What whole numbers of right examples lose: half an example, or half of the last digit printed.
    lost = {name: min(0.5 / n, 0.005) for name, (_, n) in relations.items()}
    parts = (relations, result), (spatial, result["per_group"]["spatial"]), (verbs, result["per_group"]["verb"])
    for (rows, part), averages in zip(parts, printed, strict=True):
        macro = sum(relations[name][0] for name in rows) / len(rows)
        lost_here = sum(lost[name] for name in rows) / len(rows)
        assert part["macro_accuracy"] == pytest.approx(macro, abs=lost_here)
        assert part["macro_accuracy"] == pytest.approx(float(averages[model]), abs=0.005 + lost_here)
        assert part["n"] == sum(relations[name][1] for name in rows)
    micro = sum(accuracy * n for accuracy, n in relations.values()) / 21_917
    lost_there = sum(lost[name] * n for name, (_, n) in relations.items()) / 21_917
    assert result["accuracy"] == pytest.approx(micro, abs=lost_there)
    macro = sum(accuracy for accuracy, _ in relations.values()) / 45
    [*_, shown_macro, shown_micro] = card_rows("aro_itm", "model", "all")[model]
    assert (shown_macro, shown_micro) == (f"{100 * macro:.1f}", f"{100 * micro:.1f}")


def test_order_by_arithmetic(metric):
    scores = [[5, 1, 2, 3, 4], [4, 4, 1, 2, 3], [4, 4, 4, 4, 4], [1, 2, 3, 3, 3]]  # best, 1 tie, 4 ties, beaten
    inputs = {"predictions": scores, "references": [0] * 4, "task": "order"}
    for ties, accuracy in {"wrong": 1 / 4, "half": (1 + 1 / 2 + 1 / 5) / 4, "right": 3 / 4}.items():
        result = metric.compute(**inputs, ties=ties)
        assert result["accuracy"] == result["macro_accuracy"] == pytest.approx(accuracy)
        assert (result["tie_rate"], result["n"], result["n_symmetric"]) == (0.5, 4, 0)
    by_source = metric.compute(**inputs, categories=["coco", "coco", "coco", "flickr30k"])
    assert (by_source["macro_accuracy"], by_source["rare"]) == (pytest.approx(1 / 6), {})  # (1/3 + 0/1) / 2
