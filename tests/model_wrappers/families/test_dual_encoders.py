"""Dual encoders of `transformers`: CLIP and those built like it, SigLIP, SigLIP 2; against their bare forwards."""

from __future__ import annotations

import json
import shutil
import warnings

import numpy as np
import pytest
import tiny_models
import torch
from PIL import Image

from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import DualEncoder, LoadOptions, load_model

TYPES = ("clip", "metaclip_2", "align", "altclip", "chinese_clip", "siglip", "siglip2")
FAMILY = {"siglip": "siglip", "siglip2": "siglip"}
# Tokens that each tiny model reads: its positions, or what its tokenizer leaves where that is less.
LIMITS = dict(zip(TYPES, (32, 12, 14, 14, 14, 20, 20), strict=True))
CAPTIONS = [
    "a red cat left of the blue dog",
    "a dog",
    "the two big star and a small green box near the man",
    "a blue cat left of the red dog",
    "the red box " * 12,
]


@pytest.fixture(scope="module")
def folders(tiny_clip, tmp_path_factory):
    """The folder of a tiny checkpoint of each type."""
    place = tmp_path_factory.mktemp("dual")
    built = {kind: getattr(tiny_models, f"tiny_{kind}")(place / kind) for kind in TYPES if kind != "clip"}
    return {"clip": tiny_clip} | built


@pytest.fixture(scope="module")
def models(folders):
    """Each checkpoint, loaded once."""
    return {kind: load_model(str(folder)) for kind, folder in folders.items()}


@pytest.fixture(scope="module")
def images():
    """Images of unlike sizes, shapes and modes."""
    rng = np.random.default_rng(3)
    sizes = ((40, 33), (64, 24), (33, 50), (32, 32))
    drawn = [Image.fromarray(rng.integers(0, 256, (h, w, 3), dtype=np.uint8)) for w, h in sizes]
    return [*drawn[:3], drawn[3].convert("L")]


def bare_scores(folder, images, captions):
    """Cosines by `transformers` alone, one image with one caption at a time, from ``logits_per_image``."""
    import torch
    from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    kind = model.config.model_type
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="right")
    processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
    scores = np.empty((len(images), len(captions)))
    for i, image in enumerate(images):
        for j, caption in enumerate(captions):
            if kind.startswith("siglip"):
                # Lower case, padding to the full length and no mask: as in training.
                tokens = tokenizer(
                    caption.lower(), truncation=True, max_length=LIMITS[kind], padding="max_length", return_tensors="pt"
                )
                tokens = {"input_ids": tokens["input_ids"]}
            else:
                tokens = tokenizer(caption, truncation=True, max_length=LIMITS[kind], return_tensors="pt")
            pixels = processor(image.convert("RGB"), return_tensors="pt")
            with torch.inference_mode():
                logit = model(**tokens, **pixels).logits_per_image
                if kind == "align":
                    cosine = logit * model.temperature
                elif kind.startswith("siglip"):
                    cosine = (logit - model.logit_bias) / model.logit_scale.exp()
                else:
                    cosine = logit / model.logit_scale.exp()
            scores[i, j] = float(cosine)
    return scores


def our_embeddings(model, images, captions, **options):
    prepared = [model.prepare_image(image) for image in images]
    return (
        model.encode_images(prepared, **options),
        model.encode_captions(model.prepare_captions(captions), **options),
    )


@pytest.mark.parametrize("kind", TYPES)
def test_scores_equal_the_bare_forward_one_pair_at_a_time(kind, folders, models, images):
    model = models[kind]
    assert isinstance(model, DualEncoder)
    assert model.info.family == FAMILY.get(kind, "clip")
    pictures, texts = our_embeddings(model, images, CAPTIONS)
    expected = bare_scores(folders[kind], images, CAPTIONS)
    np.testing.assert_allclose(pictures.astype(np.float64) @ texts.T, expected, atol=1e-5, rtol=0)
    # Scores that could be confused would show nothing.
    assert np.min(np.ptp(expected, axis=1)) > 1e-3
    assert np.min(np.ptp(expected, axis=0)) > 1e-3


def test_a_predictions_says_what_was_done_to_images(models):
    assert models["align"].info.preprocessing["rescale_offset"] is True
    assert models["siglip2"].info.preprocessing["max_num_patches"] == 16
    for kind, model in models.items():
        assert model.info.preprocessing["backend"] == "pil", kind
        json.dumps(model.info.preprocessing)


