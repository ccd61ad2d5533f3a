"""Fused models: each head scores as transformers' own forward does of one image and one caption, or is refused."""

from __future__ import annotations

import shutil
from typing import NamedTuple

import numpy as np
import pytest
import tiny_models
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file

from vl_assay.metrics.common.errors import DataError, ModelError
from vl_assay.model_wrappers import LoadOptions, load_model
from vl_assay.model_wrappers.engine.protocol import DualEncoder

CAPTIONS = (
    "a red cat",
    "a small blue dog left of the big red box of the two man",
    "dog",
    "the two cat right of a man " * 12,  # beyond every model here
)
# Pairs of one batch: images out of order and more than once, captions of unlike length.
PAIRS = [(2, 1), (0, 0), (1, 2), (0, 3), (2, 0), (1, 1), (0, 2), (2, 3), (0, 1)]


class Case(NamedTuple):
    """A family, the settings that choose a head, and the class that scores it."""

    family: str
    settings: dict
    model_class: str


CASES = {
    "blip-itm": Case("blip", {}, "BlipForImageTextRetrieval"),
    "blip-itm-enc": Case("blip", {"first": "enc"}, "BlipForImageTextRetrieval"),
    "blip-itc": Case("blip", {"head": "itc"}, "BlipForImageTextRetrieval"),
    "blip-sum": Case("blip", {"head": "sum"}, "BlipForImageTextRetrieval"),
    "blip-aro": Case("blip", {"head": "aro"}, "BlipForImageTextRetrieval"),
    "blip2-itm": Case("blip2", {"head": "itm"}, "Blip2ForImageTextRetrieval"),
    "blip2-itc": Case("blip2", {"head": "itc"}, "Blip2ForImageTextRetrieval"),
    "flava-contrastive": Case("flava", {}, "FlavaForPreTraining"),
    "flava-itm": Case("flava", {"head": "itm"}, "FlavaForPreTraining"),
    "vilt": Case("vilt", {}, "ViltForImageAndTextRetrieval"),
    "bridgetower": Case("bridgetower", {}, "BridgeTowerForImageAndTextRetrieval"),
}
FAMILIES = sorted({case.family for case in CASES.values()})


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fused")
    return {name: getattr(tiny_models, f"tiny_{name}")(folder / name) for name in FAMILIES}


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    shapes = ((40, 50, 3), (30, 80, 3), (64, 48, 3))
    return [Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)) for shape in shapes]


def one_by_one(case, folder, images, captions, limit, dtype=torch.float32):
    """The score of each pair by the bare model, by the definitions of the heads."""
    model = getattr(transformers, case.model_class).from_pretrained(folder, dtype=torch.float32).to(dtype).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    scores = []
    for image, caption in zip(images, captions, strict=True):
        inputs = dict(tokenizer(caption, truncation=True, max_length=limit, return_tensors="pt"))
        pixels = dict(processor(image, return_tensors="pt"))
        inputs |= {name: value.to(dtype) if name == "pixel_values" else value for name, value in pixels.items()}
        inputs.pop("token_type_ids", None)
        with torch.inference_mode():
            scores.append(float(by_definition(case, model, tokenizer, inputs)))
    return np.array(scores)


def by_definition(case, model, tokenizer, inputs):
    head = case.settings.get("head")
    if case.family == "blip":
        started = inputs | {"input_ids": inputs["input_ids"].clone()}
        if head == "aro" or case.settings.get("first") == "enc":
            started["input_ids"][0, 0] = len(tokenizer) + 1  # after the vocabulary and [DEC]
        [logits] = model(**started, use_itm_head=True).itm_score
        cosine = model(**inputs, use_itm_head=False).itm_score[0, 0]
        return {
            None: logits[1] - logits[0],
            "itc": cosine,
            "sum": logits.softmax(0)[1] + cosine,
            "aro": logits[1] + cosine,
        }[head]
    if case.family == "blip2":
        [logits] = model(**inputs, use_image_text_matching_head=head == "itm").logits_per_image
        return logits[1] - logits[0] if head == "itm" else logits[0]
    if case.family == "flava":
        output = model(**inputs, input_ids_masked=inputs["input_ids"], return_loss=False)
        if head == "itm":
            return output.itm_logits[0, 1] - output.itm_logits[0, 0]
        return output.contrastive_logits_per_image[0, 0] / model.flava.logit_scale.exp()
    [logits] = model(**inputs).logits
    return logits[0] if case.family == "vilt" else logits[1] - logits[0]


def load(case, folder, **options):
    return load_model(str(folder), LoadOptions(settings=case.settings, **options))


