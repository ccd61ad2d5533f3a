"""Forward passes of image-text-to-text models of `transformers`: from images, prompts and answers to logits.

How a class wants its inputs is not declared anywhere. So a model is tried when it is loaded: the ways of `WAYS` in
their order, on two images with prompts of unlike length in one batch, until one gives the logits of a bare forward
pass of the processor's own inputs, one prompt at a time. No class of `transformers` needs padding at the left, and
some do not work with it.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import LogitsProcessorList

from ...metrics.common.errors import ModelError
from ..engine.arithmetic import full_float32
from .image_prompts import ImagePrompts, Prepared, sample_images
from .prompts import common_start


class Way(NamedTuple):
    """How rows go through a model.

    With `shares` the vision tower runs once for an image, and all its rows take its output; otherwise each row has
    the pixels. With `pads` rows of unlike length are padded at the right; otherwise they are not put together. With
    `continues` the tokens that the rows of an image have in common, those of the image among them, go through the model
    once: the rows continue from their keys and values.
    """

    shares: bool
    pads: bool
    continues: bool = False


WAYS = (Way(True, True), Way(False, True), Way(False, False))

# The greatest difference to a bare forward pass, as a share of the range of the logits.
_TOLERANCES = {torch.float32: 1e-4, torch.float64: 1e-4}
_TOLERANCE_OF_HALVES = 0.05
# Logits below it are of tokens that a class rules out, such as Chameleon's image tokens.
_FORBIDDEN = -1e4
_FAILURES = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError)


class Seen(NamedTuple):
    """An image, and what the vision tower made of it; None where each row takes the pixels."""

    prepared: Prepared
    inputs: dict[str, Any]
    features: Any


class Row(NamedTuple):
    """An image, the tokens of the prompt with the image's own, and those of the answer."""

    seen: Seen
    prompt: list[int]
    answer: list[int]


