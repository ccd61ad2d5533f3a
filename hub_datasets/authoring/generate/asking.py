"""Asking a language model behind an OpenAI-compatible endpoint for texts, with a journal of all answers."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....metrics.common.errors import ModelError
from ...chat.calls import JournaledCalls
from ...chat.client import KEY_VARIABLE, Completion, Endpoint, Refused, Unanswered
from .prompts import Messages
from .rejected import Rejected

JOURNAL_FILE = "journal.jsonl"


def open_model(model: str, base_url: str | None, *, key_variable: str = KEY_VARIABLE) -> Endpoint:
    """Return the model of that name at an endpoint; raise `ModelError` without an address or a library."""
    if base_url is None or not base_url.startswith(("http://", "https://")):
        raise ModelError(
            f"the model {model!r} needs --base-url, the address of an OpenAI-compatible endpoint such as "
            f"http://localhost:8000/v1, and got {base_url!r}; vLLM and `transformers serve` serve a local checkpoint"
        )
    return Endpoint(model, base_url, os.environ.get(key_variable))


class Asker(JournaledCalls[Completion]):
    """Asks a model, from any number of threads; a question that is already under way is not asked twice.

    Args:
        path: the file of the journal.
        per_minute, first_wait: as for `generate`.
    """

    def __init__(
        self, model: Endpoint, path: Path, *, per_minute: float | None = None, first_wait: float | None = None
    ) -> None:
        super().__init__(model.name, path, parse_answer, per_minute=per_minute, first_wait=first_wait)
        self._model = model

    def ask(
        self, messages: Messages, temperature: float, max_tokens: int, seed: int | None = None, attempt: int = 0
    ) -> str:
        """Return the text of the answer, from the journal if it has one.

        `attempt` numbers repeated questions, each for another random answer.

        Raises:
            Rejected: this question has no answer, or is refused.
            ModelError, StorageError, Stopped: as `call`.
        """
        about = {"messages": messages, "temperature": temperature, "max_tokens": max_tokens}
        about |= {"seed": seed, "attempt": attempt}
        parts = [self._model.name, messages, temperature, seed, attempt]
        key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        try:
            return self.call(key, about, lambda: self._model.complete(messages, temperature, max_tokens, seed)).text
        except (Unanswered, Refused) as error:
            raise Rejected("refused" if isinstance(error, Refused) else "no answer", str(error)) from error


def parse_answer(fields: Mapping[str, Any]) -> Completion:
    """Return a `Completion` from its fields in the journal; raise `TypeError` for other fields."""
    return Completion(**fields)
