"""Two models on the same examples: `vl-assay compare` against the `report` of each file."""

import dataclasses
import json
import re

import numpy as np
import pytest
import report_support
from console import invoke
from report_support import answers, detections, groups, write

from vl_assay.hub_datasets import compare, report
from vl_assay.metrics.common.errors import PredictionsError
from vl_assay.metrics.estimation import differences
from vl_assay.metrics.records.predictions import file_hash
from vl_assay.metrics.records.schema import RetrievalRow
from vl_assay.metrics.results.compare import Comparison

QUICK = {"resamples": 100, "permutations": 100}
CATEGORIES = ("swap_obj", "swap_att", "replace_obj")


def matching(scores, categories=CATEGORIES):
    return report_support.matching(scores, categories)


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
    ("toy_scenes", "groups"): (groups, (2, 2)),
    ("toy_scenes", "vqa"): (answers, ()),
    ("toy_scenes", "retrieval"): (retrieval, (26,)),
    ("toy_scenes", "detection"): (
        lambda scores: detections(np.random.default_rng(scores.astype(int).ravel() + 2), 8),
        (1,),
    ),
    ("aro", "relation"): (lambda scores: matching(scores, ("on", "next to", "riding")), (2,)),
}


def random_predictions(folder, benchmark, task, seed=0, n=24):
    """Two predictions of coarse scores, so that many are tied."""
    make, shape = TASKS[benchmark, task]
    rng = np.random.default_rng(seed)
    return [
        write(folder / f"{model}.parquet", make(rng.integers(-2, 3, (n, *shape)).astype(float)), benchmark, task, model)
        for model in "ab"
    ]


@pytest.mark.parametrize(
    ("benchmark", "task", "ties"), [(*task, (None, "half")[n % 2]) for n, task in enumerate(TASKS)]
)
def test_both_models_scores_are_those_of_their_reports_and_exchanging_them_turns_the_difference_round(
    benchmark, task, ties, tmp_path
):
    paths = random_predictions(tmp_path, benchmark, task)
    comparison, turned = compare(*paths, ties=ties, **QUICK), compare(*reversed(paths), ties=ties, **QUICK)
    reports = [{result.metric: result for result in report(path, ties=ties, resamples=100)} for path in paths]
    shown = [(result.metric, score) for result in reports[0].values() for score in result.table_scores]
    assert [(each.metric, each.score) for each in comparison.differences] == shown
    for difference, back in zip(comparison.differences, turned.differences, strict=True):
        result, reverse = difference.result, back.result
        for number, found in enumerate(reports, start=1):
            scores = found[difference.metric].scores
            assert result[f"score{number}"] == pytest.approx(scores[difference.score], abs=1e-12)
            for name, part in result["per_category"].items():
                expected = scores["per_category"][name]
                assert part[f"score{number}"] == pytest.approx(expected[difference.score], abs=1e-12)
                assert part["n"] == expected["n"]
                if "tie_rate" in expected:
                    assert part[f"tie_rate{number}"] == pytest.approx(expected["tie_rate"])
        assert difference.ties == found[difference.metric].options.get("ties")
        assert result["difference"] == pytest.approx(-reverse["difference"], abs=1e-12)
        assert (result["wins"], result["losses"]) == (reverse["losses"], reverse["wins"])
        assert result["permutation_p_value"] == pytest.approx(reverse["permutation_p_value"])
        low, high = result["difference_interval"]
        assert low <= result["difference"] <= high


def test_differences_wins_and_tests_follow_from_the_rows(tmp_path):
    # a: right right right wrong tie; b: right wrong wrong wrong right; images: 0 0 1 1 2.
    first = matching([[2, 1], [2, 1], [2, 1], [1, 2], [1, 1]], ("swap_obj", "swap_att"))
    second = matching([[2, 1], [1, 2], [1, 2], [1, 2], [2, 1]], ("swap_obj", "swap_att"))
    paths = [write(tmp_path / f"{n}.parquet", rows, model=n) for n, rows in (("a", first), ("b", second))]
    [difference] = compare(*paths, **QUICK).differences
    result = difference.result
    assert (result["score1"], result["score2"]) == (pytest.approx(3 / 5), pytest.approx(2 / 5))
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