class Forward:
    """The forward passes of a model, in one way.

    Args:
        model: the module, of which only the class and configuration are used here.
        pad: the token id of padding.
        way: how rows go through the model.
        leads: whether the model puts the image before the tokens, and gives logits for it too.
    """

    def __init__(self, model: Any, pad: int, way: Way, *, leads: bool = False) -> None:
        self.way = way
        self._pad = pad
        self._parameters = set(inspect.signature(model.forward).parameters)
        self._start = decoder_start(model)
        self._keeps = "logits_to_keep" in self._parameters and not self._start and not leads

    @property
    def decodes_apart(self) -> bool:
        """Whether a decoder writes the answer, after an encoder has read the whole prompt."""
        return bool(self._start)

    def see(self, model: Any, image: Prepared) -> Seen:
        """An image on the model's device and, if it is shared, the whole output of the vision tower for it."""
        inputs = {key: _on(model, value) for key, value in image.inputs.items()}
        if not self.way.shares:
            return Seen(image, {key: value for key, value in inputs.items() if key in self._parameters}, None)
        features = _vision(model, inputs)
        known = {key: value for key, value in inputs.items() if key in self._parameters and "mask" not in key}
        floating = [key for key, value in known.items() if torch.is_tensor(value) and value.is_floating_point()]
        return Seen(image, {key: known[key] for key in known if key not in floating}, features)

    def logits(self, model: Any, rows: Sequence[Row]) -> list[torch.Tensor]:
        """For each row the logits (k + 1, vocabulary) before each of its k answer tokens, and after the last."""
        found: dict[int, torch.Tensor] = {}
        order = sorted(range(len(rows)), key=lambda i: self._shape(rows[i]))
        for _, group in groupby(order, key=lambda i: self._shape(rows[i])):
            numbers, left = list(group), []
            for own in self._of_images(rows, numbers):
                common = self._common([rows[i] for i in own])
                if common:
                    found.update(zip(own, self._continued(model, [rows[i] for i in own], common), strict=True))
                else:
                    left += own
            if left:
                found.update(zip(left, self._batch(model, [rows[i] for i in left]), strict=True))
        return [found[i] for i in range(len(rows))]

    def _of_images(self, rows: Sequence[Row], numbers: Sequence[int]) -> list[list[int]]:
        """The numbers of rows, put together by their images if the rows of an image go together."""
        images: dict[int, list[int]] = {}
        for number in numbers:
            images.setdefault(id(rows[number].seen) if self.way.continues else 0, []).append(number)
        return list(images.values())

    def _common(self, rows: Sequence[Row]) -> int:
        """How many tokens the rows of an image begin with alike, the image's among them; 0 if that saves nothing."""
        if not self.way.continues or len(rows) < 2:
            return 0
        texts = [[*row.prompt, *row.answer] for row in rows]
        # The logits after the last token of a prompt are wanted.
        most = min(len(row.prompt) for row in rows) - 1
        common = min(most, *(common_start(texts[0], text) for text in texts[1:]))
        return common if common >= _image_end(rows[0]) > 0 else 0

    def _continued(self, model: Any, rows: Sequence[Row], common: int) -> list[torch.Tensor]:
        """The logits of the rows of one image, whose first `common` tokens go through the model once."""
        texts = [[*row.prompt, *row.answer] for row in rows]
        start = {**self._inputs(model, rows[:1], [texts[0][:common]]), "use_cache": True}
        if self._keeps:
            start["logits_to_keep"] = 1
        rests = [text[common:] for text in texts]
        ids = _padded(rests, model.device, self._pad)
        mask = _padded([[1] * len(text) for text in texts], model.device)
        with full_float32():
            # transformers 5.24 has renamed the cache.
            name = "cache" if "cache" in self._parameters else "past_key_values"
            past = model(**start)[name]
            past.batch_repeat_interleave(len(rows))
            inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, name: past, "use_cache": True}
            aligned = self._aligned(rows, texts, model)
            inputs |= {key: value[:, common:] for key, value in aligned.items() if key.endswith("_mask")}
            places = self._places(model, rows, texts)
            inputs |= {"position_ids": places[..., common:]} if places is not None else {}
            logits = model(**inputs).logits
        counts = [len(row.answer) + 1 for row in rows]
        return [own[len(rest) - count : len(rest)] for own, rest, count in zip(logits, rests, counts, strict=True)]

    def _places(self, model: Any, rows: Sequence[Row], texts: Sequence[Sequence[int]]) -> torch.Tensor | None:
        """The positions of all tokens where an image's have two dimensions, (3, n, longest), or None."""
        method = getattr(getattr(model, "model", None), "get_rope_index", None)
        if method is None:
            return None
        known = inspect.signature(method).parameters
        given = self._inputs(model, rows, texts)
        return method(**{key: value for key, value in given.items() if key in known})[0]

    def write(self, model: Any, row: Row, most: int) -> tuple[list[int], list[float]]:
        """The greedy answer to a prompt whose image is not shared: at most so many tokens, and their log-probabilities.

        What else the checkpoint's generation settings say, such as tokens that it never writes, is kept.
        """
        ids = torch.tensor([row.prompt], device=model.device)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), **self._aligned([row], [row.prompt], model)}
        settings = copy.deepcopy(model.generation_config)
        settings.update(do_sample=False, num_beams=1, max_new_tokens=most, temperature=None, top_p=None, top_k=None)
        logs: list[float] = []

        def note(_: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            logs.append(float(scores[0].float().log_softmax(-1).max()))
            return scores

        with full_float32():
            written = model.generate(
                **inputs, **row.seen.inputs, generation_config=settings, logits_processor=LogitsProcessorList([note])
            )
        return written[0, written.shape[1] - len(logs) :].tolist(), logs

    def _shape(self, row: Row) -> list[tuple[str, Any]]:
        """What rows of one batch have in common."""
        inputs = sorted(row.seen.inputs.items())
        shapes = [(key, tuple(value.shape[1:]) if torch.is_tensor(value) else ()) for key, value in inputs]
        lengths = () if self.way.pads else (len(row.prompt), len(row.answer))
        return [*shapes, ("length", lengths)]

    def _inputs(self, model: Any, rows: Sequence[Row], texts: Sequence[Sequence[int]]) -> dict[str, Any]:
        """The inputs for rows with these tokens, padded at the right."""
        ids = _padded(texts, model.device, self._pad)
        mask = _padded([[1] * len(text) for text in texts], model.device)
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, **self._aligned(rows, texts, model)}
        inputs |= {key: _joined([row.seen.inputs[key] for row in rows]) for key in rows[0].seen.inputs}
        if self.way.shares:
            inputs["mm_encoder_outputs"] = {"image": _merged([row.seen.features for row in rows])}
            if "pixel_values" in self._parameters:
                inputs["pixel_values"] = None
        return inputs

    def _batch(self, model: Any, rows: Sequence[Row]) -> list[torch.Tensor]:
        texts = [row.prompt if self._start else [*row.prompt, *row.answer] for row in rows]
        inputs = self._inputs(model, rows, texts)
        counts = [len(row.answer) + 1 for row in rows]
        ends = [len(text) for text in texts]
        first = 0
        if self._start:
            answers = [[*self._start, *row.answer] for row in rows]
            inputs["decoder_input_ids"] = _padded(answers, model.device, self._pad)
            ends = [len(own) for own in answers]
        elif self._keeps:
            first = min(end - count for end, count in zip(ends, counts, strict=True))
            inputs["logits_to_keep"] = torch.arange(first, max(ends))  # the last layer may be on another device
        if "use_cache" in self._parameters:
            inputs["use_cache"] = False
        with full_float32():
            logits = model(**inputs).logits
        first -= 0 if self._keeps or self._start else logits.shape[1] - inputs["input_ids"].shape[1]
        return [own[end - count - first : end - first] for own, end, count in zip(logits, ends, counts, strict=True)]

    def _aligned(self, rows: Sequence[Row], texts: Sequence[Sequence[int]], model: Any) -> dict[str, torch.Tensor]:
        """The inputs with a value for each token, (n, longest, …)."""
        joined = {}
        for key in [key for key in rows[0].seen.prepared.aligned if key in self._parameters]:
            values = []
            for row, text in zip(rows, texts, strict=True):
                start, rest = row.seen.prepared.aligned[key]
                values.append(np.concatenate([start, np.repeat(rest[None], len(text) - len(start), axis=0)]))
            joined[key] = _padded(values, model.device)
        return joined


