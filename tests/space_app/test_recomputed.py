"""What is made of predictions: the entries of the leaderboard, and the models that cannot be told from the best."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from report_support import declared

from vl_assay.hub_datasets import report
from vl_assay.hub_datasets.core.benchmarks import get_task
from vl_assay.metrics.common.errors import PredictionsError
from vl_assay.metrics.modules.discovery import get_spec
from vl_assay.metrics.records.predictions import Predictions, read_predictions, write_predictions
from vl_assay.metrics.records.schema import DetectionRow, MatchingRow, VQARow
from vl_assay.metrics.results.scores import score_rows
from vl_assay.space_app.board.entries import BoardColumn, chance_levels, of_results, parameter_count
from vl_assay.space_app.board.paired import PairedTests


def predictions_of(rows, benchmark, task, configs, model="some model"):
    said = {"name": benchmark, "task": task, "configs": configs, "rows": len(rows), "missing": []}
    said["metrics"] = declared(benchmark, task)
    said["missing"] = [row.id for row in rows if not row.is_scored]
    return Predictions(
        rows, {"benchmark": said, "model": {"name": model, "family": "clip", "parameters": 7}, "run": {}}
    )


def matching_predictions(benchmark, task, categories, shape, seed, n=120, tags=()):
    """Random scores of few values, so that some tie; every seventh example lacks its image."""
    rng = np.random.default_rng(seed)
    rows = [
        MatchingRow(
            id=f"{number}",
            config=task,
            category=categories[number % len(categories)],
            images=[f"i{rng.integers(n // 3)}" if number % 7 else "" for _ in range(shape[0])],
            correct=list(range(shape[0])),
            scores=rng.integers(0, 4, shape).astype(float).tolist() if number % 7 else None,
            tags=[str(tag) for tag in tags if rng.random() < 0.5],
        )
        for number in range(n)
    ]
    return predictions_of(rows, benchmark, task, list(get_task(benchmark, task).configs))


def answer_predictions(seed, n=120):
    rng = np.random.default_rng(seed)
    rows = [
        VQARow(f"{number}", "vqa", "object", [f"i{number // 2}"], "is it?", number % 2 == 0, float(rng.integers(-1, 2)))
        for number in range(n)
    ]
    return predictions_of(rows, "toy_scenes", "vqa", ["vqa"])


def detection_predictions(seed, n=60):
    """A phrase with one true box, of which the model finds some, and the same phrase on a distractor."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(n):
        truth = [[[0.0, 0.0, 4.0, 4.0]]] if number % 2 == 0 else [[]]
        boxes = [[0.0, 0.0, 4.0, 4.0], [6.0, 6.0, 9.0, 9.0]]
        scores = rng.permutation([0.5, 0.75]).tolist() if number % 3 else rng.random(2).tolist()
        phrases = [{"text": "a cat", "start": 0, "end": 5}]
        place = (f"{number}", "detection", ["easy", "hard"][number // 2 % 2], [f"i{number}"])
        rows.append(DetectionRow(*place, number % 2 == 0, f"{number // 2}", phrases, truth, [boxes], [scores]))
    return predictions_of(rows, "toy_scenes", "detection", ["detection"])


PREDICTIONS = {
    "sugarcrepe_itm": lambda seed: matching_predictions("sugarcrepe", "itm", ["add_att", "swap_obj"], (1, 2), seed),
    "aro_itm, rare pairs": lambda seed: matching_predictions(
        "aro", "attribution", ["a & b"] * 9 + ["c & d"], (1, 2), seed
    ),
    "triples": lambda seed: matching_predictions("toy_scenes", "hard_positives", ["x", "y"], (1, 3), seed),
    "group_match": lambda seed: matching_predictions("winoground", "groups", ["x", "y"], (2, 2), seed, tags=("t", "u")),
    "yes_no_f1": answer_predictions,
    "boxes": detection_predictions,
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """For each kind of predictions the paths of two of them."""
    folder = tmp_path_factory.mktemp("predictions")
    found = {}
    for name, make in PREDICTIONS.items():
        found[name] = [folder / f"{name}.{seed}.parquet" for seed in (0, 1)]
        for seed, path in enumerate(found[name]):
            write_predictions(path, make(seed))
    return found


@pytest.fixture(scope="module")
def results(files):
    return {name: report(paths[0], resamples=100) for name, paths in files.items()}


def test_entries_hold_every_number_of_the_report_and_no_other(results):
    for of_file in results.values():
        for result in of_file:
            found = {(one.score, one.category): one for one in of_results([result], source="id")}
            for row in score_rows(result):
                prefix = "macro_" if row.category == "macro average" else ""
                category = "" if row.is_average else row.category
                if row.value is not None:
                    one = found[prefix + row.score, category]
                    assert (one.value, one.interval, one.n) == (row.value, row.interval, row.n)
                    assert (one.predictions, one.source) == (result.predictions["sha256"], "id")
            shown = result.table_scores
            assert {score for score, _ in found} <= {*shown, *(f"macro_{score}" for score in shown)}
    typed = {"name": "Mine", "family": "", "parameters": "1.5B", "link": "https://x"}
    first = of_results(results["sugarcrepe_itm"], model=typed)[0]
    assert (first.model, first.family, first.parameters, first.training_data) == ("Mine", "clip", 1_500_000_000, "")
    assert of_results(results["sugarcrepe_itm"])[0].parameters == 7


def test_chance_is_a_reference_entry_of_each_score_once(results):
    found = chance_levels([*results["triples"], *results["triples"]])
    assert {one.score: one.value for one in found} == {
        "original_accuracy": 1 / 2, "augmented_accuracy": 1 / 3, "gap": 1 / 6,
        "brittleness": 1 / 3, "both_wrong": 1 / 3,
    }  # fmt: skip
    assert all(one.is_reference and one.model == "Chance" for one in found)


COUNTS = {
    "151,277,313": 151_277_313, 7: 7, "151.3M": 151_300_000, "1.4 b": 1_400_000_000, "0": None, "-1": None, "1e9": None,
    "": None, None: None, "many": None, "9" * 17: None, "²": None,
}  # fmt: skip


def test_parameter_counts_are_read_as_people_write_them():
    assert {text: parameter_count(text) for text in COUNTS} == COUNTS


# Which models cannot be told from the best.

ACCURACY = BoardColumn("sugarcrepe", "itm", "sugarcrepe_itm", "accuracy")


def paired_tests(predictions):
    """The paired tests of predictions by name."""
    return PairedTests(lambda name, task: predictions[name])


def marks(predictions, column):
    """The models that share the mark, of predictions by name."""
    return paired_tests(predictions).shared({name: name for name in predictions}, column)


def test_every_score_of_the_board_has_a_difference_and_marks_that_follow_from_it(files, results):
    compared = set()
    for name, paths in files.items():
        predictions = dict(zip("ab", map(read_predictions, paths), strict=True))
        tests = paired_tests(predictions)
        theirs = of_results(report(paths[1], resamples=100))
        others = {(one.metric, one.score): one.value for one in theirs if not one.category}
        for one in of_results(results[name]):
            if one.category:
                continue
            place = (one.metric, one.score)
            found, other = tests.difference("a", "b", one.column), others[place]
            assert found["difference"] == pytest.approx(one.value - other, abs=1e-12), place
            is_first = (one.value > other) is get_spec(one.metric).is_higher_better(one.score)
            best = {"a" if is_first else "b"}
            assert marks(predictions, one.column) == (best if found["permutation_p_value"] <= 0.05 else {"a", "b"}), (
                place
            )
            compared.add(place)
    assert {("cpd_ap", "ap"), ("yes_no_f1", "macro_f1"), ("group_recall_at_1", "macro_recall_at_1")} <= compared
    assert len(compared) > 20


def right_on(numbers, n=200, category="swap_obj", lost=()):
    """A predictions file that is right on the examples of these numbers; each image has two examples."""
    numbers, lost = set(numbers), set(lost)
    rows = [
        MatchingRow(
            f"{k}", category, category, ["" if k in lost else f"i{k // 2}"], [0],
            None if k in lost else [[1.0, 0.0] if k in numbers else [0.0, 1.0]],
        )
        for k in range(n)
    ]  # fmt: skip
    return predictions_of(rows, "sugarcrepe", "itm", [category])


def shared(predictions, score="accuracy", category=""):
    return marks(predictions, ACCURACY._replace(score=score, category=category))


def test_models_that_differ_by_chance_share_the_mark_and_those_that_differ_surely_do_not():
    predictions = {"best": right_on(range(150)), "near": right_on(range(148)), "far": right_on(range(90))}
    assert shared(predictions) == {"best", "near"}
    assert shared(predictions, "macro_accuracy") == {"best", "near"}
    assert shared({"only": predictions["far"]}) == {"only"}
    copies = {"best": predictions["best"], "copy": predictions["best"], "far": predictions["far"]}
    assert shared(copies) == {"best", "copy"}


def test_models_are_compared_on_the_examples_that_both_have():
    lost = right_on(range(150), lost=range(100, 200))  # right on all that it has, and so the best
    assert shared({"lost": lost, "whole": right_on(range(150))}) == {"lost", "whole"}
    assert shared({"lost": lost, "whole": right_on(range(50, 200))}) == {"lost"}
    nothing_shared = {"a": right_on(range(200), lost=range(100)), "b": right_on((), lost=range(100, 200))}
    assert shared(nothing_shared) == {"a", "b"}
    with pytest.raises(PredictionsError, match="no example in common"):
        paired_tests(nothing_shared).pair("a", "b", ACCURACY)


def test_a_category_is_compared_by_its_own_examples():
    wrong = [replace(row, id=f"x{row.id}", category="add_obj") for row in right_on((), 100).rows]
    mixed, other = [*right_on(range(100), 100).rows, *wrong], [*right_on((), 100).rows, *wrong]
    predictions = {
        name: predictions_of(rows, "sugarcrepe", "itm", ["swap_obj"]) for name, rows in (("a", mixed), ("b", other))
    }
    assert shared(predictions) == shared(predictions, category="swap_obj") == {"a"}
    assert shared(predictions, category="add_obj") == {"a", "b"}
    assert shared(predictions, category="add_att") == frozenset()
    assert shared({"a": right_on((), lost=range(200))}) == frozenset()


def test_wins_of_a_score_that_is_better_when_lower_are_of_the_lower_model():
    def predictions(brittle):
        triples = [[2.0, 0.0, 1.0] if k < brittle else [2.0, 2.0, 1.0] for k in range(100)]
        rows = [MatchingRow(f"{k}", "c", "c", [f"i{k}"], [0], [scores]) for k, scores in enumerate(triples)]
        return predictions_of(rows, "toy_scenes", "hard_positives", ["hard_positives"])

    column = BoardColumn("toy_scenes", "hard_positives", "brittleness", "brittleness")
    tests = paired_tests({"brittle": predictions(90), "firm": predictions(10)})
    found = tests.difference("firm", "brittle", column)
    assert (found["wins"], found["losses"]) == (80, 0)
