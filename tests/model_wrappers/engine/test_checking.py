"""`vl-assay check`: what a user learns of a new model before it is evaluated."""

from __future__ import annotations

import json

import numpy as np
import pytest
from console import invoke
from support import Recorder

from vl_assay.metrics.common.errors import ModelError, UnknownNameError
from vl_assay.model_wrappers import LoadOptions
from vl_assay.model_wrappers.clip import Clip
from vl_assay.model_wrappers.engine.checking import FAILED, NOTE, PASSED, SKIPPED, check


def states(found):
    return {finding.name: finding.state for finding in found.findings}


def text(found, name):
    [finding] = [finding for finding in found.findings if finding.name == name]
    return finding.text


@pytest.fixture(scope="module")
def demo():
    return check("demo-clip", ("sugarcrepe", "sugarcrepe/swap_obj", "tricd", "eqben"))


def test_a_sound_model_passes_every_check(demo):
    assert states(demo) == dict.fromkeys(("scores", "batches", "bfloat16", "tokens"), PASSED)
    # 6 groups of 2 x 2, and 13 images with two captions each.
    assert text(demo, "scores") == "50 pairs of toy_scenes, finite, depend on image and caption"
    assert text(demo, "bfloat16").startswith("0 of 19 decisions")
    assert demo.verdict == "demo-clip is ready to be evaluated."


def test_the_cost_of_a_benchmark_grows_with_the_counts_of_its_card(demo):
    whole, part = demo.costs["sugarcrepe"], demo.costs["sugarcrepe/swap_obj"]
    # Of the images 224 of 4,346 are swap_obj's, of the captions 490 of 15,022.
    assert 490 / 15022 < part / whole < 224 / 4346
    assert demo.costs["eqben"] is None, "its card has no counts"
    assert demo.memory > 1e7


class Leaking(Recorder):
    """Its embedding of a caption depends on the others of the batch, as with a padding that is not masked."""

    def encode_captions(self, captions, *, exact=False):
        rows = super().encode_captions(captions, exact=exact)
        return rows + 1e-3 * rows.mean(axis=0) * (len(rows) > 1)


class Blind(Recorder):
    def encode_images(self, images, *, exact=False):
        return np.ones((len(images), 48)) / np.sqrt(48)


class Broken(Recorder):
    def encode_images(self, images, *, exact=False):
        return super().encode_images(images, exact=exact) * np.nan


def test_scores_that_depend_on_the_batch_fail():
    found = check(Leaking())
    assert states(found) == {"scores": PASSED, "batches": FAILED}
    assert found.verdict == "recorder fails: batches. Its scores would not be its own."
    assert states(check(Recorder()))["batches"] == PASSED


def test_scores_that_ignore_the_image_fail_unless_the_model_is_of_text():
    assert "ignore the image" in text(check(Blind()), "scores")
    assert states(check(Blind()))["scores"] == FAILED


def test_a_model_that_gives_nan_or_follows_no_protocol_is_refused():
    with pytest.raises(ModelError, match="NaN or infinity in the stage images"):
        check(Broken())
    with pytest.raises(ModelError, match="follows none of the protocols"):
        check(type("Nothing", (), {"info": Recorder().info})())


def test_an_unknown_benchmark_is_told_before_the_model_is_loaded():
    with pytest.raises(UnknownNameError, match="sugarcrape"):
        check("no-such-model", ("sugarcrape",))


def test_tokens_other_than_the_tokenizers_are_shown(monkeypatch):
    ordinary = Clip.prepare_captions

    def backwards(self, captions):
        return [[start, *words[::-1], end] for start, *words, end in ordinary(self, captions)]

    monkeypatch.setattr(Clip, "prepare_captions", backwards)
    found = check("demo-clip", ())
    assert states(found)["tokens"] == NOTE
    assert "36 of 36 captions are not as by CLIPTokenizer, the first: " in text(found, "tokens")
    assert found.verdict == "demo-clip is ready to be evaluated; look at: tokens."


def test_another_dtype_is_not_held_to_the_batches_of_float32():
    found = check("demo-clip", (), LoadOptions(dtype="bfloat16"))
    assert states(found)["bfloat16"] == SKIPPED
    assert states(found)["batches"] in (PASSED, NOTE)


def test_the_command_prints_verdict_table_and_cost_and_fails_with_the_model():
    shown = invoke("check", "demo-owlvit", "tricd")
    assert shown.exit_code == 0, shown.output
    assert "demo-owlvit is ready to be evaluated." in shown.stdout
    assert "boxes for 30 phrases" in shown.stdout
    assert "tricd: at most about" in shown.stdout
    constant = invoke("check", "mock:constant", "--json")
    assert constant.exit_code == 1
    assert json.loads(constant.stdout)["findings"][0]["state"] == FAILED