def _image_end(row: Row) -> int:
    """How many tokens there are up to the last of the image; 0 where it has none."""
    image = row.seen.prepared.tokens
    starts = range(len(row.prompt) - len(image) + 1)
    start = next((at for at in starts if row.prompt[at : at + len(image)] == image), -1)
    return start + len(image) if image and start >= 0 else 0


def _padded(rows: Sequence[Sequence[int] | np.ndarray], device: torch.device, pad: int = 0) -> torch.Tensor:
    """Rows of values for tokens, (n, longest, …), padded at the right."""
    arrays = [np.asarray(row, dtype=None if isinstance(row, np.ndarray) else np.int64) for row in rows]
    longest = max(map(len, arrays))
    padded = [np.pad(own, [(0, longest - len(own)), *[(0, 0)] * (own.ndim - 1)], constant_values=pad) for own in arrays]
    return torch.from_numpy(np.stack(padded)).to(device)


def decoder_start(model: Any) -> list[int]:
    """The tokens with which a decoder apart from the encoder starts; none for a model without one."""
    if not model.config.is_encoder_decoder and not getattr(model.config.get_text_config(), "is_encoder_decoder", False):
        return []
    generation = model.generation_config
    text = model.config.get_text_config(decoder=True)
    given = (getattr(each, "decoder_start_token_id", None) for each in (generation, model.config, text))
    start: Any = next((one for one in given if one is not None), getattr(text, "bos_token_id", None))
    forced = getattr(generation, "forced_bos_token_id", None)
    return [start] if forced is None else [start, forced]


def bare_logits(model: Any, given: Mapping[str, Any]) -> torch.Tensor:
    """Logits (tokens, vocabulary) by the processor's own inputs for one prompt; the last are those of the answer."""
    parameters = inspect.signature(model.forward).parameters
    inputs = {key: _on(model, value) for key, value in given.items() if key in parameters and key != "labels"}
    if start := decoder_start(model):
        inputs["decoder_input_ids"] = torch.tensor([start], device=model.device)
    with torch.inference_mode(), full_float32():
        return model(**inputs).logits[0]