def test_siglip_2_is_lower_cased_as_in_training_unless_told_otherwise(folders, models):
    capital = ["A Cat"]
    for kind in ("siglip", "siglip2"):
        assert models[kind].info.settings["lower_case"] == "yes"
        assert models[kind].prepare_captions(capital) == models[kind].prepare_captions(["a cat"])
    kept = load_model(str(folders["siglip"]), LoadOptions(settings={"lower_case": "no"}))
    assert kept.info.settings["lower_case"] == "no"
    assert kept.info.name == "siglip (lower_case=no)"
    assert kept.prepare_captions(capital) != kept.prepare_captions(["a cat"])


def test_siglip_with_a_tokenizer_of_its_own_is_left_to_it(tmp_path):
    folder = tiny_models.tiny_siglip(tmp_path / "one", tiny_models.xlmr_words())
    model = load_model(str(folder))
    assert model.info.settings == {"lower_case": "no", "end_token": "by the tokenizer"}
    assert load_model(str(folder), LoadOptions(settings={"lower_case": "yes"})).info.settings["lower_case"] == "yes"


def test_siglip_captions_end_with_the_end_token_even_where_the_tokenizer_puts_none(tmp_path):
    tokenizer = tiny_models.gemma_words("GemmaTokenizer", add_eos_token=False)
    model = load_model(str(tiny_models.tiny_siglip(tmp_path / "endless", tokenizer)))
    assert model.info.settings["end_token"] == "added"
    [ids] = model.prepare_captions(["a cat"])
    assert ids == [*tokenizer("a cat")["input_ids"], tokenizer.eos_token_id]


def test_a_tokenizer_whose_end_the_model_would_not_find_is_refused(tiny_clip, tmp_path):
    shutil.copytree(tiny_clip, tmp_path / "moved")
    config = json.loads((tmp_path / "moved" / "config.json").read_text())
    end = config["text_config"]["eos_token_id"]
    config["text_config"]["eos_token_id"] = end - 1
    (tmp_path / "moved" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=rf"by its configuration the id {end - 1} .* ends captions with {end}"):
        load_model(str(tmp_path / "moved"))
    # The historic 2 means the highest id, which here is the end token's: the scores stay.
    config["text_config"]["eos_token_id"] = 2
    (tmp_path / "moved" / "config.json").write_text(json.dumps(config))
    historic, today = load_model(str(tmp_path / "moved")), load_model(str(tiny_clip))
    ids = today.prepare_captions(CAPTIONS)
    np.testing.assert_array_equal(historic.encode_captions(ids), today.encode_captions(ids))
    # A token added behind it, such as one for padding, would be read in its place.
    tokenizer = historic._tokenizer
    tokenizer.add_tokens(["<extra>"])
    tokenizer.save_pretrained(tmp_path / "moved")
    with pytest.raises(ModelError, match="the highest of its vocabulary"):
        load_model(str(tmp_path / "moved"))
    with pytest.raises(ModelError, match="by its configuration the id 5"):
        load_model(str(tiny_models.tiny_metaclip_2(tmp_path / "meta", eos_token_id=5)))


def test_a_tokenizer_that_lacks_its_library_says_which(folders, monkeypatch):
    from vl_assay.model_wrappers.loading import checkpoints as _loading

    def lacking(*_, **__):
        raise ImportError("SiglipTokenizer requires the SentencePiece library")

    monkeypatch.setattr(_loading.AutoTokenizer, "from_pretrained", lacking)
    with pytest.raises(ModelError, match="pip install sentencepiece protobuf"):
        load_model(str(folders["siglip"]))


def test_loading_and_encoding_warn_of_nothing(folders, images):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for folder in folders.values():
            our_embeddings(load_model(str(folder)), images[:1], CAPTIONS)


def test_the_demo_checkpoint_is_a_clip():
    model = load_model("demo-clip")
    assert (model.info.family, model.info.name) == ("clip", "demo-clip")
    assert isinstance(model, DualEncoder)


def test_a_compiled_model_gives_the_same_and_says_so(tiny_clip, monkeypatch):
    compiled = []

    def note(module, **options):
        compiled.append(type(module).__name__)
        assert options == {"dynamic": True}

    monkeypatch.setattr(torch.nn.Module, "compile", note)
    plain, fast = (load_model(str(tiny_clip), LoadOptions(compile=flag)) for flag in (False, True))
    assert any("Text" in name for name in compiled)
    assert any("Vision" in name for name in compiled)
    assert fast.info.settings == {**plain.info.settings, "compile": "true"}