@pytest.mark.parametrize(
    ("metric", "good", "bad", "expected"),
    [
        ("augmented_accuracy", [3, 2, 1], [3, 1, 2], "augmented accuracy higher by"),
        ("brittleness", [3, 2, 1], [3, 1, 2], "brittleness lower by"),
    ],
)
def test_the_verdict_gives_the_better_models_score_minus_the_others(metric, good, bad, expected, tmp_path):
    """The better model is right on 24 of 30 examples and the other one on 6; both files can come first."""
    paths = [
        write(
            tmp_path / f"{model}.parquet",
            matching([good if (n < 24) == (model == "a") else bad for n in range(30)], ("swap",)),
            task="hard_positives",
            model=model,
            metrics={metric: {}},
        )
        for model in "ab"
    ]
    for order in (paths, paths[::-1]):
        comparison = compare(*order, **QUICK)
        start = f"a is better than b on toy_scenes (hard_positives): {expected} 60.0 points, 95 % ["
        assert comparison.verdict.startswith(start)
        low, high = re.search(r"\[(.*), (.*)\]", comparison.verdict).groups()
        assert 0 < float(low) < 60 < float(high)
        main = next(each.result for each in comparison.differences if each.is_main)
        first_wins = order[0].stem == "a"
        # Tables keep the first minus the second; wins are of the better model, also if lower is better.
        gap = 0.6 if first_wins == (metric == "augmented_accuracy") else -0.6
        for part in (main, main["per_category"]["swap"]):
            assert part["difference"] == pytest.approx(gap)
            assert (part["wins"], part["losses"]) == ((24, 6) if first_wins else (6, 24))


def lacking(rows, ids):
    """The rows, of which those with these ids lack their image."""
    return [dataclasses.replace(row, images=[""], scores=None) if row.id in ids else row for row in rows]


def test_examples_that_one_model_lacks_or_that_are_in_no_score_are_in_no_difference(tmp_path):
    rows = matching([[2, 1]] * 9)
    paths = [write(tmp_path / f"{name}.parquet", lacking(rows, ids)) for name, ids in (("a", "148"), ("b", "45"))]
    comparison = compare(*paths, **QUICK)
    assert comparison.differences[0].unscored == 4
    assert comparison.differences[0].result["n"] == 5
    assert "4 examples lack their image in a file" in comparison.to_markdown()
    comparison = compare(*random_predictions(tmp_path, "aro", "relation"), **QUICK)
    [difference] = comparison.differences
    assert (difference.left_out, difference.result["n"]) == ({"symmetric relation": 8}, 16)
    assert set(difference.result["per_category"]) == {"on", "riding"}
    assert "8 examples are in no score: symmetric relation" in comparison.to_markdown()


ROWS = matching([[2, 1]] * 6)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (
            ROWS,
            {"task": "order"},
            r"toy_scenes \(itm, matching\); .* toy_scenes \(order, matching\)\); compare predictions of",
        ),
        (ROWS, {"fingerprint": "0" * 64}, "different data .fingerprints ffffffffffff and 000000000000"),
        (ROWS[1:], {}, "1 of the 6 examples of .*a.parquet are not in the other file, such as '0'"),
        ([*ROWS, dataclasses.replace(ROWS[0], id="x")], {}, "1 of the 7 examples of .*b.parquet are not in the other"),
        ([*ROWS[:5], dataclasses.replace(ROWS[5], category="x")], {}, "the example '5' differs between"),
        ([*ROWS[:5], dataclasses.replace(ROWS[5], scores=[[1.0, 2.0, 3.0]])], {}, "the example '5' differs between"),
        (lacking(ROWS, "012345"), {}, "share no example that both scored"),
        (answers([1.0] * 6), {}, "compare predictions of the same task"),
    ],
)
def test_predictions_that_cannot_be_paired_are_refused(rows, options, message, tmp_path):
    first, second = write(tmp_path / "a.parquet", ROWS), write(tmp_path / "b.parquet", rows, **options)
    with pytest.raises(PredictionsError, match=message):
        compare(first, second)


def test_three_models_are_compared_pair_by_pair_and_folders_are_read(tmp_path):
    rng = np.random.default_rng(4)
    for name, right in (("good", 0.9), ("bad", 0.2), ("worse", 0.1)):
        scores = [[1, 0] if rng.random() < right else [0, 1] for _ in range(120)]
        (tmp_path / name).mkdir()
        write(tmp_path / name / "toy_scenes.itm.parquet", matching(scores), model=name)
    comparison = compare(*(tmp_path / name for name in ("good", "bad", "worse")), **QUICK)
    assert comparison.models == ["good", "bad", "worse"]
    assert [each.models for each in comparison.differences] == [("good", "bad"), ("good", "worse"), ("bad", "worse")]
    assert comparison.verdicts[0].startswith("good is better than bad on toy_scenes (itm): accuracy higher by ")
    assert comparison.verdicts[2].startswith("No evidence of a difference between bad and worse on toy_scenes (itm)")
    assert comparison.verdict == "Better, of 3 comparisons: good in 2; no evidence of a difference in 1."


