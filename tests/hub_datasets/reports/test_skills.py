"""The profile by skill: its arithmetic by hand, its clusters across benchmarks, and what is in no skill."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from console import invoke
from report_support import write

from vl_assay.hub_datasets import Task, benchmark_names, get_benchmark
from vl_assay.hub_datasets.authoring.audit.blind import known_levels
from vl_assay.hub_datasets.core.benchmarks import SKILLS, get_card
from vl_assay.hub_datasets.reports.skills import profile_parts, read_skill_profile, verdict
from vl_assay.metrics.common.documents import to_markdown
from vl_assay.metrics.common.errors import PredictionsError, UnknownNameError
from vl_assay.metrics.records.schema import MatchingRow

DOCUMENT = Path(__file__).parents[3] / "docs" / "skills.md"
RIGHT, WRONG, TIE = [2.0, 1.0], [1.0, 2.0], [1.0, 1.0]
QUICK = {"resamples": 200}


def pairs(category, scores, prefix="image"):
    return [
        MatchingRow(f"{category}/{n}", "itm", category, [f"{prefix}{n}"], [0], [each]) for n, each in enumerate(scores)
    ]


def order(scores, prefix="image"):
    return [MatchingRow(f"order/{n}", "order", "order", [f"{prefix}{n}"], [0], [each]) for n, each in enumerate(scores)]


def profile(tmp_path, itm, ordered=(), **options):
    files = [write(tmp_path / "itm.parquet", itm, "toy_scenes", "itm")] if itm else []
    if ordered:
        files.append(write(tmp_path / "order.parquet", list(ordered), "toy_scenes", "order"))
    found = read_skill_profile(files, **QUICK, **options)
    return found, {score.skill: score for score in found.scores}


def test_accuracy_above_chance_is_comparable_between_pairs_and_five_captions(tmp_path):
    five = [[2.0, 1, 1, 1, 1], [1.0, 2, 1, 1, 1]]
    _, skills = profile(tmp_path, pairs("add_obj", [RIGHT, RIGHT, RIGHT, WRONG]), order(five))
    # 3 of 4 of two captions: (.75 - .5) / .5; 1 of 2 of five: (.5 - .2) / .8.
    assert skills["object"].corrected == pytest.approx(0.5)
    assert skills["order"].corrected == pytest.approx(0.375)
    assert (skills["object"].right, skills["object"].examples) == (3, 4)


def test_ties_are_wrong(tmp_path):
    _, skills = profile(tmp_path, pairs("add_att", [TIE, TIE, RIGHT, RIGHT]))
    assert skills["attribute"].accuracy == 0.5


def test_the_mean_over_tasks_does_not_weigh_them_by_their_size(tmp_path):
    pooled = [
        write(tmp_path / "a.parquet", pairs("swap_obj", [RIGHT] * 9 + [WRONG]), "toy_scenes", "itm"),
        write(tmp_path / "b.parquet", pairs("swap_obj", [RIGHT, WRONG], "other"), "sugarcrepe", "itm"),
    ]
    [binding] = read_skill_profile(pooled, **QUICK).scores
    # (.9 - .5) / .5 = .8 and (.5 - .5) / .5 = 0; pooled 10 of 12.
    assert binding.corrected == pytest.approx(0.4)
    assert binding.accuracy == pytest.approx(10 / 12)
    assert binding.parts == ("toy_scenes/itm", "sugarcrepe/itm")


def test_an_image_of_two_benchmarks_is_one_cluster(tmp_path):
    def width(prefix):
        files = [
            write(tmp_path / "a.parquet", pairs("swap_obj", [RIGHT, WRONG] * 20), "toy_scenes", "itm"),
            write(tmp_path / "b.parquet", pairs("swap_obj", [RIGHT, WRONG] * 20, prefix), "sugarcrepe", "itm"),
        ]
        [binding] = read_skill_profile(files, resamples=2000).scores
        return binding.interval[1] - binding.interval[0]

    # Two equal samples instead of one do not narrow the interval; two independent ones do, by the root of 2.
    assert width("image") / width("other") == pytest.approx(2**0.5, rel=0.15)


def test_rows_without_a_skill_or_an_image_are_counted(tmp_path):
    missing = MatchingRow("gone", "itm", "add_obj", [""], [0], None)
    found, skills = profile(tmp_path, [*pairs("add_obj", [RIGHT, WRONG]), *pairs("new", [RIGHT]), missing])
    assert skills["object"].examples == 2
    assert found.left_out == {"toy_scenes/itm: no skill declared for new": 1, "toy_scenes/itm: image missing": 1}
    assert "1 rows of toy_scenes/itm: no skill declared for new" in to_markdown(profile_parts(found))


def test_a_perfect_skill_has_an_interval_below_it(tmp_path):
    _, skills = profile(tmp_path, pairs("add_obj", [RIGHT] * 10))
    low, high = skills["object"].interval
    assert high == 1
    # Clopper-Pearson for 10 of 10: .025 ** (1 / 10) = .6915, above chance (.6915 - .5) / .5.
    assert low == pytest.approx(0.383, abs=1e-3)


def test_the_verdict_names_skills_only_if_their_intervals_do_not_overlap(tmp_path):
    apart, _ = profile(tmp_path, pairs("add_obj", [RIGHT] * 40) + pairs("add_att", [WRONG, RIGHT] * 20, "other"))
    assert re.search("strongest in object .* weakest in attribute", verdict(apart))
    alike, _ = profile(tmp_path, pairs("add_obj", [RIGHT, WRONG] * 9) + pairs("add_att", [WRONG, RIGHT] * 9, "other"))
    assert "stands out" in verdict(alike)


def test_two_files_of_one_task_are_refused(tmp_path):
    files = [write(tmp_path / f"{name}.parquet", pairs("add_obj", [RIGHT]), "toy_scenes", "itm") for name in "ab"]
    with pytest.raises(PredictionsError, match="toy_scenes/itm; give one"):
        read_skill_profile(files, **QUICK)


def test_a_part_of_a_task_is_not_counted_beside_it(tmp_path):
    rows = [*pairs("swap_obj", [RIGHT, WRONG]), *pairs("add_obj", [RIGHT])]
    files = [write(tmp_path / f"{task}.parquet", rows, "sugarcrepe", task) for task in ("itm", "v2")]
    profile = read_skill_profile(files, **QUICK)
    assert [score.parts for score in profile.scores] == [("sugarcrepe/itm",)] * 2
    assert profile.left_out == {"sugarcrepe/v2: counted in sugarcrepe/itm": 3}
    assert read_skill_profile(files[1:], **QUICK).scores


def test_text_alone_is_the_level_that_comes_with_the_package_or_else_that_of_the_predictions(tmp_path):
    levels = {"itm_accuracy": {"per_category": {"order": {"accuracy": 0.6}}}}
    ordered = write(tmp_path / "o.parquet", order([[2.0, 1, 1, 1, 1]] * 9), "toy_scenes", "order", blind=levels)
    rows = pairs("add_obj", [RIGHT] * 9) + pairs("replace_obj", [RIGHT] * 9)
    options = {"seed": 0, "train_scenes": 0}  # those of the level that comes with the package
    lie = {"sugarcrepe_itm": {"per_category": {"add_obj": {"accuracy": 0.0}}}}
    itm = write(tmp_path / "i.parquet", rows, options=options, blind=lie)
    known = {score.skill: score for score in read_skill_profile([ordered, itm], **QUICK).scores}
    assert known["order"].text_alone == pytest.approx((0.6 - 0.2) / 0.8)
    parts = known_levels("toy_scenes", "itm", options)["sugarcrepe_itm"]["per_category"]
    mean = (parts["add_obj"]["accuracy"] + parts["replace_obj"]["accuracy"]) / 2
    assert known["object"].text_alone == pytest.approx((mean - 0.5) / 0.5)


@pytest.mark.parametrize("blind", [None, "x", {"itm_accuracy": {"per_category": {"order": {"accuracy": 7}}}}])
def test_without_a_valid_level_text_alone_is_unknown(tmp_path, blind):
    file = write(tmp_path / "o.parquet", order([[2.0, 1, 1, 1, 1]] * 9), "toy_scenes", "order", blind=blind)
    [score] = read_skill_profile([file], **QUICK).scores
    assert (score.text_alone, score.beats_text) == (None, True)


def test_the_verdict_names_skills_that_text_alone_reaches(tmp_path):
    rows = pairs("add_obj", [RIGHT, RIGHT, WRONG] * 20)
    found = read_skill_profile([write(tmp_path / "itm.parquet", rows, options={"seed": 0, "train_scenes": 0})], **QUICK)
    assert "not better than text alone in object" in verdict(found)


def test_an_example_of_two_benchmarks_counts_once(tmp_path):
    def keyed(rows, captions):
        return [replace(row, caption_key=caption) for row, caption in zip(rows, captions, strict=True)]

    # The second benchmark has the first's images; the captions of two rows are the same, too.
    first = keyed(pairs("swap_obj", [RIGHT, RIGHT, WRONG]), "abc")
    second = keyed(pairs("swap", [WRONG, WRONG, RIGHT, RIGHT]), "abxy")
    files = [
        write(tmp_path / "a.parquet", first, "sugarcrepe", "itm"),
        write(tmp_path / "b.parquet", second, "aro_crepe", "itm"),
    ]
    found = read_skill_profile(files, **QUICK)
    [binding] = found.scores
    assert (binding.right, binding.examples) == (4, 5)
    assert found.duplicates == {("aro_crepe/itm", "sugarcrepe/itm"): 2}
    line = "counted once: 2 rows of aro_crepe/itm have the image and the caption of rows of sugarcrepe/itm"
    assert line in to_markdown(profile_parts(found))
    # Within a benchmark one caption has several negatives on purpose.
    twice = keyed(pairs("swap_obj", [RIGHT, WRONG], "same"), "aa")
    [alone] = read_skill_profile([write(tmp_path / "c.parquet", twice, "sugarcrepe", "itm")], **QUICK).scores
    assert alone.examples == 2


def test_an_unknown_skill_is_refused():
    with pytest.raises(UnknownNameError, match="colour"):
        Task("t", {"sugarcrepe_itm": {}}, skills="colour")


def test_the_document_has_each_tasks_skills_and_the_benchmarks_without():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert all(f"| {skill} | {meaning} |" in text for skill, meaning in SKILLS.items())
    tasks = [(name, task) for name in benchmark_names() for task in get_benchmark(name).tasks if task.skills]
    for name, task in tasks:
        kinds = (
            task.skills
            if isinstance(task.skills, str)
            else "; ".join(
                f"{skill}: {', '.join(kind for kind, own in task.skills.items() if own == skill)}"
                for skill in task.declared_skills
            )
        )
        assert f"| {name} | {task.name} | {kinds} |" in text, f"put this line into {DOCUMENT.name}"
    without = [name for name in benchmark_names() if name not in dict(tasks)]
    assert without == ["imagecode", "naturalbench", "retrieval", "zero_shot"]
    assert f"Without a skill: {', '.join(without)}." in text


def test_the_command_prints_the_verdict_first(tmp_path):
    rows = pairs("add_obj", [RIGHT] * 40) + pairs("add_att", [WRONG, RIGHT] * 20, "other")
    path = write(tmp_path / "itm.parquet", rows, "toy_scenes", "itm")
    text = invoke("skills", str(path)).output
    assert " ".join(text.split()).index("is strongest in object") < text.index("┃")


CAUTIONED = [name for name in benchmark_names() if get_benchmark(name).caution]


@pytest.mark.parametrize("name", CAUTIONED)
def test_a_benchmarks_caution_is_in_its_list_and_its_figures_are_in_its_card(name):
    caution = get_benchmark(name).caution
    assert f"caution: {caution}" in invoke("list", name).output
    assert set(re.findall(r"\d+\.\d+", caution)) <= set(re.findall(r"\d+\.\d+", get_card(name)))
