"""The study of hard positives: its models, its examples, its statistics, and the page that shows its results."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from console import invoke

from vl_assay.hub_datasets.toy_scenes.episodes import sample_episode
from vl_assay.hub_datasets.toy_scenes.language import MEANING, SYNONYMS, parse
from vl_assay.metrics.common.errors import DataError, ModelError, ScoresError
from vl_assay.metrics.functional.hard_positives import augmented_accuracy, brittleness
from vl_assay.model_wrappers import load_model
from vl_assay.model_wrappers.study.hard_positives import variants
from vl_assay.model_wrappers.study.hard_positives.examples import make_examples, score_examples
from vl_assay.model_wrappers.study.hard_positives.findings import (
    CATEGORIES,
    KINDS,
    TABLES,
    Study,
    claims,
    document,
    findings,
    seed_interval,
    verdict,
)
from vl_assay.model_wrappers.study.hard_positives.report import to_markdown
from vl_assay.model_wrappers.study.hard_positives.study import run_study, study_training_set
from vl_assay.model_wrappers.study.hard_positives.variants import (
    BASE,
    GROUPS,
    VARIANTS,
    Size,
    make_recipe,
    make_web_recipe,
)

ROOT = Path(__file__).parents[3]
TINY = Size(captions=64, scenes=12, seeds=1, epochs=1, batch_size=16, warmup_steps=1, curve_steps=2, curve_scenes=64)
NAMES = [each.name for each in (*VARIANTS, *GROUPS)]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A study far too small to find anything: its folder, what the command printed, and its scores."""
    out = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variants, "QUICK", TINY)  # as it is it takes minutes
        printed = invoke("study", "hard-positives", "--quick", "--jobs", "1", "--out", out, width=160)
    assert printed.exit_code == 0, printed.exception
    return out, printed.output, run_study(out, TINY, progress=False)


def made(scenes=30, seeds=3, seed=0, **shifts):
    """A study without training: random scores, to which a model's shift of the four captions is added."""
    rng, examples = np.random.default_rng(seed), make_examples(scenes)
    scores = {BASE: rng.normal(size=(1, len(examples), 4))}
    for name in NAMES:
        shift = np.array(shifts.get(name.replace("-", "_").replace("+", "_"), (0, 0, 0, 0)))
        scores[name] = scores[BASE] + 0.01 * rng.normal(size=(seeds, len(examples), 4)) + shift
    return Study(replace(TINY, scenes=scenes, seeds=seeds), examples, scores, VARIANTS)


def found_in(results, claim, compared):
    [result] = [each for each in results if claim in each["claim"] and compared in each["compared"]]
    return result


def test_the_variants_are_those_of_the_papers():
    weights = {variant.name: tuple(variant.weights) for variant in VARIANTS}
    assert weights == {
        "plain": (1, 0, 0, 0),
        "hn": (1, 0, 1, 0),
        "hp+hn": (1, 0, 1, 1),
        "swap-only": (1, 0, 1, 1),
        "replace-only": (1, 0, 1, 1),
        "hn-weight-0": (1, 0, 0, 1),
        "hn-weight-0.25": (1, 0, 0.25, 1),
        "hn-weight-0.5": (1, 0, 0.5, 1),
        "hn-stop": (1, 0, 1, 0),
    }
    assert {variant.name for variant in VARIANTS} >= {
        name for table in TABLES.values() for name in table if name not in (None, BASE)
    }
    kinds = {variant.name: make_recipe(variant, TINY, 2).negatives for variant in VARIANTS}
    assert (kinds["swap-only"], kinds["replace-only"]) == (("scene:swap",), ("scene:replace",))
    assert kinds["hn"] == kinds["hp+hn"] == kinds["hn-stop"] == ("scene:swap", "scene:replace")
    recipes = [make_recipe(variant, TINY, 2) for variant in VARIANTS]
    assert {(r.seed, r.learning_rate, r.batch_size, r.epochs) for r in recipes} == {(2, TINY.learning_rate, 16, 1)}


def test_the_models_of_the_curve_differ_in_their_negatives_alone():
    recipes = [make_web_recipe(group, TINY, 1) for group in GROUPS]
    assert [recipe.group for recipe in recipes] == [4, 8, 16, 32, 64]
    assert len({replace(recipe, group=16) for recipe in recipes}) == 1
    # Their scenes are those of no other model and of no test.
    assert {make_web_recipe(GROUPS[0], TINY, seed).seed for seed in range(3)}.isdisjoint(range(50))


