"""Text-only baselines: what is particular to each, and checkpoints that are refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import tiny_models
import transformers

from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import LoadOptions, load_model

CAPTIONS = [
    "a red cat",
    "the",
    "a big dog near two red cats and one blue box .",
    "two blue cat near a dog and a cat and a dog",
    "a a a a a a",
]


def load(folders, family, **options):
    name = {"cola_grammar": "cola", "causal_lm": "gpt2"}.get(family, family)
    return load_model(f"{family}:{folders[name]}", LoadOptions(**options))


@pytest.mark.parametrize("normalise", ["tokens", "none"])
def test_a_caption_without_tokens_has_no_likelihood(folders, normalise):
    model = load(folders, "causal_lm", settings={"normalise": normalise})
    scores = model.score_captions(model.prepare_captions(["", "a cat"]))
    assert np.isnan(scores).tolist() == [True, False]


def test_an_end_token_of_the_tokenizer_is_scored_and_survives_the_cut(folders, tmp_path):
    shutil.copytree(folders["gpt2"], tmp_path / "closing")
    file = tmp_path / "closing" / "tokenizer.json"
    settings = json.loads(file.read_text())
    end = {"id": "<|endoftext|>", "ids": [settings["added_tokens"][0]["id"]], "tokens": ["<|endoftext|>"]}
    part = {"Sequence": {"id": "A", "type_id": 0}}
    settings["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [part, {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}],
        "pair": [part, part],
        "special_tokens": {"<|endoftext|>": end},
    }
    file.write_text(json.dumps(settings))
    model = load_model(f"causal_lm:{tmp_path / 'closing'}")
    [ids] = model.prepare_captions(["a red cat near the " * 60])
    assert ids[0] == ids[-1] == end["ids"][0]
    assert model.score_captions([ids]) == model.score_captions([[*ids[:47], ids[-1]]])


def test_a_t5_that_is_not_vera_is_refused(tmp_path):
    tiny_models.tiny_vera(tmp_path / "t5", "T5ForConditionalGeneration")
    with pytest.raises(ModelError, match=r"unexpected keys: decoder\."):
        load_model(str(tmp_path / "t5"))
    tiny_models.tiny_vera(tmp_path / "cold", temperature=-1.5)
    with pytest.raises(ModelError, match=r"not Vera, .* a temperature of -1\.5"):
        load_model(str(tmp_path / "cold"))


def test_a_classifier_of_something_else_is_refused(tmp_path):
    labels = {0: "NEGATIVE", 1: "POSITIVE"}
    tiny_models.tiny_cola(tmp_path / "mood", id2label=labels, label2id={"NEGATIVE": 0, "POSITIVE": 1})
    with pytest.raises(ModelError, match="tells apart NEGATIVE, POSITIVE, not what is acceptable"):
        load_model(str(tmp_path / "mood"))


def test_classes_are_told_by_their_names(tmp_path):
    names = {"acceptable": 0, "unacceptable": 1}
    tiny_models.tiny_cola(tmp_path / "plain")
    tiny_models.tiny_cola(tmp_path / "turned", id2label={0: "acceptable", 1: "unacceptable"}, label2id=names)
    plain, turned = (load_model(str(tmp_path / name)) for name in ("plain", "turned"))
    ids = plain.prepare_captions(CAPTIONS)
    np.testing.assert_allclose(plain.score_captions(ids) + turned.score_captions(ids), 1, atol=1e-12)


def test_a_model_that_reads_from_both_sides_is_no_causal_one(tmp_path):
    tokenizer = tiny_models.bert_words()
    tokenizer.bos_token, tokenizer.eos_token = "[CLS]", "[SEP]"
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2}
    model = transformers.BertLMHeadModel(transformers.BertConfig(vocab_size=len(tokenizer), **sizes))
    tiny_models.save_parts(tmp_path / "bert", tiny_models.ordinary_weights(model), tokenizer)
    with pytest.raises(ModelError, match="'bert' checkpoint that reads from both sides"):
        load_model(f"causal_lm:{tmp_path / 'bert'}")
