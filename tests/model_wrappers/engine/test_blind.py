"""Blind families: scored as their authors' code or bare transformers would score one caption, or refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import tiny_models
import torch
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
FAMILIES = ("vera", "cola_grammar", "causal_lm")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("blind")
    tiny_models.tiny_vera(root / "vera")
    tiny_models.tiny_cola(root / "cola_grammar")
    tiny_models.tiny_gpt2(root / "causal_lm")
    return root


def load(folders, family, **options):
    return load_model(f"{family}:{folders / family}", LoadOptions(**options))


def vera_logit(model, tokenizer, caption):
    """As SugarCrepe's text_model_eval.py scores one statement."""
    rows = model.shared.weight
    ids = tokenizer(caption, truncation="longest_first", max_length=128, return_tensors="pt").input_ids
    hidden = model(ids).last_hidden_state[0, -1]
    return float((hidden @ rows[32099] + rows[32098, 0]) / rows[32097, 0])


def cola_logit(model, tokenizer, caption):
    tokens = tokenizer(caption, truncation=True, max_length=24, return_tensors="pt")
    p = model(input_ids=tokens.input_ids, attention_mask=tokens.attention_mask).logits[0].double().softmax(-1)[1]
    return float(torch.log(p / (1 - p)))


def mean_log_probability(model, tokenizer, caption):
    ids = [tokenizer.bos_token_id, *tokenizer(caption)["input_ids"]][:48]
    labels = torch.tensor([ids])
    # The model's own loss: the mean over all tokens but the first.
    return -float(model(input_ids=labels, labels=labels).loss)


BARE = {
    "vera": ("T5EncoderModel", vera_logit, {"score": "logit"}),
    "cola_grammar": ("DistilBertForSequenceClassification", cola_logit, {"score": "logit"}),
    "causal_lm": ("GPT2LMHeadModel", mean_log_probability, {"normalise": "tokens"}),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_equal_a_bare_forward_of_one_caption_at_a_time(folders, family):
    kind, bare, settings = BARE[family]
    ours = load(folders, family, settings=settings)
    model = getattr(transformers, kind).from_pretrained(folders / family).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders / family)
    captions = [*CAPTIONS, "a red cat near the " * 60]
    with torch.inference_mode():
        theirs = [bare(model, tokenizer, caption) for caption in captions]
    scores = ours.score_captions(ours.prepare_captions(captions))
    assert scores.dtype == np.float64
    assert scores.shape == (6,)
    assert np.ptp(scores) > 0.01
    np.testing.assert_allclose(scores, theirs, atol=1e-5, rtol=0)
    np.testing.assert_allclose(ours.score_captions(ours.prepare_captions(captions), exact=True), theirs, atol=1e-5)


@pytest.mark.parametrize("family", ["vera", "cola_grammar"])
def test_the_default_is_the_probability_that_sugarcrepe_takes(folders, family):
    probability, logit = load(folders, family), load(folders, family, settings={"score": "logit"})
    ids = probability.prepare_captions(CAPTIONS)
    logits = logit.score_captions(ids)
    np.testing.assert_allclose(probability.score_captions(ids), 1 / (1 + np.exp(-logits)), rtol=1e-12)
    assert probability.info.settings == {"score": "probability"}
    assert logit.info.name.endswith("(score=logit)")


def test_without_normalising_a_likelihood_is_the_sum_over_the_tokens(folders):
    mean, whole = load(folders, "causal_lm"), load(folders, "causal_lm", settings={"normalise": "none"})
    ids = mean.prepare_captions(CAPTIONS)
    counts = np.array([len(own) - 1 for own in ids])
    np.testing.assert_allclose(whole.score_captions(ids), mean.score_captions(ids) * counts, rtol=1e-12)


@pytest.mark.parametrize("normalise", ["tokens", "none"])
def test_a_caption_without_tokens_has_no_likelihood(folders, normalise):
    model = load(folders, "causal_lm", settings={"normalise": normalise})
    scores = model.score_captions(model.prepare_captions(["", "a cat"]))
    assert np.isnan(scores).tolist() == [True, False]


@pytest.mark.parametrize(("family", "limit"), [("vera", 128), ("cola_grammar", 24), ("causal_lm", 48)])
def test_long_captions_are_cut_as_the_tokenizer_would_cut_them(folders, family, limit):
    model = load(folders, family)
    assert model.max_tokens == limit
    [whole] = model.prepare_captions(["a red cat near the " * 60])
    assert len(whole) > limit
    if family == "causal_lm":
        # Its tokenizer sets no end token, so what is cut off is the end of the text.
        cut = whole[:limit]
    else:
        cut = model._tokenizer("a red cat near the " * 60, truncation=True, max_length=limit)["input_ids"]
        assert cut[-1] == whole[-1]
    assert model.score_captions([whole]) == model.score_captions([cut])


def test_an_end_token_of_the_tokenizer_is_scored_and_survives_the_cut(folders, tmp_path):
    shutil.copytree(folders / "causal_lm", tmp_path / "closing")
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
    assert ids[0] == ids[-1] == model._tokenizer.eos_token_id
    assert model.score_captions([ids]) == model.score_captions([[*ids[:47], ids[-1]]])


@pytest.mark.parametrize("family", ["vera", "cola_grammar"])
def test_the_family_is_found_from_the_configuration(folders, family):
    assert load_model(str(folders / family)).info.family == family


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
    tiny_models.tiny_cola(tmp_path / "headless", "DistilBertModel")
    with pytest.raises(ModelError, match=r"missing keys: classifier\.bias, classifier\.weight"):
        load_model(str(tmp_path / "headless"))


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
