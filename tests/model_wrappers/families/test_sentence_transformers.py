"""The family sentence_transformers, on tiny models of the library itself."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
import transformers
from bare_forwards import score
from hub_server import serving_hub
from huggingface_hub import constants
from safetensors.torch import load_file, save_file
from tiny_models import bert_words, save_parts, tiny_clip, tiny_llava

from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import DualEncoder, LoadOptions, load_model

CAPTIONS = ["a red circle", "a star left of a blue square", "two small squares " * 30]
PAIRS = [(0, 0), (1, 2), (2, 1), (0, 1)]
PROMPT = "Find the image."


@pytest.fixture(scope="module")
def library():
    return pytest.importorskip("sentence_transformers", reason="needs vl-assay[sentence-transformers]")


@pytest.fixture(scope="module")
def places(library, tmp_path_factory):
    """Folders of the library: a CLIP of two towers, and a language model that sees, in conversations, with a prompt."""
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    place = tmp_path_factory.mktemp("sentence_transformers")
    tiny_clip(place / "plain", positions=48)
    processor = transformers.CLIPProcessor(
        transformers.AutoImageProcessor.from_pretrained(place / "plain", backend="pil"),
        transformers.AutoTokenizer.from_pretrained(place / "plain"),
    )
    processor.save_pretrained(place / "plain")
    torch.manual_seed(0)
    modules = {"clip": [Transformer(str(place / "plain")), Dense(16, 8, module_input_name="sentence_embedding")]}
    tiny_llava(place / "chat")
    llava = Transformer(str(place / "chat"), transformer_task="feature-extraction")
    modules["llava"] = [llava, Pooling(32, pooling_mode="lasttoken"), Normalize()]
    for name, parts in modules.items():
        prompts = {"query": PROMPT} if name == "llava" else None
        library.SentenceTransformer(modules=parts, prompts=prompts).save(str(place / name))
    return place


def load(folder, **options):
    return load_model(f"sentence_transformers:{folder}", LoadOptions(**options))


def embeddings(model, images, captions):
    pictures = model.encode_images([model.prepare_image(image) for image in images])
    return pictures, model.encode_captions(model.prepare_captions(captions))


@pytest.mark.parametrize("name", ["clip", "llava"])
def test_embeddings_equal_the_library_s_own_for_queries_and_documents(name, places, library, images):
    model, theirs = load(places / name), library.SentenceTransformer(str(places / name))
    theirs.processor.image_processor = model.module.processor.image_processor  # Pillow, also beside torchvision
    assert isinstance(model, DualEncoder)
    pictures, texts = embeddings(model, images, CAPTIONS)
    colours = [image.convert("RGB") for image in images]
    np.testing.assert_allclose(pictures, theirs.encode_document(colours, normalize_embeddings=True), atol=1e-5)
    np.testing.assert_allclose(texts, theirs.encode_query(CAPTIONS, normalize_embeddings=True), atol=1e-5)
    assert np.ptp(pictures @ texts.T) > 1e-2


@pytest.mark.parametrize("name", ["clip", "llava"])
def test_a_score_is_the_same_alone_among_others_and_in_float64(name, places, images):
    model = load(places / name)
    together = score(model, images, CAPTIONS, PAIRS)
    alone = [score(model, [images[i]], [CAPTIONS[j]], [(0, 0)])[0] for i, j in PAIRS]
    np.testing.assert_allclose(together, alone, atol=1e-6)
    exact = [score(model, [images[i]], [CAPTIONS[j]], [(0, 0)], exact=True)[0] for i, j in PAIRS]
    np.testing.assert_allclose(together, exact, atol=1e-5)
    assert np.isfinite(score(load(places / name, dtype="bfloat16"), images, CAPTIONS, PAIRS)).all()


def test_captions_are_told_whole_and_cut_as_the_library_cuts_them(places):
    model = load(places / "clip")
    rows = model.prepare_captions(CAPTIONS)
    assert model.max_tokens == 48
    assert len(rows[2]) > 48
    cut = model.batch(rows)["input_ids"]
    assert torch.equal(cut, model.module.preprocess(CAPTIONS)["input_ids"])
    assert model.prepare_captions([]) == []


def test_prompts_are_recorded_and_can_be_left_out(places, library, images):
    model, without = load(places / "llava"), load(places / "llava", settings={"caption": "none"})
    assert model.info.settings == {"caption": "query", "image": "document"}
    assert model.info.preprocessing["caption_prompt"] == PROMPT
    assert load(places / "llava", settings=model.info.settings).info.settings == model.info.settings
    assert without.info.settings == {"caption": "none", "image": "document"}
    assert without.info.name == "llava (caption=none)"
    theirs = library.SentenceTransformer(str(places / "llava"))
    np.testing.assert_allclose(
        embeddings(without, images, CAPTIONS)[1], theirs.encode(CAPTIONS, normalize_embeddings=True), atol=1e-5
    )
    assert np.abs(embeddings(model, images, CAPTIONS)[1] - embeddings(without, images, CAPTIONS)[1]).max() > 1e-3
    assert model.info.preprocessing["backend"] == "pil"


def test_the_revision_covers_the_weights_of_every_module(places, tmp_path):
    folder = shutil.copytree(places / "clip", tmp_path / "clip")
    assert load(folder).info.revision == load(places / "clip").info.revision
    [dense] = folder.glob("*_Dense/model.safetensors")
    save_file({name: tensor + 1 for name, tensor in load_file(dense).items()}, dense, {"format": "pt"})
    assert load(folder).info.revision != load(places / "clip").info.revision


@pytest.mark.parametrize("home", [None, "sentences"])
def test_all_of_a_model_of_the_hub_is_of_the_recorded_commit(home, places, tmp_path, monkeypatch):
    shutil.copytree(places / "clip", tmp_path / "ada" / "clip")
    if home:
        monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path / home))
    with serving_hub(tmp_path, monkeypatch) as hub:
        hub.is_moving = True
        revision = load("ada/clip").info.revision
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        assert load("ada/clip").info.revision == revision
    snapshots = tmp_path.glob("**/models--ada--clip/snapshots/*")
    assert [(path.parents[2].name, path.name) for path in snapshots] == [(home or ".cache", revision)]


def test_a_model_that_would_give_other_scores_than_its_authors_is_refused(places, library, tmp_path):
    folder = shutil.copytree(places / "clip", tmp_path / "clip")
    weights = load_file(folder / "model.safetensors")
    del weights["text_model.final_layer_norm.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"1 weights are missing.*: text_model\.final_layer_norm\.weight"):
        load(folder)
    with pytest.raises(ModelError, match=r"has no modules\.json"):
        load(places / "plain")
    other = shutil.copytree(places / "clip", tmp_path / "other")
    config = json.loads((other / "config_sentence_transformers.json").read_text())
    (other / "config_sentence_transformers.json").write_text(json.dumps(config | {"similarity_fn_name": "euclidean"}))
    with pytest.raises(ModelError, match="its similarity is euclidean"):
        load(other)
    tokenizer = bert_words()
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    bert = transformers.BertModel(transformers.BertConfig(vocab_size=len(tokenizer), **sizes))
    save_parts(tmp_path / "bert", bert, tokenizer)
    library.SentenceTransformer(str(tmp_path / "bert")).save(str(tmp_path / "texts"))
    with pytest.raises(ModelError, match="it embeds text, and not image"):
        load(tmp_path / "texts")
