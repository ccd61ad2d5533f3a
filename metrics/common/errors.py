"""The exceptions of VL-Assay.

VLAssayError                 the base; messages say what was given, what is allowed and what to do
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
    """Base of all errors that a user of VL-Assay can cause and correct."""


class UnknownNameError(VLAssayError):
    """A name that does not exist; the message lists those that do, and ends with those that it may stand for.

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
    """Up to three names that a mistyped one may stand for, the likeliest first; case and separators do not count.

    >>> similar("Sugar-Crep", ["aro", "sugarcrepe"]), similar("x", ["aro"])
    (['sugarcrepe'], [])
    """
    from difflib import get_close_matches

    plain: dict[str, str] = {}
    for each in known:
        plain.setdefault(_plain(each), each)
    return [plain[match] for match in get_close_matches(_plain(name), plain)]


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "").replace(" ", "")


def check_known(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise `UnknownNameError` for the first of some names that does not exist."""
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
    """Too many submissions or checks within the last hour.

    Args:
        limit: the number allowed in an hour.
        retry_at: when the next one will be accepted, UTC.
        user: whose they are; "" if the limit is that of all users together.
        what: what there are too many of.
    """

    def __init__(self, limit: int, retry_at: datetime, user: str = "", what: str = "submissions") -> None:
        super().__init__(
            f"there have been {limit} {what}{' of ' if user else ''}{user} within the last hour, which is all "
            f"that the leaderboard takes; come again after {retry_at:%H:%M:%S} UTC with the same files"
        )
        self.retry_at = retry_at


class StorageError(VLAssayError):
    """A file that could not be written; what was there before is intact."""
