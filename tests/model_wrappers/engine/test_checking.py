"""`vl-assay check` and `--plan`: what a user learns of a model, and of a run, before it."""

from __future__ import annotations

import numpy as np
import pytest
from console import invoke
from support import UNVERIFIED, Recorder

from vl_assay.hub_datasets import load_examples
from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import LoadOptions, plan, predict
from vl_assay.model_wrappers.engine.checking import check


def passed(found):
    return {finding.name: finding.is_passed for finding in found.findings}


def test_a_sound_model_passes_and_its_precision_speed_and_memory_are_told(tiny_clip, toy):
    found = check(str(tiny_clip))
    assert passed(found) == {"scores": True, "batches": True}
    # 6 groups of 2 x 2, and 13 images with two captions each.
    assert found.findings[0].text == "50 pairs of toy_scenes, finite, depend on image and caption"
    assert found.verdict == "clip is ready to be evaluated."
    assert (found.info.dtype, found.device, found.info.preprocessing["backend"]) == ("float32", "cpu", "pil")
    assert all(0 < found.seconds[stage] < 5 for stage in ("images", "captions"))
    assert found.memory > 1e7
    # Half precision is not held to the batches of float32.
    assert passed(check(str(tiny_clip), LoadOptions(dtype="bfloat16"))) == {"scores": True}


class Leaking(Recorder):
    """Its embedding of a caption depends on the others of the batch, as with a padding that is not masked."""

    def encode_captions(self, captions, *, exact=False):
        rows = super().encode_captions(captions, exact=exact)
        return rows + 1e-3 * rows.mean(axis=0) * (len(rows) > 1)


class Blind(Recorder):
    def encode_images(self, images, *, exact=False):
        return np.ones((len(images), 48)) / np.sqrt(48)


def test_scores_that_depend_on_the_batch_or_ignore_the_image_fail(toy):
    found = check(Leaking())
    assert passed(found) == {"scores": True, "batches": False}
    assert found.verdict == "recorder fails: batches. Its scores would not be its own."
    assert passed(check(Recorder())) == {"scores": True, "batches": True}
    blind = check(Blind())
    assert passed(blind) == {"scores": False, "batches": True}
    assert "ignore the image" in blind.findings[0].text


def test_a_model_that_follows_no_protocol_is_refused():
    with pytest.raises(ModelError, match="follows none of the protocols"):
        check(type("Nothing", (), {"info": Recorder().info})())
    with pytest.raises(ModelError, match="does text_similarity, of which toy_scenes has no task to check"):
        check(type("OfTexts", (), {"info": Recorder().info, "score_texts": len})())


def test_the_command_prints_verdict_and_facts_and_fails_with_the_model(toy):
    shown = invoke("check", "demo-owlvit")
    assert shown.exit_code == 0, shown.output
    for text in (
        "demo-owlvit is ready to be evaluated.",
        "boxes for 30 phrases",
        "float32 on cpu",
        "ms an item of boxes",
    ):
        assert text in shown.stdout
    constant = invoke("check", "mock:constant")
    assert constant.exit_code == 1
    assert "FAILED: 50 pairs of toy_scenes, finite, ignore the image and ignore the caption" in constant.stdout


def test_a_plan_counts_what_is_not_stored_and_writes_nothing(coco, tiny_clip, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path / "cache"))
    run = {"data_dir": coco(rows=30, images=10), "options": UNVERIFIED}
    planned = plan(str(tiny_clip), "sugarcrepe/add_att", **run)
    assert {kind: stored for kind, (_, stored) in planned.results.items()} == {"images": 0, "captions": 0}
    images, captions = (planned.results[kind][0] for kind in ("images", "captions"))
    assert (images, captions) == (10, len(set(captions_of(run))))
    assert not (tmp_path / "vl-assay-results").exists()
    assert not (tmp_path / "cache" / "store").exists()
    predict(str(tiny_clip), "sugarcrepe/add_att", limit=6, progress=False, **run)
    some = plan(str(tiny_clip), "sugarcrepe/add_att", **run)
    assert some.results["images"] == (10, 6)
    assert f"To be computed: images 4 of 10, captions {captions - some.results['captions'][1]} of {captions}" in str(
        some
    )


def captions_of(run):
    [task] = load_examples("sugarcrepe/add_att", **run)
    return [caption for example in task.examples for caption in example.captions]
