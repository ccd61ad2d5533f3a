"""Two models on the same examples: `vl-assay compare`, held to what `report` says of each sheet."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vl_assay.hub_datasets import Comparison, compare, judge
from vl_assay.hub_datasets._comparing import print_comparison, to_json, to_markdown
from vl_assay.metrics._console import main
from vl_assay.metrics.aro import SYMMETRIC
from vl_assay.metrics.errors import ScoresError, SheetError, UnknownNameError
from vl_assay.metrics.sheet_rows import AnswerRow, DetectionRow, MatchingRow, RetrievalRow
from vl_assay.metrics.sheets import Sheet, file_hash, write_sheet

QUICK = {"resamples": 100, "permutations": 100}
CATEGORIES = ("swap_obj", "swap_att", "replace_obj")


def write(path, rows, benchmark="toy_scenes", task="itm", model="a", **changes):
    missing = [row.id for row in rows if not row.is_scored]
    facts = {"name": benchmark, "task": task, "rows": len(rows), "missing": missing, "fingerprint": "f" * 64}
    write_sheet(path, Sheet(rows, {"model": {"name": model}, "benchmark": facts | changes, "kind": rows[0].kind}))
    return path


def matching(scores, categories=CATEGORIES, config="itm"):
    """Rows of one image each, of which every two are of the same image, from scores of shape (n, k)."""
    return [
        MatchingRow(str(n), config, categories[n % len(categories)], [f"i{n // 2}"], [0], [list(map(float, row))])
        for n, row in enumerate(scores)
    ]


def groups(scores):
    """Groups of two images; one in three has tags, of which one looks like a row's number."""
    return [
        MatchingRow(
            str(n),
            "groups",
            CATEGORIES[n % 2],
            [f"i{n}", f"j{n}"],
            [0, 1],
            each.tolist(),
            tags=[] if n % 3 else ["1", "tag"],
        )
        for n, each in enumerate(scores)
    ]


def answers(scores):
    return [
        AnswerRow(str(n), "vqa", CATEGORIES[n % 2], [f"i{n // 2}"], "?", n % 4 < 2, float(score))
        for n, score in enumerate(scores)
    ]


def retrieval(scores):
    """The last caption is true of no image; the one before it of the last two."""
    n, captions = scores.shape
    right = [[row, captions - 2] if row >= n - 2 else [row] for row in range(n)]
    return [
        RetrievalRow(str(row), "retrieval", "retrieval", [f"i{row // 2}"], right[row], np.float32(scores[row]))
        for row in range(n)
    ]


# For each task rows from scores, and the scores' shape for n examples.
TASKS = {
    ("toy_scenes", "itm"): (matching, (2,)),
    ("toy_scenes", "hard_positives"): (matching, (3,)),
    ("toy_scenes", "order"): (matching, (5,)),
    ("toy_scenes", "sets"): (matching, (6,)),
    ("toy_scenes", "groups"): (groups, (2, 2)),
    ("toy_scenes", "vqa"): (answers, ()),
    ("toy_scenes", "retrieval"): (retrieval, (26,)),
    ("aro", "relation"): (lambda scores: matching(scores, ("on", "next to", "riding")), (2,)),
    ("vl_checklist", "itm"): (matching, (2,)),
    ("winoground", "groups"): (groups, (2, 2)),
}


def random_sheets(folder, benchmark, task, seed=0, n=24):
    """Two sheets of coarse scores, so that many are tied."""
    make, shape = TASKS[benchmark, task]
    rng = np.random.default_rng(seed)
    return [
        write(folder / f"{model}.parquet", make(rng.integers(-2, 3, (n, *shape)).astype(float)), benchmark, task, model)
        for model in "ab"
    ]


