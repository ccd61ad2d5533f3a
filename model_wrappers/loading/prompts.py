"""Prompts of generative models: what is asked about an image, and the tokens by which an answer begins."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ...metrics.common.errors import ModelError
from .checkpoints import loading_errors

TEMPLATES = {
    "yes": 'Does this figure show "{}"? Please answer yes or no.',
    "caption": "Describe this image in one sentence.",
    "choice": "Which caption describes this image?\n{}\nAnswer with the letter of that caption alone.",
}
QUESTION = "{} Please answer yes or no."


class Prompt:
    """A user's turn with an image and a text, and the start of the answer, by the checkpoint's chat template.

    Without a chat template the prompt is the text alone, for models whose processors place the image themselves.

    Args:
        processor: the checkpoint's processor.
        template: the user's text, where ``{}`` stands for a caption or a question.
        checkpoint: its name, for messages.
        keeps_end: whether the end token that the tokenizer appends stays: in an encoder, but not before an answer.
    """

    def __init__(self, processor: Any, template: str, checkpoint: str, *, keeps_end: bool = False) -> None:
        self._tokenizer = processor.tokenizer
        bare, whole = (self._tokenizer("a", add_special_tokens=special)["input_ids"] for special in (False, True))
        self._end = whole[-1] if whole[-1] != bare[-1] and not keeps_end else None
        self.text = _user_turn(processor, template, checkpoint)
        # The start token must not be added to a template that contains it.
        self.special = not self.text.startswith(self._tokenizer.bos_token or "\0")
        if self.text.count("{}") != template.count("{}"):
            raise ModelError(
                f"the chat template of {checkpoint} does not put the user's text into the prompt, which becomes "
                f"{self.text!r}"
            )
        some = self.tokens("a"), self.tokens("one two.")
        # Truncation of a long caption keeps these tokens after it.
        self.tail = 0
        while "{}" in template and some[0][-1 - self.tail] == some[1][-1 - self.tail]:
            self.tail += 1

    def filled(self, text: str) -> str:
        """The prompt with that text for ``{}``."""
        return self.text.replace("{}", text)

    def tokens(self, text: str, answer: str = "") -> list[int]:
        """The token ids of the prompt with that text for ``{}``, and of the answer."""
        # An answer follows its prompt after a space, unless the prompt ends with a line break or a special token.
        special = self._tokenizer.all_special_tokens
        space = "" if not answer or self.text[-1:].isspace() or self.text.endswith(tuple(special)) else " "
        return self._ids(self.filled(text) + space + answer, add_special_tokens=self.special)

    def answer(self, text: str) -> list[int]:
        """The token ids of an answer alone, for a decoder, or after tokens that the processor adds to a prompt."""
        return self._ids(text, add_special_tokens=False)

    def _ids(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return self.without_end(
            list(self._tokenizer(text, add_special_tokens=add_special_tokens, verbose=False)["input_ids"])
        )

    def without_end(self, ids: list[int]) -> list[int]:
        """The ids without the end token that the tokenizer appends, after which no answer would follow."""
        appended = ids and ids[-1] == self._end and not self.text.endswith(self._tokenizer.decode([self._end]))
        return ids[:-1] if appended else ids


def _user_turn(processor: Any, template: str, checkpoint: str) -> str:
    chat = processor.chat_template
    if chat is None:
        # PaliGemma's processor places the image without its token too, but warns each time.
        names_image = type(processor).__name__ == "PaliGemmaProcessor"
        return f"{processor.image_token if names_image else ''}{template}"
    turn = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": template}]}]
    with loading_errors(checkpoint, "a chat model"):
        with suppress(AttributeError):  # some processors read their video processor, which is not loaded
            return str(processor.apply_chat_template(turn, tokenize=False, add_generation_prompt=True))
        rendered = processor.tokenizer.apply_chat_template(
            turn, chat_template=chat, tokenize=False, add_generation_prompt=True
        )
        return str(rendered)


def spellings(tokenizer: Any, word: str) -> list[int]:
    """The tokens by which an answer can begin with that word."""
    texts = (word.capitalize(), word, f" {word.capitalize()}", f" {word}")
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    single = {own[0] for own in ids if len(own) == 1}
    return sorted(single or {ids[0][0], ids[2][0]})


def cut_before(ids: Sequence[int], limit: int, tail: int) -> list[int]:
    """The ids after truncation of the caption, which keeps the last `tail` ids."""
    return list(ids) if len(ids) <= limit else [*ids[: limit - tail], *ids[len(ids) - tail :]]


def common_start(one: Sequence[int], other: Sequence[int]) -> int:
    """The length of the common prefix."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
