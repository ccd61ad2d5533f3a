"""Models with cross-attention between image and caption: what is particular to each."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import tiny_models
import torch
import transformers
from bare_forwards import bare_scores, score
from PIL import Image
from safetensors.torch import load_file, save_file

from vl_assay.metrics.common.errors import DataError, ModelError
from vl_assay.model_wrappers import LoadOptions, load_model

CAPTIONS = (
    "a red cat",
    "a small blue dog left of the big red box of the two man",
    "dog",
    "the two cat right of a man " * 12,  # beyond every model here
)
# Pairs of one batch: images out of order and more than once, captions of unlike length.
PAIRS = [(2, 1), (0, 0), (1, 2), (0, 3), (2, 0), (1, 1), (0, 2), (2, 3), (0, 1)]


def test_a_blip_without_the_enc_token_says_so(tmp_path):
    folder = tiny_models.tiny_blip(tmp_path / "blip", bos_token_id=3)
    assert load_model(str(folder), LoadOptions(settings={"head": "aro", "first": "cls"}))
    folder = tiny_models.tiny_blip(tmp_path / "end", bos_token_id=len(tiny_models.bert_words()) + 1)
    with pytest.raises(ModelError, match=r"no \[ENC\].*set first=cls"):
        load_model(str(folder), LoadOptions(settings={"head": "aro"}))


def test_blip2_with_image_tokens_in_its_prompt_scores_as_its_own_forward(images, tmp_path):
    folder = tiny_models.tiny_blip2(tmp_path / "blip2", image_token_index=len(tiny_models.bert_words()))
    bare = transformers.Blip2ForImageTextRetrieval.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    tokens = tokenizer(CAPTIONS[0], return_tensors="pt")
    ids = torch.cat([torch.full((1, 4), len(tiny_models.bert_words())), tokens["input_ids"]], dim=1)
    inputs = processor(images[0], return_tensors="pt") | {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    for head in ("itm", "itc"):
        model = load_model(str(folder), LoadOptions(settings={"head": head}))
        [ours] = score(model, images[:1], CAPTIONS[:1], [(0, 0)])
        with torch.inference_mode():
            [logits] = bare(**inputs, use_image_text_matching_head=head == "itm").logits_per_image
        assert ours == pytest.approx(float(logits[1] - logits[0] if head == "itm" else logits[0]), abs=1e-5)


def test_a_bare_flava_has_the_contrastive_head_alone(images, tmp_path):
    folder = tiny_models.tiny_flava(tmp_path / "flava", kind="FlavaModel")
    assert score(load_model(str(folder)), images, CAPTIONS, PAIRS).shape == (len(PAIRS),)
    with pytest.raises(ModelError, match=r"missing keys: itm_head"):
        load_model(str(folder), LoadOptions(settings={"head": "itm"}))


def test_vilt_reads_all_patches_in_order_and_leaves_the_random_state_alone(images, tmp_path):
    whole, some = (
        load_model(str(tiny_models.tiny_vilt(tmp_path / str(longest), max_image_length=longest))) for longest in (-1, 3)
    )
    state = torch.get_rng_state()
    scores = score(whole, images, CAPTIONS, PAIRS)
    assert (torch.get_rng_state() == state).all()
    assert (score(whole, images, CAPTIONS, PAIRS) == scores).all()
    assert (score(some, images, CAPTIONS, PAIRS) == scores).all()


def test_an_image_too_thin_for_vilt_is_named_with_the_cure(folders):
    model = load_model(str(folders["vilt"]))
    with pytest.raises(DataError, match=r"900 x 3 pixels.*pad it"):
        model.prepare_image(Image.new("RGB", (900, 3)))


@pytest.mark.parametrize(
    "options", [{"share_cross_modal_transformer_layers": False}, {"link_tower_type": "interpolate"}]
)
def test_other_bridges_of_bridgetower_score_as_their_forward(options, images, tmp_path):
    folder = tiny_models.tiny_bridgetower(tmp_path / "other", **options)
    model = load_model(str(folder))
    pairs = PAIRS[:3]
    expected = bare_scores("bridgetower", {}, folder, images, CAPTIONS, pairs, model.max_tokens)
    np.testing.assert_allclose(score(model, images, CAPTIONS, pairs), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sure_pairs_do_not_tie(dtype, folders, images, tmp_path):
    shutil.copytree(folders["blip"], tmp_path / "sure")
    weights = load_file(tmp_path / "sure" / "model.safetensors")
    weights["itm_head.weight"][1] *= 10
    weights["itm_head.bias"][1] += 100
    save_file(weights, tmp_path / "sure" / "model.safetensors", {"format": "pt"})
    model = load_model(str(tmp_path / "sure"), LoadOptions(dtype=dtype))
    scores = score(model, images, CAPTIONS, PAIRS)
    # The authors' probability is 1 for all of them, and in bfloat16 logits near 100 are half a unit apart.
    assert set(torch.tensor(scores).float().sigmoid().tolist()) == {1.0}
    assert len(set(scores)) == len(PAIRS)
