"""Prompts of generative models: the question about an image, and the tokens by which an answer begins."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from jinja2 import TemplateError

from ...metrics.common.errors import ModelError

TEMPLATES = {
    "yes": 'Does this figure show "{}"? Please answer yes or no.',
    "caption": "Describe this image in one sentence.",
    "choice": "Which caption describes this image?\n{}\nAnswer with the letter of that caption alone.",
}
QUESTION = "{} Please answer yes or no."


class ChatPrompt:
    """The prompt of a text about an image, by the checkpoint's chat template: a user's turn and the answer's start.

    Without a chat template the prompt is just the text, for models whose processors place the image themselves.

    Args:
        processor: the checkpoint's processor.
        template: the user's text, where ``{}`` stands for a caption or a question.
        checkpoint: its name, for messages.
        keeps_end: whether to keep the end token that the tokenizer appends. An encoder needs it; in front of an answer
            it is wrong.

    Attributes:
        text: the whole prompt as a string, with the ``{}`` of the template.
        special: whether the tokenizer must add its special tokens to `text`.
        tail: the number of tokens after the caption, which truncation keeps.

    Raises:
        ModelError: the chat template fails, or leaves the user's text out.
    """

    def __init__(self, processor: Any, template: str, checkpoint: str, *, keeps_end: bool = False) -> None:
        self._tokenizer = processor.tokenizer
        bare, with_special = (
            self._tokenizer("a", add_special_tokens=with_special_tokens)["input_ids"]
            for with_special_tokens in (False, True)
        )
        self._end = with_special[-1] if with_special[-1] != bare[-1] and not keeps_end else None
        self.text = _user_turn(processor, template, checkpoint)
        # The start token must not be added to a template that contains it.
        self.special = not self.text.startswith(self._tokenizer.bos_token or "\0")
        if self.text.count("{}") != template.count("{}"):
            raise ModelError(
                f"the chat template of {checkpoint} does not put the user's text into the prompt, which becomes "
                f"{self.text!r}"
            )
        short, long = self.tokens("a"), self.tokens("one two.")
        self.tail = common_start(short[::-1], long[::-1]) if "{}" in template else 0

    def filled(self, text: str) -> str:
        """Return the prompt with `text` for ``{}``."""
        return self.text.replace("{}", text)

    def tokens(self, text: str, answer: str = "") -> list[int]:
        """Return the token ids of the prompt with `text` for ``{}``, followed by the answer's tokens."""
        # An answer follows its prompt after a space, unless the prompt ends with a line break or a special token.
        special = self._tokenizer.all_special_tokens
        space = "" if not answer or self.text[-1:].isspace() or self.text.endswith(tuple(special)) else " "
        return self._ids(self.filled(text) + space + answer, add_special_tokens=self.special)

    def answer(self, text: str) -> list[int]:
        """Return the token ids of just an answer, for a decoder or after tokens that the processor appends."""
        return self._ids(text, add_special_tokens=False)

    def _ids(self, text: str, *, add_special_tokens: bool) -> list[int]:
        ids = self._tokenizer(text, add_special_tokens=add_special_tokens, verbose=False)["input_ids"]
        return self.without_end(list(ids))

    def without_end(self, ids: list[int]) -> list[int]:
        """Remove the end token that the tokenizer appends: no answer would follow it."""
        is_appended = ids and ids[-1] == self._end and not self.text.endswith(self._tokenizer.decode([self._end]))
        return ids[:-1] if is_appended else ids


def _user_turn(processor: Any, template: str, checkpoint: str) -> str:
    chat = processor.chat_template
    if chat is None:
        # PaliGemma's processor places the image without its token too, but warns each time.
        names_image = type(processor).__name__ == "PaliGemmaProcessor"
        return f"{processor.image_token if names_image else ''}{template}"
    turn = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": template}]}]
    options = {"tokenize": False, "add_generation_prompt": True}
    try:
        with suppress(AttributeError):  # some processors read their video processor, which is not loaded
            return str(processor.apply_chat_template(turn, **options))
        return str(processor.tokenizer.apply_chat_template(turn, chat_template=chat, **options))
    except (TemplateError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise ModelError(f"the chat template of {checkpoint} fails: {error}") from error


def spellings(tokenizer: Any, word: str) -> list[int]:
    """Return the tokens by which an answer can begin with `word`."""
    texts = (word.capitalize(), word, f" {word.capitalize()}", f" {word}")
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    single = {tokens[0] for tokens in ids if len(tokens) == 1}
    return sorted(single or {ids[0][0], ids[2][0]})


def cut_before(ids: Sequence[int], limit: int, tail: int) -> list[int]:
    """Truncate the caption within a prompt to `limit` token ids in all; the last `tail` ids stay."""
    return list(ids) if len(ids) <= limit else [*ids[: limit - tail], *ids[len(ids) - tail :]]


def common_start(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the length of the common prefix."""
    pairs = zip(first, second, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))
