"""The study in miniature: its data, that it resumes, and that its numbers are those of the metrics."""

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
from vl_assay.hub_datasets.toy_scenes.language import parse
from vl_assay.metrics.common.errors import DataError, ModelError, ScoresError, UnknownNameError
from vl_assay.metrics.functional.hard_positives import augmented_accuracy, brittleness
from vl_assay.model_wrappers import load_model
from vl_assay.model_wrappers.study.hard_positives import variants
from vl_assay.model_wrappers.study.hard_positives.examples import ARTEFACTS, make_examples, score_examples
from vl_assay.model_wrappers.study.hard_positives.findings import (
    KINDS,
    TABLES,
    Study,
    claims,
    document,
    findings,
    verdict,
)
from vl_assay.model_wrappers.study.hard_positives.report import to_markdown
from vl_assay.model_wrappers.study.hard_positives.study import planted_training_set, run_study
from vl_assay.model_wrappers.study.hard_positives.variants import BASE, VARIANTS, Size, make_recipe

ROOT = Path(__file__).parents[3]
TINY = Size(captions=64, scenes=12, seeds=1, epochs=1, batch_size=16, warmup_steps=1)
NAMES = [variant.name for variant in VARIANTS]


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
    """A study without training: random scores, to which a variant's shift of the three captions is added."""
    rng, examples = np.random.default_rng(seed), make_examples(scenes)
    names = [variant.name for variant in VARIANTS]
    scores = {BASE: rng.normal(size=(1, len(examples), 3))}
    for name in names:
        shift = np.array(shifts.get(name.replace("-", "_").replace("+", "_"), (0, 0, 0)))
        scores[name] = scores[BASE] + 0.01 * rng.normal(size=(seeds, len(examples), 3)) + shift
    return Study(replace(TINY, scenes=scenes, seeds=seeds), examples, scores, VARIANTS)


def found_in(results, claim, compared):
    [result] = [each for each in results if claim in each["claim"] and compared in each["compared"]]
    return result


def test_the_variants_are_those_of_the_papers():
    weights = {variant.name: tuple(variant.weights) for variant in VARIANTS}
    assert weights == {
        "plain": (1, 0, 0, 0),
        "negclip-swap": (0, 1, 0, 0),
        "negclip-replace": (0, 1, 0, 0),
        "hn": (1, 0, 1, 0),
        "hp+hn": (1, 0, 1, 1),
        "swap-only": (1, 0, 1, 1),
        "replace-only": (1, 0, 1, 1),
        "hn-weight-0": (1, 0, 0, 1),
        "hn-weight-0.25": (1, 0, 0.25, 1),
        "hn-weight-0.5": (1, 0, 0.5, 1),
        "hn-weight-0.75": (1, 0, 0.75, 1),
        "hn-article": (1, 0, 1, 0),
        "hn-stop": (1, 0, 1, 0),
    }
    assert {variant.name for variant in VARIANTS} >= {
        name for table in TABLES.values() for name in table if name not in (None, BASE)
    }
    kinds = {variant.name: make_recipe(variant, TINY, 2).negatives for variant in VARIANTS}
    assert kinds["swap-only"] == kinds["negclip-swap"] == ("scene:swap",)
    assert kinds["replace-only"] == kinds["negclip-replace"] == ("scene:replace",)
    assert kinds["hn"] == kinds["hp+hn"] == kinds["hn-stop"] == ("scene:swap", "scene:replace")
    recipes = [make_recipe(variant, TINY, 2) for variant in VARIANTS]
    assert {(r.seed, r.learning_rate, r.batch_size, r.epochs, r.neighbours) for r in recipes} == {(2, 2e-4, 16, 1, 0)}


def test_examples_are_true_and_false_of_their_scenes():
    examples = make_examples(20)
    assert {example.task for example in examples} == {"hard_positives", *ARTEFACTS}
    assert {"replace_att", "replace_rel", "swap"} <= {e.category for e in examples if e.task == "hard_positives"}
    for example in examples:
        scene = sample_episode(0, "test", example.scene).scene
        true = [True, True, False] if example.task == "hard_positives" else [True, False]
        for caption, truth in zip(example.captions, true, strict=False):
            statement = parse(caption)
            assert statement is not None
            assert statement.is_true_of(scene) == truth
        if example.task in ARTEFACTS:
            assert example.captions[2] == ARTEFACTS[example.task](example.captions[1])
            assert parse(example.captions[2]) is None
    article, stop = ([e[1:3] + e.captions[:2] for e in examples if e.task == name] for name in ("article", "stop"))
    assert article == stop