def test_examples_are_true_and_false_of_their_scenes_in_common_words_but_for_the_one_that_matters():
    examples = make_examples(20)
    assert [example.category for example in examples[:4]] == [*CATEGORIES.values()]
    drawn = set()
    for example in examples:
        scene = sample_episode(0, "test", example.scene).scene
        caption, positive, negative, stopped = example.captions
        assert [parse(text).is_true_of(scene) for text in (caption, positive, negative)] == [True, True, False]
        assert stopped == f"{negative}."
        assert _rare(caption) == 0
        assert _rare(positive) == (example.category != "swap")
        assert _rare(negative) <= (example.category != "swap")
        drawn.add(_rare(negative))
    assert drawn == {0, 1}


def _rare(text):
    """The number of meanings in a caption that are said by their rare words."""
    statement = parse(text)
    words = [word for phrase in statement.phrases for word in (*phrase.adjectives, phrase.noun)]
    words += [statement.relation] if statement.relation else []
    return sum(word != SYNONYMS[MEANING[word]][0] for word in words)


def test_captions_of_training_are_in_common_words_and_hard_positives_in_rare_ones():
    by_name = {variant.name: variant for variant in VARIANTS}
    found, stopped = (study_training_set(by_name[name], TINY, 0) for name in ("hp+hn", "hn-stop"))
    assert len(found.samples) == len(stopped.samples) == 64
    negatives = [text for sample in found.samples for text in sample.negatives]
    for ours, theirs in zip(found.samples, stopped.samples, strict=True):
        assert [f"{text}." for text in ours.negatives] == list(theirs.negatives)
        assert (ours.caption, ours.positives, ours.image) == (theirs.caption, theirs.positives, theirs.image)
        scene = found.images.scene(ours.image)
        assert _rare(ours.caption) == 0
        assert all(parse(text).is_true_of(scene) for text in (ours.caption, *ours.positives))
        assert not any(parse(text).is_true_of(scene) for text in ours.negatives)
        assert {_rare(text) for text in ours.positives} <= {0, 1}
    # Replaced words are common and rare alike; exchanged ones are common.
    share = sum(map(_rare, negatives)) / len(negatives)
    assert 0.2 < share < 0.6
    scenes = {found.images.scene(key) for key in found.image_keys}
    assert scenes.isdisjoint(sample_episode(0, split, n).scene for split in ("train", "test") for n in range(100))
    other = study_training_set(by_name["hn"], TINY, 1)
    assert {sample.caption for sample in other.samples} != {sample.caption for sample in found.samples}


def test_a_study_leaves_models_scores_and_a_report(tiny):
    out, printed, result = tiny
    assert "Table 1 of" in printed
    assert "Table 3 of" in printed
    assert result.scores.keys() == {BASE, *NAMES}
    for name in NAMES:
        folder = out / "seed-0" / name
        assert load_model(str(folder)).info.family == "clip"
        again = score_examples(load_model(str(folder)), result.examples)
        np.testing.assert_allclose(again, result.scores[name][0], atol=1e-6)
        assert np.abs(result.scores[name] - result.scores[BASE]).max() > 1e-3
    assert not np.allclose(result.scores["hn"], result.scores["hn-stop"])
    written = json.loads((out / "study.json").read_text("utf-8"))
    assert written == json.loads(json.dumps(document(result)))
    assert written["size"]["captions"] == 64
    assert len(written["findings"]) == len(list(claims()))
    assert (out / "study.md").read_text("utf-8") == to_markdown(written)
    assert (out / "study.png").read_bytes().startswith(b"\x89PNG")


def test_a_study_resumes_without_training_again(tiny):
    out, _, first = tiny
    models = [out / "seed-0" / name / "model.safetensors" for name in NAMES]
    files = [*models, out / "base" / "training" / "study.json", out / "seed-0" / "plain" / "training" / "study.json"]
    before = [file.stat().st_mtime_ns for file in files]
    rescored = out / "seed-0" / "hn" / "training" / "study.json"
    rescored.unlink()
    again = run_study(out, TINY, progress=False)
    assert [file.stat().st_mtime_ns for file in files] == before
    assert rescored.exists()
    for name, scores in first.scores.items():
        np.testing.assert_array_equal(again.scores[name], scores)
    for changes in ({"captions": 60}, {"scenes": 13}):
        with pytest.raises(DataError, match="holds a study of another size"):
            run_study(out, replace(TINY, **changes), progress=False)
    assert [file.stat().st_mtime_ns for file in files] == before