def score(model, images, captions, pairs, exact=False):
    """The scores of pairs in one batch, by whichever protocol the model follows."""
    pixels = [model.prepare_image(image) for image in images]
    tokens = model.prepare_captions(captions)
    seen = model.encode_images(pixels, exact=exact)
    if isinstance(model, DualEncoder):
        read = model.encode_captions(tokens, exact=exact)
        assert seen.dtype == read.dtype == (np.float64 if exact else np.float32)
        return np.array([seen[i].astype(np.float64) @ read[j] for i, j in pairs])
    scores = model.match(seen, [i for i, _ in pairs], [tokens[j] for _, j in pairs], exact=exact)
    assert scores.dtype == np.float64
    assert scores.shape == (len(pairs),)
    return scores


@pytest.mark.parametrize("name", CASES)
def test_scores_equal_a_bare_forward_of_one_pair_at_a_time(name, checkpoints, images):
    case = CASES[name]
    folder = checkpoints[case.family]
    model = load(case, folder)
    ours = score(model, images, CAPTIONS, PAIRS)
    chosen = [images[i] for i, _ in PAIRS], [CAPTIONS[j] for _, j in PAIRS]
    np.testing.assert_allclose(ours, one_by_one(case, folder, *chosen, model.max_tokens), rtol=0, atol=1e-5)
    assert np.ptp(ours) > 0.1, "scores that hardly differ would show little"


@pytest.mark.parametrize("name", CASES)
def test_exact_scores_are_those_of_double_precision(name, checkpoints, images):
    case = CASES[name]
    folder = checkpoints[case.family]
    model = load(case, folder)
    exact = np.array([score(model, [images[i]], [CAPTIONS[j]], [(0, 0)], exact=True)[0] for i, j in PAIRS])
    np.testing.assert_allclose(exact, score(model, images, CAPTIONS, PAIRS), rtol=0, atol=1e-5)
    chosen = [images[i] for i, _ in PAIRS], [CAPTIONS[j] for _, j in PAIRS]
    double = one_by_one(case, folder, *chosen, model.max_tokens, dtype=torch.float64)
    np.testing.assert_allclose(exact, double, rtol=0, atol=1e-12)
    assert next(model._model.parameters()).dtype == torch.float32, "the model itself stays as it was"


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("blip-itc", "flava-contrastive", "vilt")])
def test_an_image_passes_the_vision_tower_once_for_all_its_captions(name, checkpoints, images):
    model = load(CASES[name], checkpoints[CASES[name].family])
    towers = [module for path, module in model._model.named_modules() if path.endswith(("vision_model", "image_model"))]
    if CASES[name].family == "bridgetower":
        towers = list(model._model.bridgetower.vision_model.visual.transformer.resblocks)
    assert towers
    calls = []
    for tower in towers:
        tower.register_forward_hook(lambda *_: calls.append(1))
    seen = model.encode_images([model.prepare_image(image) for image in images])
    tokens = model.prepare_captions(CAPTIONS)
    for _ in range(3):
        model.match(seen, [0, 0, 1, 2], tokens)
    assert len(calls) == len(towers)


def broken(folder, target, change):
    """A copy of a checkpoint with other weights."""
    shutil.copytree(folder, target)
    weights = load_file(target / "model.safetensors")
    change(weights)
    save_file(weights, target / "model.safetensors", {"format": "pt"})
    return str(target)


@pytest.mark.parametrize("family", FAMILIES)
def test_attention_is_the_default_of_transformers(family, checkpoints):
    model = load_model(str(checkpoints[family]))._model
    bare = type(model).from_pretrained(checkpoints[family])
    assert model.config._attn_implementation == bare.config._attn_implementation
    if family in ("blip", "flava"):  # to ask these for sdpa is an error, which is why none is asked for
        with pytest.raises(ValueError, match="scaled_dot_product_attention"):
            type(model).from_pretrained(checkpoints[family], attn_implementation="sdpa")


def test_automodel_would_score_blip_with_random_projections(checkpoints):
    _, loading = transformers.AutoModel.from_pretrained(checkpoints["blip"], output_loading_info=True)
    assert any("projection" in key for key in loading["missing_keys"])
    assert type(load_model(str(checkpoints["blip"]))._model) is transformers.BlipForImageTextRetrieval


def test_a_blip_for_captions_lacks_the_heads_and_is_refused(checkpoints, tmp_path):
    shutil.copytree(checkpoints["blip"], tmp_path / "captioner")
    config = transformers.BlipConfig.from_pretrained(checkpoints["blip"])
    transformers.BlipForConditionalGeneration(config).save_pretrained(tmp_path / "captioner")
    with pytest.raises(ModelError, match=r"missing keys: itm_head\.bias"):
        load_model(str(tmp_path / "captioner"))


def test_a_blip_without_the_enc_token_says_so(tmp_path):
    folder = tiny_models.tiny_blip(tmp_path / "blip", bos_token_id=3)
    assert load_model(str(folder), LoadOptions(settings={"head": "aro", "first": "cls"}))
    folder = tiny_models.tiny_blip(tmp_path / "end", bos_token_id=tiny_models_words() + 1)
    with pytest.raises(ModelError, match=r"no \[ENC\].*set first=cls"):
        load_model(str(folder), LoadOptions(settings={"head": "aro"}))