@pytest.mark.parametrize("artefact", ARTEFACTS)
def test_models_are_trained_on_fresh_scenes_and_an_artefact_is_in_all_negatives_of_one_variant_only(artefact):
    by_name = {variant.name: variant for variant in VARIANTS}
    plain, planted = (planted_training_set(by_name[name], TINY, 0) for name in ("hn", f"hn-{artefact}"))
    assert len(plain.samples) == len(planted.samples) == 64
    for ours, theirs in zip(plain.samples, planted.samples, strict=True):
        assert [ARTEFACTS[artefact](text) for text in ours.negatives] == list(theirs.negatives)
        assert (ours.caption, ours.positives, ours.image) == (theirs.caption, theirs.positives, theirs.image)
        assert all(parse(text) for text in ours.negatives)
    scenes = {plain.images.scene(key) for key in plain.image_keys}
    assert scenes.isdisjoint(sample_episode(0, split, n).scene for split in ("train", "test") for n in range(100))
    other = planted_training_set(by_name["hn"], TINY, 1)
    assert {sample.caption for sample in other.samples} != {sample.caption for sample in plain.samples}


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
    assert not np.allclose(result.scores["hn"], result.scores["hn-article"])
    written = json.loads((out / "study.json").read_text("utf-8"))
    assert written == json.loads(json.dumps(document(result)))
    assert written["size"]["captions"] == 64
    assert len(written["findings"]) == len(list(claims()))
    assert (out / "study.md").read_text("utf-8") == to_markdown(written)
    assert (out / "study.png").read_bytes().startswith(b"\x89PNG")


def test_a_study_resumes_without_training_again(tiny):
    out, _, first = tiny
    models = [out / "seed-0" / name / "model.safetensors" for name in NAMES]
    files = [*models, out / "base.json", out / "seed-0" / "plain" / "training" / "study.json"]
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
    again = run_study(tmp_path, TINY, variants=VARIANTS[:2], jobs=2, progress=False)
    for name in (BASE, *NAMES[:2]):
        np.testing.assert_array_equal(again.scores[name], first.scores[name])


class Deadly(tuple):
    """Kinds of negatives that end the process that reads them."""

    def __reduce__(self):
        return os._exit, (9,)


def test_a_process_that_dies_is_reported(tmp_path):
    deadly = replace(VARIANTS[0], kinds=Deadly(("swap",)))
    with pytest.raises(ModelError, match=r"a process of the study died.*--jobs"):
        run_study(tmp_path / "out", TINY, variants=[deadly], jobs=2, progress=False)


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
    rows = document(result)["rows"]
    for name, row in rows.items():
        for kind, categories in KINDS.items():
            chosen = [
                n for n, e in enumerate(result.examples) if e.task == "hard_positives" and e.category in categories
            ]
            labels = [result.examples[n].category for n in chosen]
            by_seed = []
            for scores in result.scores[name]:
                accuracy = augmented_accuracy(scores[chosen], categories=labels)
                by_seed.append(
                    [
                        accuracy["macro_original_accuracy"],
                        accuracy["macro_augmented_accuracy"],
                        brittleness(scores[chosen], categories=labels)["macro_brittleness"],
                    ]
                )
            for n, key in enumerate(("original_accuracy", "augmented_accuracy", "brittleness")):
                assert row[kind]["by_seed"][key] == pytest.approx([seed[n] for seed in by_seed])
                assert row[kind]["scores"][key] == pytest.approx(np.mean([seed[n] for seed in by_seed]))
                low, high = row[kind]["intervals"][key]
                assert low <= row[kind]["scores"][key] <= high