@pytest.mark.slow
def test_the_quick_study_ends_with_its_tables(tmp_path):
    result = invoke("study", "hard-positives", "--quick", "--out", tmp_path, width=160)
    assert result.exit_code == 0, result.exception
    assert all(f"Table {number} of" in result.output for number in (1, 3))


@pytest.mark.slow
def test_several_at_once_give_the_same_bits(tiny, tmp_path):
    *_, first = tiny
    again = run_study(tmp_path, TINY, variants=VARIANTS[:2], groups=GROUPS[:1], jobs=2, progress=False)
    for name in (BASE, *NAMES[:2], GROUPS[0].name):
        np.testing.assert_array_equal(again.scores[name], first.scores[name])


class Deadly(tuple):
    """Kinds of negatives that end the process that reads them."""

    def __reduce__(self):
        return os._exit, (9,)


def test_a_process_that_dies_is_reported(tmp_path):
    deadly = replace(VARIANTS[0], kinds=Deadly(("swap",)))
    with pytest.raises(ModelError, match=r"a process of the study died.*--jobs"):
        run_study(tmp_path / "out", TINY, variants=[deadly], groups=[], jobs=2, progress=False)


@pytest.mark.parametrize("thing", ["file", "model"])
def test_a_folder_that_is_not_a_study_is_not_written_into(thing, tiny, tmp_path):
    out = tmp_path / "mine"
    if thing == "file":
        out.write_text("mine")
    else:
        shutil.copytree(tiny[0] / "seed-0" / "hn", out)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError, match="holds no study"):
        run_study(out, TINY, progress=False)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("ties", [False, True])
def test_numbers_are_those_of_the_metrics(ties):
    result = made()
    if ties:
        rng = np.random.default_rng(1)
        tied = {name: rng.integers(0, 3, each.shape).astype(float) for name, each in result.scores.items()}
        result = replace(result, scores=tied)
    found = document(result)
    kinds = {**KINDS, **{name: (category,) for name, category in CATEGORIES.items()}}
    for name, row in {**found["rows"], **found["curve"]}.items():
        for kind, categories in kinds.items():
            chosen = [n for n, example in enumerate(result.examples) if example.category in categories]
            labels = [result.examples[n].category for n in chosen]
            by_seed = []
            for scores in result.scores[name]:
                accuracy = augmented_accuracy(scores[chosen, :3], categories=labels)
                by_seed.append(
                    [
                        accuracy["macro_original_accuracy"],
                        accuracy["macro_augmented_accuracy"],
                        brittleness(scores[chosen, :3], categories=labels)["macro_brittleness"],
                    ]
                )
            for n, key in enumerate(("original_accuracy", "augmented_accuracy", "brittleness")):
                assert row[kind]["by_seed"][key] == pytest.approx([seed[n] for seed in by_seed])
                assert row[kind]["scores"][key] == pytest.approx(np.mean([seed[n] for seed in by_seed]))
                low, high = row[kind]["intervals"][key]
                assert low <= row[kind]["scores"][key] <= high
    scores = result.scores["hn-stop"]
    expected = {
        "original_accuracy": (scores[..., 0] > scores[..., 2]),
        "stop_accuracy": scores[..., 0] > scores[..., 3],
    }
    for measure, right in expected.items():
        assert found["stop"]["hn-stop"]["scores"][measure]["score"] == pytest.approx(right.mean())


