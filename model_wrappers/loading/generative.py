"""Forward passes of image-text-to-text models of `transformers`: from images, prompts and answers to logits.

A batch has rows of an image, a prompt and an answer, padded at the right, each with the image's pixels. Model classes
do not declare the inputs that they expect, so each model is tried when it is loaded: see `choose_forward`. No class
needs padding at the left, and some do not work with it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ...metrics.common.errors import ModelError
from ..engine.arithmetic import full_float32
from .image_prompts import ImagePrompts, Prepared, sample_images
from .prompts import common_start

# The greatest difference to a bare forward pass, as a share of the range of the logits.
_TOLERANCES = {torch.float32: 1e-4, torch.float64: 1e-4}
_TOLERANCE_OF_HALVES = 0.05
# Logits below it are of tokens that a class rules out, such as Chameleon's image tokens.
_FORBIDDEN = -1e4
_FAILURES = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError)


class ImageInputs(NamedTuple):
    """An image and its inputs on the device."""

    prepared: Prepared
    inputs: dict[str, Any]


class PromptRow(NamedTuple):
    """An image, the tokens of a prompt including image tokens, the end of the image tokens, and an answer's tokens."""

    seen: ImageInputs
    prompt: list[int]
    image_end: int
    answer: list[int]


class Forward:
    """The forward passes of a model.

    Args:
        model: the module, of which only the class and configuration are used here.
        pad: the token id of padding.
        batches: whether rows are batched, padded at the right; otherwise each row goes through the model separately, or
            all rows of an image continue together.
        leads: whether the model puts the image before the tokens, and also gives logits for it.

    Attributes:
        continues: whether rows continue from the keys and values of the prefix that all rows of an image share, which
            includes the image tokens, so that the prefix goes through the model once.
        has_continued: whether any rows were computed in this way.
    """

    def __init__(self, model: Any, pad: int, *, batches: bool, leads: bool = False) -> None:
        self.batches, self.continues, self.has_continued = batches, False, False
        self._pad = pad
        self._parameters = set(inspect.signature(model.forward).parameters)
        self._start = decoder_start(model)
        self._keeps = "logits_to_keep" in self._parameters and not self._start and not leads

    @property
    def has_decoder(self) -> bool:
        """Return whether a decoder writes the answer, after an encoder has read the whole prompt."""
        return bool(self._start)

    def see(self, model: Any, image: Prepared) -> ImageInputs:
        """Copy the inputs of an image to the model's device."""
        inputs = {key: _on(model, value) for key, value in image.inputs.items() if key in self._parameters}
        return ImageInputs(image, inputs)

    def logits(self, model: Any, rows: Sequence[PromptRow]) -> list[torch.Tensor]:
        """Return for each row the logits (k + 1, vocabulary) before each of its k answer tokens, and after the last."""
        logits: dict[int, torch.Tensor] = {}
        for together in _groups(range(len(rows)), lambda i: self._shape(rows[i])):
            if self.continues:
                # Their beginnings must be of equal length.
                for indices in _groups(together, lambda i: len(rows[i].seen.prepared.tokens)):
                    batch = [rows[i] for i in indices]
                    if common := _common(batch):
                        logits.update(zip(indices, self._continued(model, batch, common), strict=True))
            if remaining := [i for i in together if i not in logits]:
                logits.update(zip(remaining, self._whole(model, [rows[i] for i in remaining]), strict=True))
        return [logits[i] for i in range(len(rows))]

    def inputs(
        self,
        model: Any,
        rows: Sequence[PromptRow],
        texts: Sequence[Sequence[int]],
        of_images: Container[str] | None = None,
    ) -> dict[str, Any]:
        """Return the model's inputs for rows with the tokens `texts`, with all inputs of images or those named."""
        inputs = {"input_ids": _padded(texts, model.device, self._pad)}
        inputs["attention_mask"] = _padded([[1] * len(text) for text in texts], model.device)
        for key in [key for key in rows[0].seen.prepared.aligned if key in self._parameters]:
            values = []
            for row, text in zip(rows, texts, strict=True):
                start, last = row.seen.prepared.aligned[key]
                values.append(np.concatenate([start, np.repeat(last[None], len(text) - len(start), axis=0)]))
            inputs[key] = _padded(values, model.device)
        for key in [key for key in rows[0].seen.inputs if of_images is None or key in of_images]:
            inputs[key] = _joined([row.seen.inputs[key] for row in rows])
        return inputs

    def _shape(self, row: PromptRow) -> Hashable:
        """Return what all rows of one batch must have in common."""
        shapes = tuple((key, tensor.shape[1:]) for key, tensor in row.seen.inputs.items() if torch.is_tensor(tensor))
        return shapes if self.batches else id(row.seen)

    def _whole(self, model: Any, rows: Sequence[PromptRow]) -> list[torch.Tensor]:
        """Return the logits of rows by one forward pass of all their tokens, or of each row's."""
        if not self.batches and len(rows) > 1:
            return [self._whole(model, [row])[0] for row in rows]
        texts = [row.prompt if self._start else [*row.prompt, *row.answer] for row in rows]
        inputs = self.inputs(model, rows, texts)
        if self._start:
            texts = [[*self._start, *row.answer] for row in rows]
            inputs["decoder_input_ids"] = _padded(texts, model.device, self._pad)
        longest, ends = max(map(len, texts)), [len(text) for text in texts]
        starts = [end - len(row.answer) - 1 for end, row in zip(ends, rows, strict=True)]
        if self._keeps:
            inputs["logits_to_keep"] = torch.arange(min(starts), longest)  # the last layer may be on another device
        if "use_cache" in self._parameters:
            inputs["use_cache"] = False
        logits = model(**inputs).logits
        shift = -min(starts) if self._keeps else logits.shape[1] - longest
        return [
            row_logits[start + shift : end + shift] for row_logits, start, end in zip(logits, starts, ends, strict=True)
        ]

    def _continued(self, model: Any, rows: Sequence[PromptRow], common: int) -> list[torch.Tensor]:
        """Return the logits of rows, of which the first `common` tokens go through the model once for each image."""
        self.has_continued = True
        images = {id(row.seen): row for row in rows}
        index_of_image = {key: i for i, key in enumerate(images)}
        start = self.inputs(model, [*images.values()], [row.prompt[:common] for row in images.values()])
        if self._keeps:
            start["logits_to_keep"] = 1
        # transformers 5.24 has renamed the cache.
        name = "cache" if "cache" in self._parameters else "past_key_values"
        past = model(**start, use_cache=True)[name]
        past.reorder_cache(torch.tensor([index_of_image[id(row.seen)] for row in rows], device=model.device))
        texts = [[*row.prompt, *row.answer] for row in rows]
        positions = getattr(getattr(model, "model", None), "get_rope_index", None)
        known = inspect.signature(positions).parameters if positions else ()
        full_inputs = self.inputs(model, rows, texts, known)
        after = [key for key in full_inputs if key == "input_ids" or key.endswith("_mask")]
        inputs = {key: full_inputs[key][:, common:] for key in after}
        inputs |= {"attention_mask": full_inputs["attention_mask"], name: past, "use_cache": True}
        if positions:  # an image takes two dimensions of positions, so the whole prompt determines those after it
            token_positions = positions(**{key: value for key, value in full_inputs.items() if key in known})[0]
            inputs["position_ids"] = token_positions[..., common:]
        logits = model(**inputs).logits
        ends = [len(text) - common for text in texts]
        return [
            row_logits[end - len(row.answer) - 1 : end] for row_logits, end, row in zip(logits, ends, rows, strict=True)
        ]


