"""The reasons for which candidates and answers are rejected."""

from __future__ import annotations

import unicodedata

REASONS = (
    "no answer",
    "refused",
    "not JSON",
    "missing field",
    "not possible",
    "wrong kind",
    "not minimal",
    "same as the caption",
    "duplicate",
    "a true caption",
    "wrong article",
    "too long",
    "control characters",
)


class Rejected(Exception):
    """A rejected candidate, with one of `REASONS` and the details."""

    def __init__(self, reason: str, why: str = "") -> None:
        super().__init__(f"{reason}: {why}" if why else reason)
        self.reason, self.why = reason, why


def check_signs(text: str) -> None:
    """Raise `Rejected` for control characters and lone surrogates."""
    if text.isprintable():
        return
    if bad := [sign for sign in text if unicodedata.category(sign).startswith("C") and sign not in "\n\r\t"]:
        raise Rejected("control characters", f"U+{ord(bad[0]):04X}")
