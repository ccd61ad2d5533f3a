"""The position of an image among the tokens of a prompt, learned from the checkpoint's processor."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from transformers import ProcessorMixin
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING, processor_class_from_name

from ...metrics.common.errors import ModelError
from .checkpoints import CheckpointFiles, loading_errors
from .prompts import ChatPrompt, common_start

# The exceptions of processors for inputs that they do not take.
_ERRORS = (ImportError, ValueError, TypeError, KeyError, AttributeError, IndexError, RuntimeError)
# The most tokens that a processor may append to a prompt, such as PaliGemma's line break.
_MOST_CLOSING = 8
# Inputs that are computed again from the tokens, or that only training needs.
_LEFT_OUT = ("input_ids", "attention_mask", "labels")


class Prepared(NamedTuple):
    """An image for the model.

    Attributes:
        tokens: the tokens that the processor inserts into a prompt for the image.
        inputs: the processor's inputs for the image, such as pixels, as arrays.
        aligned: the inputs with a value for each token, such as token types: the values up to the image's last token,
            and the value of every token after it.
    """

    tokens: list[int]
    inputs: dict[str, Any]
    aligned: dict[str, tuple[np.ndarray, np.ndarray]]


class ImagePrompts:
    """The processor's work, split into the part of the image, for workers, and the part of the prompt.

    A processor replaces a placeholder in the prompt, which may be empty, by the image's tokens, and may append a few
    tokens at the end. This class learns from a sample which they are.

    Raises:
        ModelError: the processor reads no text, or changes the prompt in another way.
    """

    def __init__(self, processor: Any, prompt: ChatPrompt, checkpoint: str, model: Any) -> None:
        self._processor, self._prompt, self._checkpoint = processor, prompt, checkpoint
        self._options: dict[str, Any] = {} if prompt.special else {"add_special_tokens": False}
        self._is_nested = True
        self._plain = prompt.tokens("a")
        self._image_token: Any = getattr(processor, "image_token_id", None)
        has_types = "mm_token_type_ids" in inspect.signature(model.forward).parameters
        try:
            processed = self.processed(sample_images()[0], "a")
            if has_types and not any(key.endswith("token_type_ids") for key in processed):
                self._options["return_mm_token_type_ids"] = True
                processed = self.processed(sample_images()[0], "a")
            self._learn(processed)
            if self._place(prompt.tokens("one two.")) < 0:
                raise ValueError("the image does not stand before the text")
        except _ERRORS as error:
            advice = (
                "it has no chat template, which builds the prompt of a question about an image; take an "
                "instruction-tuned checkpoint, or save a template in its folder as chat_template.jinja"
            )
            raise ModelError(
                f"the processor of {checkpoint} cannot put an image into the prompt {prompt.text!r} "
                f"({error}{'; ' + advice if processor.chat_template is None else ''})"
            ) from error

    @property
    def removed(self) -> int:
        """The number of tokens in a prompt that the image's tokens replace."""
        return len(self._placeholder)

    def processed(self, image: Image.Image, text: str) -> dict[str, Any]:
        """Return the processor's whole output for one image and the prompt with `text`, as arrays."""
        arguments = {"text": [self._prompt.filled(text)], "return_tensors": "pt", **self._options}
        image = image.convert("RGB")
        try:
            # Most processors read a flat list of images as one image for each prompt, some as all of one prompt.
            processed = self._processor(images=[[image]] if self._is_nested else [image], **arguments)
        except (ValueError, TypeError):
            if not self._is_nested:
                raise
            processed = self._processor(images=[image], **arguments)
            self._is_nested = False
        return {key: _array(value) for key, value in processed.items()}

    def prepare(self, image: Image.Image) -> Prepared:
        """Return the tokens and the inputs of an image; an orientation in EXIF data is not applied.

        Raises:
            ModelError: the processor changes the text around this image.
        """
        processed = self.processed(image, "a")
        ids = self._ids(processed)
        end = len(ids) - self._after
        after = [*self._plain[len(self._plain) - self._kept :], *self.closing]
        if ids[: self._start] != self._plain[: self._start] or ids[end:] != after:
            raise ModelError(f"the processor of {self._checkpoint} changes the text around an image")
        aligned = {}
        for key in [key for key in processed if _is_aligned(key, processed[key], len(ids))]:
            values = processed.pop(key)[0]
            if (values[end:] != values[-1]).any():
                raise ModelError(
                    f"the input {key} of {self._checkpoint} has several values after the image; one is expected"
                )
            aligned[key] = values[:end], values[-1]
        inputs = {key: value for key, value in processed.items() if key not in _LEFT_OUT}
        return Prepared(ids[self._start : end], inputs, aligned)

    def with_image(self, prepared: Prepared, ids: Sequence[int]) -> tuple[list[int], int]:
        """Return the tokens of a prompt with its image's tokens, and their number up to the image's last token."""
        at = self._place(ids)
        tokens = [*ids[:at], *prepared.tokens, *ids[at + self.removed :], *self.closing]
        return tokens, at + len(prepared.tokens)

    def checked(self, ids: list[int], text: str) -> list[int]:
        """Return the ids of a prompt; raise `ModelError` if its text holds the token that stands for an image."""
        if self._place(ids) < 0:
            raise ModelError(f"{text!r} holds the token that stands for an image in this model's prompts")
        return ids

    def _place(self, ids: Sequence[int]) -> int:
        """Return the index of the image's placeholder in a prompt; -1 if there is not exactly one."""
        if not self.removed:
            starts_alike = list(ids[: self._start]) == self._plain[: self._start]
            is_free = list(ids).count(self._image_token) == self._plain.count(self._image_token)
            return self._start if starts_alike and is_free else -1
        starts = range(len(ids) - self.removed + 1)
        matches = [at for at in starts if list(ids[at : at + self.removed]) == self._placeholder]
        return matches[0] if len(matches) == 1 else -1

    def _learn(self, processed: dict[str, Any]) -> None:
        """Compare the tokens of the prompt without an image with the processor's tokens for prompt and image."""
        ids, plain = self._ids(processed), self._plain
        for closing in range(_MOST_CLOSING + 1):
            body = ids[: len(ids) - closing]
            common = common_start(plain[::-1], body[::-1])
            if common >= min(len(plain), 3):
                break
        else:
            raise ModelError(f"the processor of {self._checkpoint} changes the text around an image")
        start = min(common_start(plain, body), len(plain) - common)
        image = set(body[start : len(body) - common])
        while start and plain[start - 1] in image:
            start -= 1
        while common and plain[len(plain) - common] in image:
            common -= 1
        # Inputs that define which tokens see the image may also change after its last token.
        values = [value[0] for key, value in processed.items() if _is_aligned(key, value, len(ids))]
        changes = [np.flatnonzero((value != value[-1]).reshape(len(ids), -1).any(1)) for value in values]
        last = max((int(change[-1]) + 1 for change in changes if len(change)), default=0)
        common = min(common, len(ids) - closing - last)
        self._start, self._kept, self._after = start, common, common + closing
        self._placeholder = plain[start : len(plain) - common]
        self.closing = ids[len(ids) - closing :]

    def _ids(self, processed: dict[str, Any]) -> list[int]:
        if "input_ids" not in processed:
            raise ModelError(f"the processor of {self._checkpoint} gives no token ids: the model reads no prompt")
        return self._prompt.without_end([int(i) for i in processed["input_ids"][0]])