@pytest.mark.parametrize("ties", [None, "wrong", "half", "right"])
@pytest.mark.parametrize(("benchmark", "task"), TASKS)
def test_both_models_scores_are_those_of_their_reports(benchmark, task, ties, tmp_path):
    paths = random_sheets(tmp_path, benchmark, task)
    comparison = compare(*paths, ties=ties, **QUICK)
    reports = [{result.metric: result for result in judge(path, ties=ties, resamples=100)} for path in paths]
    shown = [(result.metric, score) for result in reports[0].values() for score in result.shown]
    compared = [(difference.metric, difference.score) for difference in comparison.differences]
    assert compared == [each for each in shown if each[1] not in comparison.not_compared]
    for difference in comparison.differences:
        for number, report in enumerate(reports, start=1):
            scores = report[difference.metric].scores
            assert difference.result[f"accuracy{number}"] == pytest.approx(scores[difference.score], abs=1e-12)
            for name, part in difference.result["per_category"].items():
                expected = scores["per_category"][name]
                assert part[f"accuracy{number}"] == pytest.approx(expected[difference.score], abs=1e-12)
                assert part["n"] == expected["n"]
                if "tie_rate" in expected:
                    assert part[f"tie_rate{number}"] == pytest.approx(expected["tie_rate"])
        assert difference.ties == report[difference.metric].options.get("ties")
    assert comparison.not_compared == (["macro_f1"] if task == "vqa" else [])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(sorted(TASKS)), n=st.integers(8, 24))
def test_exchanging_the_models_turns_the_difference_round(seed, name, n, tmp_path):
    paths = random_sheets(tmp_path, *name, seed, n if name[1] != "retrieval" else 24)
    one, two = compare(*paths, **QUICK), compare(*reversed(paths), **QUICK)
    for there, back in zip(one.differences, two.differences, strict=True):
        assert there.result["difference"] == pytest.approx(-back.result["difference"], abs=1e-12)
        assert (there.result["wins"], there.result["losses"]) == (back.result["losses"], back.result["wins"])
        assert there.result["permutation_p_value"] == pytest.approx(back.result["permutation_p_value"])
        assert there.result["mcnemar_p_value"] == back.result["mcnemar_p_value"]
        low, high = there.result["difference_interval"]
        assert low <= there.result["difference"] <= high


def test_differences_wins_and_tests_follow_from_the_rows(tmp_path):
    # a: right right right wrong tie; b: right wrong wrong wrong right; images: 0 0 1 1 2.
    first = matching([[2, 1], [2, 1], [2, 1], [1, 2], [1, 1]], ("swap_obj", "swap_att"))
    second = matching([[2, 1], [1, 2], [1, 2], [1, 2], [2, 1]], ("swap_obj", "swap_att"))
    paths = [write(tmp_path / f"{n}.parquet", rows, model=n) for n, rows in (("a", first), ("b", second))]
    [difference] = compare(*paths, **QUICK).differences
    result = difference.result
    assert (result["accuracy1"], result["accuracy2"]) == (pytest.approx(3 / 5), pytest.approx(2 / 5))
    assert result["difference"] == pytest.approx(1 / 5)
    assert (result["wins"], result["losses"], result["n"], result["n_clusters"]) == (2, 1, 5, 3)
    # The images' sums are 1, 1 and -1: all but the two mixed signs of each kind reach 1 in absolute value.
    assert result["permutation_p_value"] == 1.0
    assert (result["mcnemar_p_value"], result["mcnemar_method"]) == (1.0, "exact")  # 2 * (1 + 3) / 8
    assert (result["tie_rate1"], result["tie_rate2"]) == (pytest.approx(1 / 5), 0)
    assert result["per_category"]["swap_obj"]["wins"] == 1
    assert result["per_category"]["swap_obj"]["tie_rate1"] == pytest.approx(1 / 3)
    [half] = compare(*paths, ties="half", **QUICK).differences
    assert half.result["difference"] == pytest.approx(1.5 / 5)


def test_the_less_brittle_model_wins(tmp_path):
    pair = matching([[3, 1, 2]] * 6, ("swap",)), matching([[3, 2, 1]] * 6, ("swap",))  # the first is brittle
    paths = [write(tmp_path / f"{n}.parquet", rows, task="hard_positives") for n, rows in enumerate(pair)]
    results = {each.score: each for each in compare(*paths, **QUICK).differences}
    assert set(results) == {"original_accuracy", "augmented_accuracy", "gap", "brittleness", "both_wrong"}
    assert results["brittleness"].lower_is_better
    assert not results["augmented_accuracy"].lower_is_better
    for score, difference in (("brittleness", 1), ("gap", 1), ("augmented_accuracy", -1)):
        result = results[score].result
        assert (result["difference"], result["wins"], result["losses"]) == (difference, 0, 6)
        assert result["per_category"]["swap"]["losses"] == 6
    assert (results["augmented_accuracy"].ties, results["brittleness"].ties) == ("wrong", "right")


