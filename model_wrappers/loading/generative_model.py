"""Generative models that answer questions, and the parts from which their families make scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image

from ...metrics.common.errors import ModelError
from ..engine.arithmetic import full_float32
from ..engine.protocol import ModelInfo
from .generative import Forward, ImageInputs, PromptRow
from .image_prompts import ImagePrompts, Prepared
from .placement import is_whole
from .prompts import ChatPrompt, cut_before, spellings
from .torch_models import TorchModel, wide

_ORDINARY_SIZE = (640, 480)
# For models whose positions have no greatest number.
_MOST_TOKENS = 1 << 20


class GenerativeModel(TorchModel):
    """An image-text-to-text model that answers questions by yes or no.

    Attributes:
        max_tokens: the most tokens of a prompt, in which a placeholder stands for the image, an ordinary photograph.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        prompts: ImagePrompts,
        forward: Forward,
        caption: ChatPrompt,
        question: ChatPrompt,
        info: ModelInfo,
    ) -> None:
        super().__init__(model, info)
        self._prompts, self._forward = prompts, forward
        self._caption, self._question = caption, question
        self._yes, self._no = (spellings(tokenizer, word) for word in ("yes", "no"))
        positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self._limit = positions or min(tokenizer.model_max_length, _MOST_TOKENS)
        image = len(self.prepare_image(Image.new("RGB", _ORDINARY_SIZE)).tokens)
        self.max_tokens = self._limit - image + prompts.removed - len(prompts.closing)
        longest = max(len(prompt.tokens("a")) for prompt in (caption, question))
        if self.max_tokens <= longest:
            raise ModelError(
                f"{info.name} reads {self._limit} tokens, and an image leaves {self.max_tokens} of them for a prompt "
                f"of {longest}"
            )

    def prepare_image(self, image: Image.Image) -> Prepared:
        """Return the processor's inputs for the image, and the tokens that it inserts into a prompt.

        An orientation in EXIF data is not applied, as in the papers' own scripts.
        """
        return self._prompts.prepare(image)

    def prepare_questions(self, questions: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each question's prompt, without the image's tokens."""
        return [self._prompts.checked(self._question.tokens(question), question) for question in questions]

    def encode_images(self, images: Sequence[Prepared], *, exact: bool = False) -> list[ImageInputs]:
        """Copy the images to the device; the vision tower sees them with their prompts."""
        model = self.chosen(exact)
        return [self._forward.see(model, image) for image in images]

    def answer(
        self,
        features: Sequence[ImageInputs],
        images: Sequence[int],
        questions: Sequence[Sequence[int]],
        *,
        exact: bool = False,
    ) -> np.ndarray:
        """Return log P(yes) - log P(no) of n questions, (n,), float64."""
        if not questions:
            return np.empty(0)
        logits = self.first_logits([features[i] for i in images], questions, self._question.tail, exact)
        return (logits[:, self._yes].logsumexp(-1) - logits[:, self._no].logsumexp(-1)).numpy(force=True)

    def first_logits(
        self, features: Sequence[ImageInputs], texts: Sequence[Sequence[int]], tail: int, exact: bool
    ) -> torch.Tensor:
        """Return logits (n, vocabulary), float64, of the first token of an answer."""
        rows = [
            self.row(image_features, cut_before(ids, self.max_tokens, tail))
            for image_features, ids in zip(features, texts, strict=True)
        ]
        return wide(torch.stack([row_logits[0] for row_logits in self.logits(rows, exact)]))

    @torch.inference_mode()
    def logits(self, rows: Sequence[PromptRow], exact: bool) -> list[torch.Tensor]:
        """Return the logits of each row, as `Forward.logits`."""
        with full_float32():
            return self._forward.logits(self.chosen(exact), rows)

    def chosen(self, exact: bool) -> Any:
        """Return the module, or its float64 copy if it can be copied."""
        return super().chosen(exact and is_whole(self.info.settings))

    def row(self, image: ImageInputs, ids: Sequence[int], answer: Sequence[int] = ()) -> PromptRow:
        """Return a row with the tokens of the image in the prompt.

        Raises:
            ModelError: they are more than the model reads.
        """
        row = PromptRow(image, *self._prompts.with_image(image.prepared, ids), list(answer))
        if len(row.prompt) + len(row.answer) > self._limit:
            raise ModelError(
                f"an image takes {len(image.prepared.tokens)} tokens and its prompt {len(ids) + len(answer)}; "
                f"{self.info.name} reads {self._limit}: make the image smaller"
            )
        return row