def test_findings_are_found_where_they_are_and_nowhere_else():
    nothing = [each for each in findings(made()) if "Few in-batch" not in each["claim"]]
    assert {each["verdict"] for each in nothing} == {"not shown"}
    # HN lowers all but the caption itself, hard positives most; the variant with a period lowers texts that have one.
    results = findings(made(hn=(0, -6, -3, -3), hn_stop=(0, 0, 0, -3), batch_64=(3, 3, 0, 0), swap_only=(1, 1, 0, 0)))
    for kind in ("REPLACE", "SWAP"):
        for claim in ("HN raises original accuracy", "HN raises brittleness", "HN raises original accuracy more than"):
            for base in (BASE, "plain"):
                found = [each for each in results if each["claim"].startswith(claim)]
                found = [each for each in found if each["compared"].startswith(kind)]
                assert {each["verdict"] for each in found if each["compared"].endswith(base)} == {"shown"}
        assert found_in(results, "HP+HN is less brittle", kind)["verdict"] == "shown"
        assert (
            found_in(results, "HP+HN raises augmented", f"{kind}, augmented accuracy: hp+hn − hn")["verdict"] == "shown"
        )
    assert found_in(results, "Swap-only does not", "augmented")["verdict"] == "refuted"
    assert found_in(results, "Replace-only does not", "augmented")["verdict"] == "not shown"
    assert found_in(results, "with a final period, HN gains", f"over {BASE}")["verdict"] == "shown"
    assert found_in(results, "More in-batch", "SWAP")["verdict"] == "shown"
    # The arithmetic of one: the mean over scenes and seeds of the per-scene scores.
    result = made(hn=(0, -6, -3, -3))
    ours, base = (result.per_scene(name, "brittleness", "replace") for name in ("hn", BASE))
    assert ours.shape == (3, 30)
    each = found_in(findings(result), "HN raises brittleness", f"REPLACE, brittleness: hn − {BASE}")
    assert each["difference"] == pytest.approx(ours.mean() - base.mean())
    assert each["by_seed"] == pytest.approx((ours.mean(axis=1) - base.mean()).tolist())
    assert each["interval"][0] <= each["difference"] <= each["interval"][1]


def test_the_interval_over_seeds_is_students():
    # mean 0.2, standard deviation 0.1: 0.2 ± 4.3027 · 0.1 / √3
    assert seed_interval([0.1, 0.2, 0.3]) == pytest.approx([-0.04841, 0.44841], abs=1e-5)
    assert seed_interval([0.2]) is None


@pytest.mark.parametrize(
    ("interval", "over_seeds", "result"),
    [
        ([0.1, 0.2], [0.1, 0.2], "shown"),
        ([0.1, 0.2], None, "shown"),
        ([0.1, 0.2], [-0.1, 0.4], "not shown"),
        ([-0.1, 0.2], [0.1, 0.2], "not shown"),
        ([-0.2, -0.1], [-0.1, -0.05], "refuted"),
        ([-0.2, -0.1], None, "refuted"),
        ([-0.2, -0.1], [-0.1, 0.0], "not shown"),
    ],
)
def test_verdicts_need_the_intervals_over_scenes_and_over_seeds(interval, over_seeds, result):
    assert verdict(interval, over_seeds) == result


def test_the_report_and_the_page_have_every_table_variant_and_finding():
    found = document(made())
    text = to_markdown(found)
    tables = (ROOT / "docs" / "study-hard-positives.md").read_text("utf-8").partition("## The command's own report")[2]
    headings = re.findall(r"^## (.*)$", text, flags=re.M)
    assert [heading.split()[0] for heading in headings] == ["Table", "Table", "By", "SugarCrepe's", "ARO's", "Findings"]
    for part in (text, tables):
        assert all(heading in part for heading in headings)
        assert all(f"| {each.label} |" in part for each in (*VARIANTS, *GROUPS))
        assert all(f"| {claim.text} | {claim.against} |" in part for claim in claims())
    assert len(found["findings"]) == len(list(claims()))


def test_the_numbers_of_the_page_and_the_guide_are_in_its_tables():
    page = (ROOT / "docs" / "study-hard-positives.md").read_text("utf-8")
    text, tables = page.split("## The command's own report")
    [paragraph] = [
        part
        for part in (ROOT / "docs" / "guide.md").read_text("utf-8").split("\n\n")
        if "study-hard-positives.md" in part
    ]
    numbers = re.findall(r"\d+\.\d", text + paragraph)
    assert len(numbers) > 40
    clip = {"61.6", "60.5", "23.2", "21.7"}  # The Hard Positive Truth, Table 1
    assert [number for number in numbers if number not in tables and number not in clip] == []
    # Each verdict is the one that its printed intervals give.
    row = r"\| [+−][\d.]+ \[(.*?), (.*?)\] \| .*? \| \[(.*?), (.*?)\] \| (.*?) \|$"
    found = re.findall(row, tables, flags=re.M)
    assert len(found) == len(list(claims()))
    for *limits, result in found:
        low, high, seeds_low, seeds_high = (float(limit.replace("−", "-")) for limit in limits)
        assert verdict((low, high), (seeds_low, seeds_high)) == result


def test_the_command_refuses_an_unknown_study(tmp_path):
    result = invoke("study", "scaling", "--out", tmp_path)
    assert result.exit_code == 2
    assert "No such command 'scaling'" in result.output
    with pytest.raises(ScoresError, match="scenes is 1001"):
        replace(TINY, scenes=1001)