def test_reports_and_comparisons_agree_on_what_differs_and_verdicts_name_it(tmp_path):
    # Of 40 images in each category a and b are right on: 40 and 30; 30 and 35; 20 and 26; b and its copy are alike.
    right = {"a": (40, 30, 20), "b": (30, 35, 26), "copy of b": (30, 35, 26)}
    for model, counts in right.items():
        scores = [[2, 1] if n // 3 < counts[n % 3] else [1, 2] for n in range(120)]
        rows = [dataclasses.replace(row, images=[row.id]) for row in matching(scores)]
        write(tmp_path / f"{model}.parquet", rows, model=model)
    paths = sorted(tmp_path.iterdir())
    comparison = compare(*paths[:2])
    [difference] = comparison.differences
    found = {name: numbers["p_value_holm"] for name, numbers in difference.result["per_category"].items()}
    # 2 / 2 ** 10 times 3; 2 / 2 ** 6 times 2; 2 / 2 ** 5.
    assert found == {"swap_obj": 6 / 2**10, "swap_att": pytest.approx(2 / 2**5), "replace_obj": pytest.approx(2 / 2**5)}
    assert comparison.verdict.startswith("No evidence of a difference overall between a and b on toy_scenes (itm): ")
    assert comparison.verdict.endswith(". By category a is better in swap_obj (+25.0).")
    assert f"p = {difference.result['permutation_p_value']:.3f}" in comparison.verdict
    lines = report(paths, resamples=100).to_markdown().splitlines()
    marks = {line.split(" | ")[0][2:]: [cell.split("<br>")[0] for cell in line.split(" | ")[1:4]] for line in lines}
    assert marks["a"] == ["**100.0**", "75.0 †", "50.0 †"]
    assert marks["b"] == marks["copy of b"] == ["75.0", "**87.5**", "**65.0**"]


def test_versions_of_the_data_are_compared_one_by_one(tmp_path):
    rng = np.random.default_rng(6)
    versions = {"one": (["swap_obj", "swap_att"], 0), "two": (["swap_obj", "swap_att"], 1), "part": (["swap_obj"], 0)}
    paths = []
    for model in "ab":
        for name, (configs, seed) in versions.items():
            rows = matching(rng.integers(0, 3, (12 + seed, 2)), configs)
            facts = {"configs": configs, "fingerprint": name, "options": {"seed": seed}}
            paths.append(write(tmp_path / f"{model}-{name}.parquet", rows, model=model, **facts))
    again = write(tmp_path / "a-again.parquet", rows, model="a", **facts)
    comparison = compare(*paths, again, **QUICK)
    assert [(each.task, each.result["n"], each.unused) for each in comparison.differences] == [
        ("itm: configs swap_obj+swap_att, seed 0", 12, 1),
        ("itm: configs swap_obj+swap_att, seed 1", 13, 1),
        ("itm: configs swap_obj, seed 0", 12, 1),
    ]
    assert "1 files are in no difference" in comparison.to_markdown()


def test_tables_show_names_as_they_are_and_mark_what_is_lower(tmp_path, capsys):
    rows = matching([[3, 1, 2], [3, 2, 1]] * 12, ("[red]sw|ap", "replace"))
    paths = [write(tmp_path / f"{n}.parquet", rows, task="hard_positives", model="clip[v2]") for n in "ab"]
    comparison = compare(*paths, **QUICK)
    comparison.print()
    printed = capsys.readouterr().out
    assert "[red]sw|ap" in printed
    assert "clip[v2] and clip[v2] #2 on toy_scenes (hard_positives): brittleness" in printed
    assert all(len(line) <= 80 for line in printed.splitlines())
    markdown = comparison.to_markdown()
    assert "brittleness (brittleness, lower is better)" in markdown
    assert "| [red]sw\\|ap | 100.0 | 100.0 | +0.0 |" in markdown
    assert "| micro average | 50.0 | 50.0 | +0.0 | " in markdown
    columns = {line.count(" | ") for line in markdown.splitlines() if line.startswith("| ")}
    assert columns == {11}


def test_what_was_drawn_is_what_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(differences, "MOST_WEIGHTED_DRAWS", 100)
    paths = random_predictions(tmp_path, "toy_scenes", "detection")
    found = compare(*paths, resamples=110, permutations=120)
    drawn = {each.score: (each.result["resamples"], each.result["permutations"]) for each in found.differences}
    assert drawn["ap"] == (100, 100)
    assert drawn["recall_at_1"] == (110, 120)
    assert "(100 resamples)" in found.to_markdown()


def test_the_command_prints_tables_and_writes_both_files(tmp_path):
    paths = random_predictions(tmp_path, "toy_scenes", "itm")
    done = invoke("compare", "a.parquet", "b.parquet", "--out", "both", "--ties", "half", folder=tmp_path)
    assert "micro average" in done.output
    assert "written to both: comparison.json, comparison.md" in done.output
    expected = compare(*paths, ties="half")
    written = (tmp_path / "both" / "comparison.json").read_text()
    assert written == expected.to_json()
    document = json.loads(written)
    assert (document["schema"], document["version"]) == ("vl-assay/comparison", 3)
    assert document["files"] == {path.stem: [{"file": path.name, "sha256": file_hash(path)}] for path in paths}
    public = {field.name for field in dataclasses.fields(Comparison)}
    assert set(document) == {"schema", "version", "code", "sha256", "verdict", "verdicts", *public}
    assert (tmp_path / "both" / "comparison.md").read_text() == expected.to_markdown()