def choose_forward(
    model: Any, prompts: ImagePrompts, tokens: Callable[[str], list[int]], pad: int, name: str
) -> Forward:
    """Return the batched forward passes if their logits equal bare forward passes, else passes of single rows.

    Three images, two of them of one shape, go through the model in one batch, with prompts of unlike length. The bare
    passes take the processor's own inputs, one prompt at a time.

    Args:
        model, pad: see `Forward`.
        prompts: the split of the processor's work.
        tokens: returns the token ids of the prompt with a text.
        name: of the checkpoint, for messages.

    Raises:
        ModelError: neither does, or the logits do not depend on the image or on the text.
    """
    pairs = [(0, "a dog"), (0, "a red dog near two cats."), (1, "a dog"), (2, "a dog")]
    images = sample_images()
    try:
        processed = [prompts.processed(images[i], text) for i, text in pairs]
        logits = [_bare_logits(model, inputs) for inputs in processed]
    except _FAILURES as error:
        raise ModelError(f"a bare forward pass of {name} fails: {type(error).__name__}: {error}") from error
    expected = torch.stack([row_logits[-1] for row_logits in logits]).float()
    _refuse_useless(expected, name)
    is_ordinary = expected > _FORBIDDEN
    limit = _TOLERANCES.get(model.dtype, _TOLERANCE_OF_HALVES) * float(np.ptp(expected[is_ordinary].cpu().numpy()))
    prepared = [prompts.prepare(image) for image in images]

    def problem(forward: Forward) -> str:
        try:
            with torch.inference_mode(), full_float32():
                features = [forward.see(model, image) for image in prepared]
                rows = [PromptRow(features[i], *prompts.with_image(prepared[i], tokens(text)), []) for i, text in pairs]
                actual = torch.stack([row_logits[0] for row_logits in forward.logits(model, rows)]).float()
        except _FAILURES as error:
            return f"{type(error).__name__}: {str(error)[:200]}"
        gap = float((actual - expected)[is_ordinary].abs().max())
        return "" if gap <= limit else f"they differ by {gap:.2g}"

    reasons = []
    for batches in (True, False):
        forward = Forward(model, pad, batches=batches, leads=logits[0].shape[0] > processed[0]["input_ids"].shape[1])
        if reason := problem(forward):
            reasons.append(f"{'in one batch' if batches else 'one by one'} {reason}")
            continue
        if not forward.has_decoder:
            forward.continues = True
            # Rows of some classes have nothing in common, so that nothing was tried.
            forward.continues = not problem(forward) and forward.has_continued
        return forward
    raise ModelError(f"{name} gives other logits for prompts in a batch than for one alone: {'; '.join(reasons)}")