def test_examples_that_one_model_lacks_leave_both_and_are_counted(tmp_path):
    rows = matching([[2, 1]] * 9)
    lacking = [dataclasses.replace(row, images=[""], scores=None) if row.id in "148" else row for row in rows]
    other = [dataclasses.replace(row, images=[""], scores=None) if row.id in "45" else row for row in rows]
    paths = write(tmp_path / "a.parquet", lacking), write(tmp_path / "b.parquet", other)
    comparison = compare(*paths, **QUICK)
    assert comparison.unscored == 4
    assert comparison.differences[0].result["n"] == 5
    assert "4 examples lack their image in a sheet" in to_markdown(comparison)


def test_the_order_of_rows_does_not_matter(tmp_path):
    paths = random_sheets(tmp_path, "toy_scenes", "itm")
    expected = compare(*paths, **QUICK).differences
    make, shape = TASKS["toy_scenes", "itm"]
    rng = np.random.default_rng(0)
    rng.integers(-2, 3, (24, *shape))
    write(paths[1], make(rng.integers(-2, 3, (24, *shape)))[::-1], model="b")
    assert compare(*paths, **QUICK).differences == expected


def test_symmetric_relations_are_in_no_difference(tmp_path):
    paths = random_sheets(tmp_path, "aro", "relation")
    comparison = compare(*paths, **QUICK)
    [difference] = comparison.differences
    assert (difference.left_out, difference.result["n"]) == (8, 16)
    assert "next to" in SYMMETRIC
    assert set(difference.result["per_category"]) == {"on", "riding"}
    assert "8 examples of symmetric relations are in no score" in to_markdown(comparison)
    rows = matching([[2, 1]] * 4, ("next to",))
    paths = [write(tmp_path / f"{n}.parquet", rows, "aro", "relation") for n in "ab"]
    with pytest.raises(SheetError, match="holds nothing but symmetric relations"):
        compare(*paths)


def test_examples_of_one_image_are_one_cluster_in_both_directions_of_retrieval(tmp_path):
    paths = random_sheets(tmp_path, "toy_scenes", "retrieval")
    results = {each.score: each.result for each in compare(*paths, **QUICK).differences}
    assert list(results) == [f"{side}_recall_at_{k}" for side in ("text", "image") for k in (1, 5, 10)]
    # 24 images of which two and two are alike; 26 captions, the last of no image, and two shared by one photograph.
    assert (results["text_recall_at_1"]["n"], results["text_recall_at_1"]["n_clusters"]) == (24, 12)
    assert (results["image_recall_at_1"]["n"], results["image_recall_at_1"]["n_clusters"]) == (25, 12)


def detections(path):
    phrase = {"text": "a", "start": 0, "end": 1}
    row = DetectionRow("0", "detection", "x", ["i"], True, "p", [phrase], [[[0.0, 0.0, 1.0, 1.0]]], [[]], [[]])
    return write(path, [row], task="detection")


def changed(rows, number, **changes):
    return [dataclasses.replace(row, **changes) if n == number else row for n, row in enumerate(rows)]


ROWS = matching([[2, 1]] * 6)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (ROWS, {"task": "order"}, r"is of toy_scenes \(itm\) and .* of toy_scenes \(order\); compare two sheets of"),
        (ROWS, {"benchmark": "sugarcrepe"}, r"of sugarcrepe \(itm\); compare two sheets of the same task"),
        (ROWS, {"fingerprint": "0" * 64}, "different data .fingerprints ffffffffffff and 000000000000"),
        (ROWS[1:], {}, "1 of the 6 examples of .*a.parquet are not in the other sheet, such as '0'"),
        (changed(ROWS, 0, id="x"), {}, "1 of the 6 examples of .*a.parquet are not in the other sheet"),
        ([*ROWS, dataclasses.replace(ROWS[0], id="x")], {}, "1 of the 7 examples of .*b.parquet are not in the other"),
        (changed(ROWS, 2, category="x"), {}, "the example '2' is another in"),
        (changed(ROWS, 2, correct=[1]), {}, "the example '2' is another in"),
        (changed(ROWS, 2, scores=[[1.0, 2.0, 3.0]]), {}, "the example '2' is another in"),
        ([dataclasses.replace(row, images=[""], scores=None) for row in ROWS], {}, "share no example that both scored"),
        (answers([1.0] * 6), {"task": "vqa"}, "compare two sheets of the same task"),
    ],
)
def test_sheets_that_cannot_be_paired_are_refused(rows, options, message, tmp_path):
    first, second = write(tmp_path / "a.parquet", ROWS), write(tmp_path / "b.parquet", rows, **options)
    with pytest.raises(SheetError, match=message):
        compare(first, second)