def tiny_models_words():
    return len(tiny_models.bert_words())


def test_blip2_with_image_tokens_in_its_prompt_scores_as_its_own_forward(images, tmp_path):
    folder = tiny_models.tiny_blip2(tmp_path / "blip2", image_token_index=tiny_models_words())
    bare = transformers.Blip2ForImageTextRetrieval.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    tokens = tokenizer(CAPTIONS[0], return_tensors="pt")
    ids = torch.cat([torch.full((1, 4), tiny_models_words()), tokens["input_ids"]], dim=1)
    inputs = processor(images[0], return_tensors="pt") | {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    for head in ("itm", "itc"):
        model = load_model(str(folder), LoadOptions(settings={"head": head}))
        [ours] = score(model, images[:1], CAPTIONS[:1], [(0, 0)])
        with torch.inference_mode():
            [logits] = bare(**inputs, use_image_text_matching_head=head == "itm").logits_per_image
        assert ours == pytest.approx(float(logits[1] - logits[0] if head == "itm" else logits[0]), abs=1e-5)


def test_the_embedding_of_flava_is_the_first_token_not_what_get_image_features_returns(checkpoints, images):
    model = load_model(str(checkpoints["flava"]))
    pixels = model.prepare_image(images[0])
    with torch.inference_mode():
        features = model._model.get_image_features(pixel_values=torch.from_numpy(pixels)[None]).pooler_output
    assert features.shape == (1, 17, 16)  # 4 x 4 patches and the first token, projected
    first = features[0, 0] / features[0, 0].norm()
    np.testing.assert_allclose(model.encode_images([pixels])[0], first, rtol=0, atol=1e-6)


def test_a_bare_flava_has_the_contrastive_head_alone(images, tmp_path):
    folder = tiny_models.tiny_flava(tmp_path / "flava", kind="FlavaModel")
    assert score(load_model(str(folder)), images, CAPTIONS, PAIRS).shape == (len(PAIRS),)
    with pytest.raises(ModelError, match=r"missing keys: itm_head"):
        load_model(str(folder), LoadOptions(settings={"head": "itm"}))


def test_flava_matches_without_the_codebook_of_its_training(checkpoints):
    model = load(CASES["flava-itm"], checkpoints["flava"])
    assert any(key.startswith("image_codebook.") for key in load_file(checkpoints["flava"] / "model.safetensors"))
    assert model._model.image_codebook is None


def test_vilt_reads_all_patches_in_order_and_leaves_the_random_state_alone(images, tmp_path):
    whole, some = (
        load_model(str(tiny_models.tiny_vilt(tmp_path / str(longest), max_image_length=longest))) for longest in (-1, 3)
    )
    state = torch.get_rng_state()
    scores = score(whole, images, CAPTIONS, PAIRS)
    assert (torch.get_rng_state() == state).all()
    assert (score(whole, images, CAPTIONS, PAIRS) == scores).all()
    assert (score(some, images, CAPTIONS, PAIRS) == scores).all()


def test_an_image_too_thin_for_vilt_is_named_with_the_cure(checkpoints):
    model = load_model(str(checkpoints["vilt"]))
    with pytest.raises(DataError, match=r"900 x 3 pixels.*pad it"):
        model.prepare_image(Image.new("RGB", (900, 3)))


@pytest.mark.parametrize(
    "options", [{"share_cross_modal_transformer_layers": False}, {"link_tower_type": "interpolate"}]
)
def test_other_bridges_of_bridgetower_score_as_their_forward(options, images, tmp_path):
    folder = tiny_models.tiny_bridgetower(tmp_path / "other", **options)
    model = load_model(str(folder))
    pairs = PAIRS[:3]
    chosen = [images[i] for i, _ in pairs], [CAPTIONS[j] for _, j in pairs]
    expected = one_by_one(CASES["bridgetower"], folder, *chosen, model.max_tokens)
    np.testing.assert_allclose(score(model, images, CAPTIONS, pairs), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sure_pairs_do_not_tie(dtype, checkpoints, images, tmp_path):
    def sure(weights):
        weights["itm_head.weight"][1] *= 10
        weights["itm_head.bias"][1] += 100

    folder = broken(checkpoints["blip"], tmp_path / "sure", sure)
    scores = score(load_model(folder, LoadOptions(dtype=dtype)), images, CAPTIONS, PAIRS)
    # The authors' probability is 1 for all of them, and in bfloat16 logits near 100 are half a unit apart.
    assert set(torch.tensor(scores).float().sigmoid().tolist()) == {1.0}
    assert len(set(scores)) == len(PAIRS)