def test_findings_are_found_where_they_are_and_nowhere_else():
    nothing = findings(made())
    assert {each["verdict"] for each in nothing} == {"not shown", "no gain seen", "no gain to keep"}
    # HN lowers all but the caption itself, hard positives most; the artefact's variant lowers texts that have it.
    results = findings(made(hn=(0, -6, -3), hn_article=(0, 0, -3), swap_only=(2, 2, 0)))
    for kind in ("REPLACE", "SWAP"):
        assert found_in(results, "HN raises original", f"{kind}, original accuracy: hn − plain")["verdict"] == "shown"
        assert found_in(results, "HN raises brittleness", f"{kind}, brittleness: hn − plain")["verdict"] == "shown"
        assert found_in(results, "HP+HN lowers", kind)["verdict"] == "shown"
        assert found_in(results, "HP+HN keeps", kind)["verdict"] == "the opposite"
    assert found_in(results, "swap-only does not help", f"swap-only − {BASE}")["verdict"] == "the opposite"
    assert found_in(results, "replace-only does not help", f"− {BASE}")["verdict"] == "no gain seen"
    assert found_in(results, "with a wrong article, HN gains", f"over {BASE}")["verdict"] == "shown"
    assert found_in(results, "with a final stop, HN gains", f"over {BASE}")["verdict"] == "not shown"
    # The arithmetic of one: the mean over scenes and seeds of the per-example scores.
    result = made(hn=(0, -6, -3))
    ours, base = (result.per_example(name, "brittleness", "swap") for name in ("hn", BASE))
    each = found_in(findings(result), "HN raises brittleness", f"SWAP, brittleness: hn − {BASE}")
    assert each["difference"] == pytest.approx(ours.mean() - base.mean())
    assert each["by_seed"] == pytest.approx((ours.mean(axis=1) - base.mean()).tolist())
    assert each["interval"][0] <= each["difference"] <= each["interval"][1]


@pytest.mark.parametrize(
    ("expected", "interval", "by_seed", "result"),
    [
        (1, [0.1, 0.2], [0.1, 0.2], "shown"),
        (1, [0.1, 0.2], [-0.1, 0.4], "not shown"),
        (1, [-0.1, 0.2], [0.1, 0.2], "not shown"),
        (1, [-0.2, -0.1], [-0.1, -0.2], "the opposite"),
        (-1, [-0.2, -0.1], [-0.1, -0.2], "shown"),
        (-1, [0.1, 0.2], [0.1, 0.2], "the opposite"),
        (0, [0.1, 0.2], [0.1, 0.2], "the opposite"),
        (0, [-0.1, 0.2], [0.1, 0.2], "no gain seen"),
        (0, [-0.2, -0.1], [-0.1, -0.2], "no gain seen"),
    ],
)
def test_verdicts_need_the_interval_and_every_seed(expected, interval, by_seed, result):
    assert verdict(expected, interval, by_seed) == result


def test_the_report_and_the_page_have_every_table_variant_and_finding():
    found = document(made())
    text = to_markdown(found)
    tables = (ROOT / "docs" / "study-hard-positives.md").read_text("utf-8").partition("## The command's own report")[2]
    headings = re.findall(r"^## (.*)$", text, flags=re.M)
    assert [heading.split()[0] for heading in headings] == ["Table", "Table", "SugarCrepe's", "Findings"]
    for part in (text, tables):
        assert all(heading in part for heading in headings)
        assert all(f"| {variant.label} |" in part for variant in VARIANTS)
        assert all(f"| {claim.text} | {claim.against} |" in part for claim in claims())
    assert len(found["findings"]) == len(list(claims()))
    assert found["form_alone"] == {"debiased": 0.5, "article": 1.0, "stop": 1.0}


def test_the_numbers_of_the_page_and_the_guide_are_in_its_tables():
    page = (ROOT / "docs" / "study-hard-positives.md").read_text("utf-8")
    text, tables = page.split("**Why**")[0], page.split("## The command's own report")[1]
    [paragraph] = [
        part
        for part in (ROOT / "docs" / "guide.md").read_text("utf-8").split("\n\n")
        if "study-hard-positives.md" in part
    ]
    numbers = re.findall(r"\d+\.\d", text + paragraph)
    assert len(numbers) > 20
    assert [number for number in numbers if number not in tables] == []


def test_the_command_refuses_an_unknown_study(tmp_path):
    result = invoke("study", "scaling", "--out", tmp_path)
    assert isinstance(result.exception, UnknownNameError)
    assert "hard-positives" in str(result.exception)
    with pytest.raises(ScoresError, match="scenes is 1001"):
        replace(TINY, scenes=1001)
