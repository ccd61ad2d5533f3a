"""The exceptions of VL-Assay.

VLAssayError                 the base; a message names the value, what is allowed and what to do
├── UnknownNameError         a benchmark, configuration, metric, family or option that does not exist
├── ScoresError              invalid scores, labels or options of a metric (NaN, wrong length, empty …)
├── DataError                a dataset, an image or an annotation file that cannot be used
├── ModelError               a checkpoint that cannot be loaded
├── TrainingError            fine-tuning that cannot continue (the loss is NaN)
├── PredictionsError         a predictions file or results file that does not follow its schema
├── SubmissionError          predictions that cannot be submitted, or a submission that does not exist
│   └── RateLimitError       too many submissions or checks
└── StorageError             results that could not be written (disk full, no permission)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime


class VLAssayError(ValueError):
    """Base class of all errors that a user of VL-Assay can cause and correct."""


class UnknownNameError(VLAssayError):
    """An unknown name; the message lists the known names, and last those that were probably meant.

    Args:
        kind: what was asked for, such as ``"benchmark"``.
        name: the unknown name.
        known: the names that exist.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = [*known]
        close = " or ".join(map(repr, similar(str(name), map(str, known))))
        hint = f". Did you mean {close}?" if close else ""
        super().__init__(f"unknown {kind} {name!r}; known: {', '.join(known) or '(none)'}{hint}")


def similar(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names that a mistyped name may stand for, likeliest first; ignores case and separators.

    >>> similar("Sugar-Crep", ["aro", "sugarcrepe"]), similar("x", ["aro"])
    (['sugarcrepe'], [])
    """
    from difflib import get_close_matches

    plain: dict[str, str] = {}
    for candidate in known:
        plain.setdefault(_plain(candidate), candidate)
    return [plain[match] for match in get_close_matches(_plain(name), plain)]


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "").replace(" ", "")


def check_known(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise `UnknownNameError` for the first unknown name, if any."""
    for name in names:
        if name not in known:
            raise UnknownNameError(kind, name, known)


class ScoresError(VLAssayError):
    """Scores, labels or options that a metric cannot use."""


class DataError(VLAssayError):
    """A dataset, image or annotation file that is missing, damaged or of an unexpected format."""


class ModelError(VLAssayError):
    """A checkpoint that is missing, incomplete, or of another family."""


class TrainingError(VLAssayError):
    """Fine-tuning that cannot continue; its last checkpoint is intact."""


class PredictionsError(VLAssayError):
    """A predictions file or results file that does not follow its documented schema."""


class SubmissionError(VLAssayError):
    """A submission that cannot be accepted, or a review of one that does not exist."""


class RateLimitError(SubmissionError):
    """The number of submissions or checks within the last hour exceeds the limit.

    Args:
        limit: the number allowed in an hour.
        retry_at: when the next one will be accepted, UTC.
        user: the user whose limit was reached; "" for the limit of all users together.
        what: a plural noun for the limited actions, for the message.
    """

    def __init__(self, limit: int, retry_at: datetime, user: str = "", what: str = "submissions") -> None:
        super().__init__(
            f"there have been {limit} {what}{' of ' if user else ''}{user} within the last hour, which is all "
            f"that the leaderboard takes; come again after {retry_at:%H:%M:%S} UTC with the same files"
        )
        self.retry_at = retry_at


class StorageError(VLAssayError):
    """A file that could not be written; an existing file is unchanged."""