def decoder_start(model: Any) -> list[int]:
    """Return the start tokens of a separate decoder; empty for a decoder-only model."""
    text = model.config.get_text_config(decoder=True)
    if not model.config.is_encoder_decoder and not getattr(model.config.get_text_config(), "is_encoder_decoder", False):
        return []
    starts = [getattr(facts, "decoder_start_token_id", None) for facts in (model.generation_config, model.config, text)]
    starts.append(getattr(text, "bos_token_id", None))
    forced = getattr(model.generation_config, "forced_bos_token_id", None)
    start: Any = next((start for start in starts if start is not None), None)
    return [start] if forced is None else [start, forced]


def _bare_logits(model: Any, given: Mapping[str, Any]) -> torch.Tensor:
    """Return logits (tokens, vocabulary) by the processor's own inputs for one prompt."""
    parameters = inspect.signature(model.forward).parameters
    inputs = {key: _on(model, value) for key, value in given.items() if key in parameters and key != "labels"}
    if start := decoder_start(model):
        inputs["decoder_input_ids"] = torch.tensor([start], device=model.device)
    with torch.inference_mode(), full_float32():
        return model(**inputs).logits[0]


def _refuse_useless(logits: torch.Tensor, name: str) -> None:
    if logits.isnan().any():
        raise ModelError(f"the logits of {name} are not all numbers: try --dtype float32, or the checkpoint is broken")
    for index, input_name in ((2, "image"), (1, "text")):
        if not (logits[0] - logits[index]).abs().max() > 0:
            raise ModelError(f"the logits of {name} do not depend on the {input_name}")


def _common(rows: Sequence[PromptRow]) -> int:
    """Return the length of the common prefix of each image's rows; 0 if sharing it would save nothing."""
    firsts: dict[int, list[int]] = {}
    common = min(len(row.prompt) for row in rows) - 1  # the logits after the last token of a prompt are wanted
    for row in rows:
        text = [*row.prompt, *row.answer]
        common = min(common, common_start(firsts.setdefault(id(row.seen), text), text))
    return common if len(firsts) < len(rows) and common >= max(row.image_end for row in rows) else 0


def _groups(indices: Iterable[int], key: Callable[[int], Hashable]) -> list[list[int]]:
    """Return the indices grouped by their keys."""
    groups: dict[Hashable, list[int]] = {}
    for i in indices:
        groups.setdefault(key(i), []).append(i)
    return list(groups.values())


def _joined(values: Sequence[Any]) -> Any:
    """Return an input of several images, whose values are tensors, lists, or all the same."""
    if torch.is_tensor(values[0]):
        return torch.cat(list(values))
    return [item for value in values for item in value] if isinstance(values[0], (list, tuple)) else values[0]


def _padded(values: Sequence[Sequence[int] | np.ndarray], device: torch.device, pad: int = 0) -> torch.Tensor:
    """Return values of tokens, (n, longest, …), padded at the right."""
    arrays = [np.asarray(row, None if isinstance(row, np.ndarray) else np.int64) for row in values]
    padded = np.full((len(arrays), max(map(len, arrays)), *arrays[0].shape[1:]), pad, arrays[0].dtype)
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = array
    return torch.from_numpy(padded).to(device)


def _on(model: Any, value: Any) -> Any:
    """Return an array on the model's device, in its precision if it is not of integers."""
    if not isinstance(value, np.ndarray):
        return value
    tensor = torch.from_numpy(np.ascontiguousarray(value))
    if model.device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(model.device, model.dtype if tensor.is_floating_point() else None, non_blocking=True)
