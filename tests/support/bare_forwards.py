"""Scores of pairs by a model, and their reference: forwards of bare `transformers`, one pair at a time."""

from __future__ import annotations

import numpy as np
import plain_xvlm
import torch
import transformers
from PIL import Image

from vl_assay.model_wrappers.engine.protocol import CrossEncoder, Detector, PhraseQuery, TextScorer

_CLASSES = {
    "blip": "BlipForImageTextRetrieval",
    "blip2": "Blip2ForImageTextRetrieval",
    "bridgetower": "BridgeTowerForImageAndTextRetrieval",
    "flava": "FlavaForPreTraining",
    "vilt": "ViltForImageAndTextRetrieval",
    "vera": "T5EncoderModel",
    "cola": "DistilBertForSequenceClassification",
    "gpt2": "GPT2LMHeadModel",
}


def score(model, images, captions, pairs, exact=False):
    """The scores of pairs in one batch by whichever protocol the model follows; of a detector those of its boxes."""
    if isinstance(model, Detector):
        queries = [[PhraseQuery(captions[j], 0, len(captions[j]))] for _, j in pairs]
        chosen = [images[i] for i, _ in pairs]
        found = model.detect([model.prepare_image(image) for image in chosen], [i.size for i in chosen], queries)
        return np.array([one.scores for [one] in found])
    tokens = model.prepare_captions(captions)
    if isinstance(model, TextScorer):
        return np.asarray(model.score_captions([tokens[j] for _, j in pairs], exact=exact))
    seen = model.encode_images([model.prepare_image(image) for image in images], exact=exact)
    if isinstance(model, CrossEncoder):
        return np.asarray(model.match(seen, [i for i, _ in pairs], [tokens[j] for _, j in pairs], exact=exact))
    seen, read = np.asarray(seen), np.asarray(model.encode_captions(tokens, exact=exact))
    for rows in (seen, read):
        assert rows.dtype == (np.float64 if exact else np.float32)
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    return np.array([seen[i].astype(np.float64) @ read[j] for i, j in pairs])


def bare_scores(name, settings, folder, images, captions, pairs, limit, dtype=torch.float32):
    """The score (n,) of each pair of image and caption, by the definition of the head that the settings choose."""
    if name == "xvlm":
        return _xvlm(settings.get("head", "itm+itc"), folder, images, captions, pairs, dtype)
    model_class = getattr(transformers, _CLASSES.get(name, "AutoModel"))
    model = model_class.from_pretrained(folder, dtype=torch.float32).to(dtype).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, padding_side="right")
    scores = []
    for image, caption in ((images[i], captions[j]) for i, j in pairs):
        inputs = _tokens(name, tokenizer, caption, limit)
        if name not in ("vera", "cola", "gpt2"):
            pixels = _pixels(name, folder, image.convert("RGB"))
            inputs |= pixels | {"pixel_values": pixels["pixel_values"].to(dtype)}
        with torch.inference_mode():
            scores.append(float(_SCORES.get(name, _cosine)(model, inputs, settings, tokenizer)))
    return np.array(scores)


def _xvlm(head, folder, images, captions, pairs, dtype):
    tensors = torch.load(folder / "tiny.th")["model"]
    tensors = {key: value.to(dtype) for key, value in tensors.items()}
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    scores = []
    for image, caption in ((images[i], captions[j]) for i, j in pairs):
        # X-VLM cleans captions, to 30 words, where it ranks itself; ARO gives it all words. It has no [SEP].
        text = caption if head == "itm+itc" else " ".join(caption.split()[:30])
        ids = tokenizer(text)["input_ids"][:-1][:40]
        scores.append(float(plain_xvlm.score(tensors, (2, 4), image, ids, head)))
    return np.array(scores)


def _pixels(name, folder, image):
    if name == "tipsv2":  # transformers prepares its images with torchvision only
        resized = np.asarray(image.resize((32, 32), Image.Resampling.BILINEAR), np.float32) / 255
        return {"pixel_values": torch.from_numpy(resized).permute(2, 0, 1)[None]}
    return dict(transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")(image, return_tensors="pt"))


def _tokens(name, tokenizer, caption, limit):
    if name.startswith("siglip"):
        # Lower case, padding to the full length and no mask: as in training.
        ids = tokenizer(caption.lower(), truncation=True, max_length=limit, padding="max_length", return_tensors="pt")
        return {"input_ids": ids["input_ids"]}
    if name == "gpt2":
        return {"input_ids": torch.tensor([[tokenizer.bos_token_id, *tokenizer(caption)["input_ids"]][:limit]])}
    inputs = dict(tokenizer(caption, truncation=True, max_length=limit, return_tensors="pt"))
    if name != "chinese_clip":
        inputs.pop("token_type_ids", None)
    return inputs


def _cosine(model, inputs, settings, tokenizer):
    [[logit]] = model(**inputs).logits_per_image
    if hasattr(model, "temperature"):
        return logit * model.temperature
    return (logit - getattr(model, "logit_bias", 0)) / model.logit_scale.exp()


def _blip(model, inputs, settings, tokenizer):
    started = inputs | {"input_ids": inputs["input_ids"].clone()}
    head = settings.get("head")
    if head == "aro" or settings.get("first") == "enc":
        started["input_ids"][0, 0] = len(tokenizer) + 1  # after the vocabulary and [DEC]
    [logits] = model(**started, use_itm_head=True).itm_score
    cosine = model(**inputs, use_itm_head=False).itm_score[0, 0]
    scores = {None: logits[1] - logits[0], "itc": cosine, "sum": logits.softmax(0)[1] + cosine}
    return (scores | {"aro": logits[1] + cosine})[head]


def _blip2(model, inputs, settings, tokenizer):
    is_cosine = settings.get("head") == "itc"
    [logits] = model(**inputs, use_image_text_matching_head=not is_cosine).logits_per_image
    return logits[0] if is_cosine else logits[1] - logits[0]


def _flava(model, inputs, settings, tokenizer):
    output = model(**inputs, input_ids_masked=inputs["input_ids"], return_loss=False)
    if settings.get("head") == "itm":
        return output.itm_logits[0, 1] - output.itm_logits[0, 0]
    return output.contrastive_logits_per_image[0, 0] / model.flava.logit_scale.exp()


def _vera(model, inputs, settings, tokenizer):
    """As SugarCrepe's text_model_eval.py scores one statement."""
    rows, hidden = model.shared.weight, model(inputs["input_ids"]).last_hidden_state[0, -1]
    logit = (hidden @ rows[32099] + rows[32098, 0]) / rows[32097, 0]
    return logit if settings.get("score") == "logit" else logit.sigmoid()


def _cola(model, inputs, settings, tokenizer):
    p = model(**inputs).logits[0].double().softmax(-1)[1]
    return torch.log(p / (1 - p)) if settings.get("score") == "logit" else p


def _gpt2(model, inputs, settings, tokenizer):
    # As the model's own loss, which is in float32: over all tokens but the first.
    logs = model(**inputs).logits[0, :-1].double().log_softmax(-1)
    likelihoods = logs.gather(-1, inputs["input_ids"][0, 1:, None])
    return likelihoods.sum() if settings.get("normalise") == "none" else likelihoods.mean()


def _two_classes(model, inputs, settings, tokenizer):
    [logits] = model(**inputs).logits
    return logits[1] - logits[0] if len(logits) == 2 else logits[0]


_SCORES = {
    "blip": _blip,
    "blip2": _blip2,
    "flava": _flava,
    "vera": _vera,
    "cola": _cola,
    "gpt2": _gpt2,
    "bridgetower": _two_classes,
    "vilt": _two_classes,
}
