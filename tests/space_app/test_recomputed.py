"""What is made of predictions: the entries of the leaderboard, and the models that cannot be told from the best."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from report_support import answers, detections, groups, matching, write

from vl_assay.hub_datasets import report
from vl_assay.hub_datasets.core.benchmarks import get_task
from vl_assay.metrics.common.errors import PredictionsError
from vl_assay.metrics.modules.discovery import get_spec
from vl_assay.metrics.records.predictions import Predictions, read_predictions
from vl_assay.metrics.records.schema import MatchingRow
from vl_assay.metrics.results.compute import compute
from vl_assay.metrics.results.scores import score_rows
from vl_assay.space_app.board.entries import BoardColumn, chance_levels, of_results, parameter_count
from vl_assay.space_app.board.paired import PairedTests

# Scores of few values, so that some tie.
PREDICTIONS = {
    "sugarcrepe/itm": lambda rng: matching(rng.integers(0, 4, (80, 2)), ("add_att", "swap_obj")),
    "aro/attribution": lambda rng: matching(rng.integers(0, 4, (80, 2)), ["a & b"] * 9 + ["c & d"]),  # a rare pair
    "toy_scenes/hard_positives": lambda rng: matching(rng.integers(0, 4, (80, 3)), ("x", "y")),
    "winoground/groups": lambda rng: groups(rng.integers(0, 4, (80, 2, 2)), ("x", "y")),
    "toy_scenes/vqa": lambda rng: answers(rng.integers(-1, 2, 80)),
    "toy_scenes/detection": lambda rng: detections(rng, 20),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """For each task the paths of two predictions files; in those of choices every seventh example lacks its image."""
    folder = tmp_path_factory.mktemp("predictions")
    found = {}
    for task, make in PREDICTIONS.items():
        for seed in (0, 1):
            rows = make(np.random.default_rng(seed))
            if isinstance(rows[0], MatchingRow):
                rows[::7] = [replace(row, images=[""] * len(row.images), scores=None) for row in rows[::7]]
            path, about = folder / f"{task.replace('/', '.')}.{seed}.parquet", {"family": "clip", "parameters": 7}
            found.setdefault(task, []).append(write(path, rows, *task.split("/"), about=about))
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
    first = of_results(results["sugarcrepe/itm"], model=typed)[0]
    assert (first.model, first.family, first.parameters, first.training_data) == ("Mine", "clip", 1_500_000_000, "")
    assert of_results(results["sugarcrepe/itm"])[0].parameters == 7


def test_chance_is_a_reference_entry_of_each_score_once(results):
    found = chance_levels([*results["toy_scenes/hard_positives"], *results["toy_scenes/hard_positives"]])
    assert {one.score: one.value for one in found} == {
        "original_accuracy": 1 / 2, "augmented_accuracy": 1 / 3, "gap": 1 / 6,
        "brittleness": 1 / 3, "both_wrong": 1 / 3,
    }  # fmt: skip
    assert all(one.is_reference and one.model == "Chance" for one in found)


@pytest.mark.parametrize(
    ("benchmark", "task", "rows"),
    [("sugarcrepe", "itm", matching(np.ones((40, 2)))), ("eqben", "groups", groups(np.ones((40, 2, 2))))],
)
def test_one_of_several_configurations_fills_the_columns_of_its_category_alone(benchmark, task, rows, tmp_path):
    configs = get_task(benchmark, task).configs

    def results_of(configs):
        facts = ({"config": name, "category": name, "tags": []} for name in configs)
        found = [replace(row, id=f"{each['config']}/{row.id}", **each) for each in facts for row in rows]
        return compute(write(tmp_path / "a.parquet", found, benchmark, task, configs=[*configs]))

    whole, part = results_of(configs), results_of(configs[:1])
    columns = {entry.column for entry in of_results(whole)}
    assert len({column.category for column in columns}) == 1 + len(configs)
    assert {entry.column for entry in of_results(part)} == {each for each in columns if each.category == configs[0]}
    assert (chance_levels(part), bool(chance_levels(whole))) == ([], True)


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


def predictions_of(rows, benchmark="sugarcrepe", task="itm"):
    return Predictions(rows, {"benchmark": {"name": benchmark, "task": task}, "model": {"name": "m"}})


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
    return predictions_of(rows)


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
    predictions = {"a": predictions_of(mixed), "b": predictions_of(other)}
    assert shared(predictions) == shared(predictions, category="swap_obj") == {"a"}
    assert shared(predictions, category="add_obj") == {"a", "b"}
    assert shared(predictions, category="add_att") == frozenset()
    assert shared({"a": right_on((), lost=range(200))}) == frozenset()


def test_wins_of_a_score_that_is_better_when_lower_are_of_the_lower_model():
    def predictions(brittle):
        triples = [[2.0, 0.0, 1.0] if k < brittle else [2.0, 2.0, 1.0] for k in range(100)]
        rows = [MatchingRow(f"{k}", "c", "c", [f"i{k}"], [0], [scores]) for k, scores in enumerate(triples)]
        return predictions_of(rows, "toy_scenes", "hard_positives")

    column = BoardColumn("toy_scenes", "hard_positives", "brittleness", "brittleness")
    tests = paired_tests({"brittle": predictions(90), "firm": predictions(10)})
    found = tests.difference("firm", "brittle", column)
    assert (found["wins"], found["losses"]) == (80, 0)