def choose_forward(
    model: Any, prompts: ImagePrompts, tokens: Callable[[str], list[int]], pad: int, name: str
) -> Forward:
    """The first of `WAYS` that gives the logits of a bare forward pass.

    Args:
        model, pad: see `Forward`.
        prompts: the split of the processor's work.
        tokens: the token ids of the prompt with a text.
        name: of the checkpoint, for messages.

    Raises:
        ModelError: none does, or the logits do not depend on the image or on the text.
    """
    pairs = [(0, "a"), (0, "one two red dogs near a cat."), (1, "a")]
    images = sample_images()
    try:
        given = [prompts.processed(images[i], text) for i, text in pairs]
        logits = [bare_logits(model, each) for each in given]
    except _FAILURES as error:
        raise ModelError(f"a bare forward pass of {name} fails: {type(error).__name__}: {error}") from error
    leads = logits[0].shape[0] > given[0]["input_ids"].shape[1]
    expected = torch.stack([own[-1] for own in logits]).float()
    _refuse_useless(expected, name)
    ordinary = expected[expected > _FORBIDDEN]
    limit = _TOLERANCES.get(model.dtype, _TOLERANCE_OF_HALVES) * float(ordinary.max() - ordinary.min())
    prepared = [prompts.prepare(image) for image in images]
    reasons = []

    def problem(forward: Forward) -> str:
        try:
            with torch.inference_mode():
                seen = [forward.see(model, each) for each in prepared]
                rows = [Row(seen[i], prompts.row(prepared[i], tokens(text)), []) for i, text in pairs]
                found = torch.stack([own[0] for own in forward.logits(model, rows)]).float()
        except _FAILURES as error:
            return f"{forward.way}: {type(error).__name__}: {str(error)[:200]}"
        gap = float((found - expected)[expected > _FORBIDDEN].abs().max())
        return "" if gap <= limit else f"{forward.way}: they differ by {gap:.2g}"

    for way in WAYS[not _can_share(model) :]:
        forward = Forward(model, pad, way, leads=leads)
        if reason := problem(forward):
            reasons.append(reason)
            continue
        further = Forward(model, pad, way._replace(continues=way.pads), leads=leads)
        return forward if leads or forward.decodes_apart or problem(further) else further
    raise ModelError(
        f"{name} gives other logits for prompts in a batch than for one alone, in every way tried: {'; '.join(reasons)}"
    )


def _refuse_useless(logits: torch.Tensor, name: str) -> None:
    if logits.isnan().any():
        raise ModelError(f"the logits of {name} are not all numbers: try --dtype float32, or the checkpoint is broken")
    for other, what in ((2, "image"), (1, "text")):
        if not (logits[0] - logits[other]).abs().max() > 0:
            raise ModelError(f"the logits of {name} do not depend on the {what}")


def _can_share(model: Any) -> bool:
    parameters = inspect.signature(model.forward).parameters
    return "mm_encoder_outputs" in parameters and _vision_method(model) is not None


def _vision_method(model: Any) -> Any:
    found = (getattr(each, "get_image_features", None) for each in (model, getattr(model, "model", None)))
    return next((method for method in found if method is not None), None)


def _vision(model: Any, inputs: Mapping[str, Any]) -> Any:
    """The whole output of the vision tower and what follows it."""
    method = _vision_method(model)
    known = set(inspect.signature(method).parameters)
    if inner := getattr(getattr(model, "model", None), "get_image_features", None):
        known |= set(inspect.signature(inner).parameters)
    with full_float32():
        output = method(**{key: value for key, value in inputs.items() if key in known}, return_dict=True)
    for field in ("hidden_states", "attentions"):
        if field in output:
            output[field] = None
    return output


def _merged(outputs: Sequence[Any]) -> Any:
    """The vision tower's outputs for one image each, as one output for all."""
    fields = {key: [output[key] for output in outputs] for key in outputs[0] if outputs[0][key] is not None}
    merged = {}
    for key, values in fields.items():
        if key == "pooler_output" and isinstance(values[0], (list, tuple)):
            merged[key] = [own for value in values for own in value]
        else:
            merged[key] = _joined(values)
    return type(outputs[0])(**merged)


def _joined(values: Sequence[Any]) -> Any:
    """Tensors, one after the other; lists of tensors, element by element; None for what cannot be joined."""
    first = values[0]
    if isinstance(first, torch.Tensor):
        same = all(value.shape[1:] == first.shape[1:] for value in values)
        return torch.cat(list(values)) if same else None
    if hasattr(first, "keys"):
        return _merged(values)
    if isinstance(first, (list, tuple)) and first and isinstance(first[0], (torch.Tensor, list, tuple)):
        return [_joined(own) for own in zip(*values, strict=True)]
    return [own for value in values for own in value] if isinstance(first, (list, tuple)) else first


def _on(model: Any, value: Any) -> Any:
    """An array on the model's device, in its precision where it is not of integers."""
    if not isinstance(value, np.ndarray):
        return value
    tensor = torch.from_numpy(np.ascontiguousarray(value))
    return tensor.to(model.device, model.dtype) if tensor.is_floating_point() else tensor.to(model.device)