def sample_images() -> list[Image.Image]:
    """Return three images of noise, two of them of one shape, to try a checkpoint's processor and forward pass."""
    rng = np.random.default_rng(0)
    shapes = ((192, 256, 3), (256, 192, 3), (192, 256, 3))
    return [Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)) for shape in shapes]


class _Absent(dict[str, Any]):
    """A stand-in for a processor of videos or sounds, on which nothing is set."""

    def __getattr__(self, name: str) -> None:
        return None


def load_processor(files: CheckpointFiles, config: Any) -> Any:
    """Load the checkpoint's processor from its image processor and tokenizer, without video and audio processors.

    Raises:
        ModelError: a part is missing or damaged, or `transformers` has no processor for the model type.
    """
    image_processor, tokenizer = files.image_processor(), files.tokenizer()
    with loading_errors(files.checkpoint, files.family):
        facts, _ = ProcessorMixin.get_processor_dict(files.path, revision=files.commit)
        class_name = facts.get("processor_class") or tokenizer.init_kwargs.get("processor_class")
        processor_class: Any = processor_class_from_name(class_name) if class_name else None
        if processor_class is None and type(config) in PROCESSOR_MAPPING:
            processor_class = PROCESSOR_MAPPING[type(config)]
        if processor_class is None:
            raise ModelError(f"{files.checkpoint} names no processor, and {config.model_type!r} has none by default")
        names = processor_class.get_attributes()
        if other_tokenizers := [name for name in names if "tokenizer" in name and name != "tokenizer"]:
            raise ModelError(
                f"{processor_class.__name__} reads the prompt by {other_tokenizers[0]} too: its "
                "images depend on the prompt"
            )
        check = processor_class.check_argument_for_proper_class

        def check_given(self: Any, name: str, value: Any) -> Any:
            return None if value is None or isinstance(value, _Absent) else check(self, name, value)

        partial: Any = type(
            processor_class.__name__, (processor_class,), {"check_argument_for_proper_class": check_given}
        )
        parts = {"image_processor": image_processor, "tokenizer": tokenizer}
        try:
            processor = partial.from_args_and_dict([parts.get(name) for name in names], facts)
        except AttributeError:  # some read the settings of their video processor when they are made
            processor = partial.from_args_and_dict([parts.get(name, _Absent()) for name in names], facts)
    processor.chat_template = processor.chat_template or tokenizer.chat_template
    return processor


def _is_aligned(key: str, value: Any, length: int) -> bool:
    """Return whether an input has a value for each token."""
    is_named_so = key.endswith(("_ids", "_mask")) and key not in _LEFT_OUT
    return is_named_so and isinstance(value, np.ndarray) and value.ndim > 1 and value.shape[1] == length


def _array(value: Any) -> Any:
    """Return a tensor as an array; NumPy has no bfloat16."""
    if not hasattr(value, "numpy"):
        return value
    return (value.float() if value.is_floating_point() else value).numpy()
