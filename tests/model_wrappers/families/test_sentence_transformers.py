"""The family sentence_transformers, on tiny models of the library itself."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import transformers
from bare_forwards import score
from hub_server import serving_hub
from huggingface_hub import constants
from safetensors.torch import load_file, save_file
from tiny_models import bert_words, save_parts

from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import DualEncoder, LoadOptions, load_model

CAPTIONS = ["a red circle", "a star left of a blue square", "two small squares " * 30]
PAIRS = [(0, 0), (1, 2), (2, 1), (0, 1)]


@pytest.fixture(scope="module")
def library():
    return pytest.importorskip("sentence_transformers", reason="needs vl-assay[sentence-transformers]")


def load(folder, **options):
    return load_model(f"sentence_transformers:{folder}", LoadOptions(**options))


def embeddings(model, images, captions):
    pictures = model.encode_images([model.prepare_image(image) for image in images])
    return pictures, model.encode_captions(model.prepare_captions(captions))


@pytest.mark.parametrize("name", ["clip", "llava"])
def test_embeddings_equal_the_library_s_own_for_queries_and_documents(name, sentence_models, library, images):
    model, theirs = load(sentence_models / name), library.SentenceTransformer(str(sentence_models / name))
    theirs.processor.image_processor = model.module.processor.image_processor  # Pillow, also beside torchvision
    assert isinstance(model, DualEncoder)
    pictures, texts = embeddings(model, images, CAPTIONS)
    colours = [image.convert("RGB") for image in images]
    np.testing.assert_allclose(pictures, theirs.encode_document(colours, normalize_embeddings=True), atol=1e-5)
    np.testing.assert_allclose(texts, theirs.encode_query(CAPTIONS, normalize_embeddings=True), atol=1e-5)
    assert np.ptp(pictures @ texts.T) > 1e-2
    if name == "clip":
        assert len(model.prepare_captions(CAPTIONS)[2]) > model.max_tokens == 48


@pytest.mark.parametrize("name", ["clip", "llava"])
def test_a_score_is_the_same_alone_among_others_and_in_float64(name, sentence_models, images):
    model = load(sentence_models / name)
    together = score(model, images, CAPTIONS, PAIRS)
    alone = [score(model, [images[i]], [CAPTIONS[j]], [(0, 0)])[0] for i, j in PAIRS]
    np.testing.assert_allclose(together, alone, atol=1e-6)
    exact = [score(model, [images[i]], [CAPTIONS[j]], [(0, 0)], exact=True)[0] for i, j in PAIRS]
    np.testing.assert_allclose(together, exact, atol=1e-5)
    assert np.isfinite(score(load(sentence_models / name, dtype="bfloat16"), images, CAPTIONS, PAIRS)).all()


def test_prompts_are_recorded_and_can_be_left_out(sentence_models, library, images):
    model, without = load(sentence_models / "llava"), load(sentence_models / "llava", settings={"caption": "none"})
    assert model.info.settings == {"caption": "query", "image": "document"}
    assert model.info.preprocessing["caption_prompt"] == "Find the image."
    assert load(sentence_models / "llava", settings=model.info.settings).info.settings == model.info.settings
    assert without.info.settings == {"caption": "none", "image": "document"}
    assert without.info.name == "llava (caption=none)"
    theirs = library.SentenceTransformer(str(sentence_models / "llava"))
    np.testing.assert_allclose(
        embeddings(without, images, CAPTIONS)[1], theirs.encode(CAPTIONS, normalize_embeddings=True), atol=1e-5
    )
    assert np.abs(embeddings(model, images, CAPTIONS)[1] - embeddings(without, images, CAPTIONS)[1]).max() > 1e-3
    assert model.info.preprocessing["backend"] == "pil"


def test_all_of_a_model_of_the_hub_is_of_the_recorded_commit_in_the_library_s_folder(
    sentence_models, tmp_path, monkeypatch
):
    shutil.copytree(sentence_models / "clip", tmp_path / "ada" / "clip")
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path / "sentences"))
    with serving_hub(tmp_path, monkeypatch) as hub:
        hub.is_moving = True
        revision = load("ada/clip").info.revision
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        assert load("ada/clip").info.revision == revision
    snapshots = tmp_path.glob("**/models--ada--clip/snapshots/*")
    assert [(path.parents[2].name, path.name) for path in snapshots] == [("sentences", revision)]


def test_a_model_that_would_give_other_scores_than_its_authors_is_refused(sentence_models, library, tmp_path):
    folder = shutil.copytree(sentence_models / "clip", tmp_path / "clip")
    weights = load_file(folder / "model.safetensors")
    del weights["text_model.final_layer_norm.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"1 weights are missing.*: text_model\.final_layer_norm\.weight"):
        load(folder)
    with pytest.raises(ModelError, match=r"has no modules\.json"):
        load(sentence_models / "plain")
    other = shutil.copytree(sentence_models / "clip", tmp_path / "other")
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