def test_boxes_have_no_paired_difference(tmp_path):
    paths = [detections(tmp_path / f"{n}.parquet") for n in "ab"]
    with pytest.raises(SheetError, match=r"average precision .* no means over examples.*`vl-assay report`"):
        compare(*paths)


def test_sheets_of_another_kind_than_their_task_are_refused(tmp_path):
    paths = [write(tmp_path / f"{n}.parquet", answers([1.0] * 6)) for n in "ab"]
    with pytest.raises(SheetError, match=r"of the kind answers, but toy_scenes \(itm\) is of the kind matching"):
        compare(*paths)


def test_options_that_do_not_exist_are_refused(tmp_path):
    paths = random_sheets(tmp_path, "toy_scenes", "itm")
    with pytest.raises(UnknownNameError, match="unknown tie policy 'maybe'"):
        compare(*paths, ties="maybe")
    with pytest.raises(ScoresError, match="confidence"):
        compare(*paths, confidence=95)
    with pytest.raises(ScoresError, match="permutations"):
        compare(*paths, permutations=1)


def test_tables_show_names_as_they_are_and_mark_what_is_lower(tmp_path, capsys):
    rows = matching([[3, 1, 2], [3, 2, 1]] * 12, ("[red]sw|ap", "replace"))
    paths = [write(tmp_path / f"{n}.parquet", rows, task="hard_positives", model="clip[v2]") for n in "ab"]
    comparison = compare(*paths, **QUICK)
    print_comparison(comparison)
    printed = capsys.readouterr().out
    assert "[red]sw|ap" in printed
    assert "clip[v2] and clip[v2] on toy_scenes (hard_positives): brittleness" in printed
    assert all(len(line) <= 80 for line in printed.splitlines())
    markdown = to_markdown(comparison)
    assert "brittleness (brittleness, lower is better)" in markdown
    assert "| [red]sw\\|ap | 100.0 | 100.0 | +0.0 |" in markdown
    assert "| micro average | 50.0 | 50.0 | +0.0 | " in markdown
    columns = {line.count(" | ") for line in markdown.splitlines() if line.startswith("| ")}
    assert columns == {13}


def run(command, monkeypatch):
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as left:
        main()
    return left.value.code or 0


def test_the_command_prints_tables_or_json_and_writes_both_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    paths = random_sheets(tmp_path, "toy_scenes", "itm")
    assert run("vl-assay compare a.parquet b.parquet --out both --ties half", monkeypatch) == 0
    printed = capsys.readouterr().out
    assert "micro average" in printed
    assert "written to both: comparison.json, comparison.md" in printed
    written = (tmp_path / "both" / "comparison.json").read_text()
    assert written == to_json(compare(*paths, ties="half"))
    document = json.loads(written)
    assert (document["schema"], document["version"]) == ("vl-assay/comparison", 1)
    assert [sheet["sha256"] for sheet in document["sheets"]] == [file_hash(path) for path in paths]
    assert set(document) == {"schema", "version", "code", *(field.name for field in dataclasses.fields(Comparison))}
    assert (tmp_path / "both" / "comparison.md").read_text() == to_markdown(compare(*paths, ties="half"))
    assert run("vl-assay compare a.parquet b.parquet --out both --ties half --json", monkeypatch) == 0
    captured = capsys.readouterr()
    assert captured.out == written
    assert "written to both" in captured.err
    assert run("vl-assay compare a.parquet nowhere.parquet", monkeypatch) == 1
    assert capsys.readouterr().err.startswith("error: nowhere.parquet: no such score sheet")
