"""The exceptions of VL-Assay.

VLAssayError                 anything below: the message says what came, what is allowed, what to do
├── UnknownNameError         a benchmark, configuration, metric, family or option that does not exist
├── ScoresError              scores or labels that no metric may judge (NaN, wrong length, empty …)
├── DataError                a dataset, an image or an annotation file that cannot be used
├── ModelError               a checkpoint that cannot be loaded as what it was asked to be
├── TrainingError            fine-tuning that cannot go on (the loss is no number any more)
├── PredictionsError         a predictions file or results file that does not follow its schema
├── SubmissionError          predictions that cannot be submitted as they are, or a submission that is not there
│   └── RateLimitError       too many submissions for now
└── StorageError             results that could not be written (disk full, no permission)
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime


class VLAssayError(ValueError):
    """Base of all errors that a user of VL-Assay can cause and mend."""


class UnknownNameError(VLAssayError):
    """A name that nothing answers to; the message lists the names that exist.

    Args:
        kind: what was asked for, such as ``"benchmark"``.
        name: the name that came.
        known: every name that would have been accepted.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        super().__init__(f"unknown {kind} {name!r}; known: {', '.join(known) or '(none)'}")


class ScoresError(VLAssayError):
    """Scores, labels or options that a metric cannot judge."""


class DataError(VLAssayError):
    """A dataset, image or annotation file that is missing, damaged or of another shape."""


class ModelError(VLAssayError):
    """A checkpoint that is missing, incomplete, or of another family."""


class TrainingError(VLAssayError):
    """Fine-tuning that cannot go on as it is; its last checkpoint is intact."""


class PredictionsError(VLAssayError):
    """A predictions file or results file that does not follow its documented schema."""


class SubmissionError(VLAssayError):
    """A submission that cannot be taken as it is, or a review of one that is not there."""


class RateLimitError(SubmissionError):
    """There have been too many submissions for now.

    Args:
        limit: how many an hour may have.
        retry_at: when the next one will be taken, UTC.
    """

    def __init__(self, limit: int, retry_at: datetime) -> None:
        super().__init__(
            f"there have been {limit} submissions within the last hour, which is all that the leaderboard takes; come "
            f"again after {retry_at:%H:%M:%S} UTC with the same files"
        )
        self.retry_at = retry_at


class StorageError(VLAssayError):
    """Something that could not be written; what was there before is intact."""
