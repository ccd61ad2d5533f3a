"""The family open_clip, on tiny models of the library itself where it is installed, else of a stand-in for it."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import warnings
from importlib.machinery import ModuleSpec

import numpy as np
import pytest
import torch
from PIL import Image

from vl_assay.metrics.common.errors import ModelError, UnknownNameError
from vl_assay.model_wrappers import DualEncoder, LoadOptions, load_model

CAPTIONS = ["a red cat left of the blue dog", "a dog", "two small stars!!", "the red box " * 12]
CONTEXT = 24
MODELS = ("tiny", "tiny-quickgelu", "ViT-B-32", "ViT-B-32-quickgelu")


@pytest.fixture
def library(monkeypatch, tmp_path):
    """The library with models ``tiny`` and ``tiny-quickgelu`` and tags with files, whichever of the two it is.

    Its ``ViT-B-32``, which published checkpoints have, is the same tiny model.
    """
    config = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8},
        "text_cfg": {"context_length": CONTEXT, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
    }
    configs = {name: config | {"quick_gelu": name.endswith("-quickgelu")} for name in MODELS}
    quick, plain = {"url": "-", "quick_gelu": True}, {"url": "-"}
    tags = {("tiny", "laion"): plain} | {(name, "openai"): quick for name in MODELS}
    if importlib.util.find_spec("open_clip") is None:
        import fake_open_clip as module

        module.__spec__ = ModuleSpec("open_clip", None)
        monkeypatch.setitem(sys.modules, "open_clip", module)
        monkeypatch.setattr(module, "MODELS", configs)
        monkeypatch.setattr(module, "TAGS", tags)
        monkeypatch.setattr(module, "FILES", {key: str(tmp_path / "published.pt") for key in tags})
        make = module.FakeClip
    else:
        import open_clip as module

        for name, values in configs.items():
            monkeypatch.setitem(module.factory._MODEL_CONFIGS, name, values)
            known = {tag: values for (model, tag), values in tags.items() if model == name}
            monkeypatch.setitem(module.pretrained._PRETRAINED, name, known)
        monkeypatch.setattr(module.factory, "download_pretrained", lambda *_, **__: str(tmp_path / "published.pt"))

        def make(values):
            return module.CLIP(**values)

    torch.manual_seed(0)
    model = make(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2) if parameter.ndim > 1 else None
    torch.save(model.state_dict(), tmp_path / "published.pt")
    torch.save({"epoch": 5, "state_dict": model.state_dict()}, tmp_path / "negclip.pth")
    torch.save(model.state_dict(), tmp_path / "mine.pt")
    return module


@pytest.fixture
def images():
    rng = np.random.default_rng(3)
    return [Image.fromarray(rng.integers(0, 256, (h, w, 3), dtype=np.uint8)) for w, h in ((40, 33), (64, 24), (32, 50))]


def embeddings(model, images, captions, **options):
    prepared = [model.prepare_image(image) for image in images]
    found = model.encode_images(prepared, **options), model.encode_captions(model.prepare_captions(captions), **options)
    return tuple(rows.numpy() for rows in found)


def load_negclip(tmp_path, name="tiny-quickgelu", file="negclip.pth", **options):
    return load_model(f"open_clip:{name}", LoadOptions(settings={"pretrained": str(tmp_path / file)}, **options))


@pytest.mark.parametrize("name", ["tiny/laion", "tiny-quickgelu/openai"])
def test_scores_equal_the_library_s_own_one_pair_at_a_time(name, library, images):
    model = load_model(f"open_clip:{name}")
    assert isinstance(model, DualEncoder)
    theirs, _, preprocess = library.create_model_and_transforms(*name.split("/"))
    tokenizer = library.get_tokenizer(name.split("/")[0])
    expected = np.empty((len(images), len(CAPTIONS)))
    with torch.inference_mode():
        for i, image in enumerate(images):
            for j, caption in enumerate(CAPTIONS):
                picture, text, _ = theirs.eval()(preprocess(image)[None], tokenizer([caption]))
                expected[i, j] = float((picture * text).sum())
    pictures, texts = embeddings(model, images, CAPTIONS)
    np.testing.assert_allclose(pictures.astype(np.float64) @ texts.T, expected, atol=1e-5, rtol=0)
    assert np.ptp(expected, axis=1).min() > 1e-3
    assert np.ptp(expected, axis=0).min() > 1e-3


def test_captions_are_told_whole_and_cut_as_the_library_cuts_them(library):
    model = load_model("open_clip:tiny/laion")
    texts = ["a dog", "", "wow!", "the red box " * 200]
    rows = model.prepare_captions(texts)
    assert model.max_tokens == CONTEXT
    assert all(type(number) is int for ids in rows for number in ids)
    assert len(rows[0]) < 10
    assert len(rows[3]) > 4 * 4 * CONTEXT
    assert len({ids[-1] for ids in rows}) == 1
    assert torch.equal(model.padded(rows), library.get_tokenizer("tiny")(texts))
    assert model.prepare_captions([]) == []


WRONG, UNKNOWN = "trained with the activation quick_gelu, .*-quickgelu matches", "the activation {}; .* is not known"


@pytest.mark.parametrize(
    ("name", "file", "activation", "mismatch", "warning"),
    [
        ("tiny/openai", "", "gelu", "yes", WRONG),
        ("tiny/laion", "", "gelu", "no", ""),
        ("tiny-quickgelu/openai", "", "quick_gelu", "no", ""),
        # A file is known by its name, or by that of a published checkpoint; ConCLIP's activation is not known.
        ("tiny", "negclip.pth", "gelu", "yes", WRONG),
        ("tiny-quickgelu", "negclip.pth", "quick_gelu", "no", ""),
        ("tiny", "mine.pt", "gelu", "unknown", UNKNOWN.format("gelu")),
        ("tiny-quickgelu", "mine.pt", "quick_gelu", "unknown", UNKNOWN.format("quick_gelu")),
        ("negclip", "mine.pt", "quick_gelu", "no", ""),
        ("conclip", "mine.pt", "gelu", "unknown", UNKNOWN.format("gelu")),
    ],
)
def test_an_activation_that_the_weights_do_not_want_is_told(
    name, file, activation, mismatch, warning, library, tmp_path
):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        info = (load_negclip(tmp_path, name, file) if file else load_model(f"open_clip:{name}")).info
    told = [str(each.message) for each in caught if issubclass(each.category, UserWarning)]
    assert len(told) == bool(warning)
    assert all(re.search(warning, text) for text in told)
    assert info.settings == {
        **{"pretrained": file or name.split("/")[1], "activation": activation, "activation_mismatch": mismatch}
    }


def test_a_predictions_names_no_folder_of_this_machine_and_tells_weights_apart(library, tmp_path):
    info = load_negclip(tmp_path).info
    assert str(tmp_path) not in repr(info)
    assert (info.family, info.checkpoint) == ("open_clip", "tiny-quickgelu (pretrained=negclip.pth)")
    assert load_negclip(tmp_path, "negclip").info.name == "ViT-B-32-quickgelu (pretrained=negclip.pth)"
    assert info.parameters > 0
    assert json.loads(json.dumps(info.preprocessing)) == info.preprocessing
    assert info.preprocessing["mean"]
    assert load_negclip(tmp_path, file="mine.pt").info.revision == info.revision
    weights = torch.load(tmp_path / "mine.pt")
    weights["logit_scale"] += 1
    torch.save(weights, tmp_path / "mine.pt")
    assert load_negclip(tmp_path, file="mine.pt").info.revision != info.revision


def test_the_dtype_is_the_one_asked_for_whatever_the_file_holds(library, tmp_path, images):
    weights = torch.load(tmp_path / "mine.pt")
    torch.save({name: tensor.half() for name, tensor in weights.items()}, tmp_path / "mine.pt")
    assert {p.dtype for p in load_negclip(tmp_path, file="mine.pt").module.parameters()} == {torch.float32}
    model = load_negclip(tmp_path, dtype="bfloat16")
    assert {p.dtype for p in model.module.parameters()} == {torch.bfloat16}
    assert all(np.isfinite(rows).all() for rows in embeddings(model, images, CAPTIONS))


def test_weights_missing_left_over_or_of_another_shape_are_an_error_that_lists_them(library, tmp_path):
    for change, message in (
        (lambda weights: weights.pop("positional_embedding"), "positional_embedding"),
        (lambda weights: weights.update({"token_embedding.weight": torch.ones(5, 5)}), r"token_embedding\.weight"),
        (lambda weights: weights.update({"itm.bias": torch.ones(5)}), r"itm\.bias"),
    ):
        weights = torch.load(tmp_path / "published.pt")
        change(weights)
        torch.save(weights, tmp_path / "mine.pt")
        with pytest.raises(ModelError, match=rf"(?s)cannot load tiny \(pretrained=mine\.pt\) as open_clip.*{message}"):
            load_negclip(tmp_path, "tiny", "mine.pt")


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("tiny", {}, ModelError, r"tiny names no weights; .* one of laion, openai; .* pretrained=FILE"),
        ("tiny/openai", {"pretrained": "negclip.pth"}, ModelError, "names two kinds of weights"),
        ("tiny/laion2b", {}, UnknownNameError, "unknown weights of tiny 'laion2b'; known: laion, openai"),
        ("tinny/openai", {}, ModelError, "has no model 'tinny'; perhaps tiny"),
        ("tiny", {"pretrained": "absent.pth"}, ModelError, "no file of weights at pretrained="),
        ("hf-hub:owner/name", {"pretrained": "negclip.pth"}, ModelError, "includes its weights"),
        ("tiny", {"tag": "openai"}, UnknownNameError, "unknown setting of open_clip 'tag'; known: pretrained"),
        ("negclip", {}, ModelError, r"download the weights of NegCLIP \(Drive file .*pretrained=FILE"),
        ("read-clip", {}, ModelError, "loaded as clip:Mayfull/READ-CLIP"),
        ("hard-positives", {}, ModelError, "published no weights"),
    ],
)
def test_a_name_that_says_too_little_or_too_much_is_an_error_with_what_there_is(
    name, options, error, message, library, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        load_model(f"open_clip:{name}", LoadOptions(settings=options))


def test_a_revision_is_refused_which_the_library_cannot_load(library):
    with pytest.raises(ModelError, match="cannot load a revision"):
        load_model("open_clip:tiny/laion", LoadOptions(revision="abc"))


def test_a_tokenizer_that_ends_rows_with_an_id_behind_the_padding_is_refused(library, monkeypatch):
    inner = library.get_tokenizer("tiny")

    def closing(texts, context_length=None):
        rows = inner(texts, context_length)
        rows[:, -1] = 7
        return rows

    closing.context_length = inner.context_length
    monkeypatch.setattr(library, "get_tokenizer", lambda name: closing)
    with pytest.raises(ModelError, match=r"its tokenizer pads captions|in an unknown way"):
        load_model("open_clip:tiny/laion")


def test_a_library_that_does_not_load_is_told_with_the_reason(library, monkeypatch):
    class Broken:
        def find_spec(self, name, path=None, target=None):
            if name == "open_clip":
                raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.delitem(sys.modules, "open_clip")
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(ModelError, match=r"nms does not exist.*matching builds"):
        load_model("open_clip:tiny/laion")


def test_a_model_is_fine_tuned_and_saved_for_the_library(library, tmp_path):
    from finetune_support import make_training_set, short

    from vl_assay.model_wrappers.finetune.train.training import finetune

    training_set = make_training_set(16)
    outcome = finetune("open_clip:tiny-quickgelu/openai", training_set, tmp_path / "out", short(), progress=False)
    before, after = load_model("open_clip:tiny-quickgelu/openai"), load_model(f"open_clip:local-dir:{outcome.folder}")
    assert after.info.settings["activation"] == before.info.settings["activation"] == "quick_gelu"
    assert after.info.preprocessing == before.info.preprocessing
    pictures = [training_set.image(key) for key in training_set.image_keys[:3]]
    for old, new in zip(*(embeddings(model, pictures, CAPTIONS) for model in (before, after)), strict=True):
        assert np.abs(old - new).max() > 1e-4
    card = (outcome.folder / "README.md").read_text("utf-8")
    assert "library_name: open_clip" in card
    assert "base_model" not in card  # a model and a tag are no repository of the Hub


def test_clove_is_scored_as_the_mean_with_openai_s_weights(library, images, tmp_path):
    before = torch.load(tmp_path / "published.pt")
    torch.manual_seed(1)
    tuned = {name: tensor + torch.randn_like(tensor) / 10 for name, tensor in before.items()}
    longer = torch.cat([tuned["positional_embedding"], torch.ones(5, *tuned["positional_embedding"].shape[1:])])
    torch.save({"state_dict": tuned | {"positional_embedding": longer}}, tmp_path / "clove_without_patching.pt")
    by_hand = {name: 0.4 * before[name] + 0.6 * tuned[name] for name in before}
    torch.save(by_hand, tmp_path / "mean.pt")
    model = load_negclip(tmp_path, "clove", "clove_without_patching.pt")
    assert model.info.settings["weights"] == (
        "the first 24 of 29 positions of captions kept; mean of 0.4 × ViT-B-32-quickgelu/openai and 0.6 × the file"
    )
    expected = load_negclip(tmp_path, "ViT-B-32-quickgelu", "mean.pt")
    for one, other in zip(*(embeddings(each, images, CAPTIONS) for each in (model, expected)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_more_positions_than_the_model_has_are_refused_instead_of_interpolated(library, tmp_path):
    weights = torch.load(tmp_path / "mine.pt")
    weights["positional_embedding"] = torch.ones(248, *weights["positional_embedding"].shape[1:])
    torch.save(weights, tmp_path / "longclip.pt")
    with pytest.raises(
        ModelError, match="reads 248 tokens of a caption, tiny only 24, and open_clip would interpolate"
    ):
        load_negclip(tmp_path, "tiny", "longclip.pt")


def test_random_weights_have_the_architecture_and_need_a_model_s_name(library, tmp_path):
    model = load_negclip(tmp_path)
    torch.manual_seed(0)
    fresh = model.fresh()
    assert {name: value.shape for name, value in fresh.state_dict().items()} == {
        name: value.shape for name, value in model.module.state_dict().items()
    }
    assert any(not torch.equal(a, b) for a, b in zip(fresh.parameters(), model.module.parameters(), strict=True))
    model.save(tmp_path / "saved")
    with pytest.raises(ModelError, match="always comes with its weights"):
        load_model(f"open_clip:local-dir:{tmp_path / 'saved'}").fresh()


def test_the_checkpoints_for_example_exist():
    library = pytest.importorskip("open_clip", reason="needs vl-assay[open-clip]")
    from vl_assay.model_wrappers.loading.published import published_checkpoints
    from vl_assay.model_wrappers.open_clip import CHECKPOINTS

    known = {f"{model}/{tag}" for model, tag in library.list_pretrained()} | published_checkpoints().keys()
    assert set(CHECKPOINTS) <= known
    assert {row.model for row in published_checkpoints().values() if row.files} <= set(library.list_models())
