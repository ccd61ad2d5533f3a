"""Results that model authors report on the Hub; shown separately, because nothing here recomputes or checks them.

The Hub has a leaderboard for each dataset that it lists as a benchmark. This module reads the leaderboard of our
dataset and the leaderboards that the benchmark's card declares as ``hub_leaderboards``, such as its authors'. It does
not search by name, which is ambiguous: CoLA is also a benchmark of grammar.

Anybody can write such a result into the repository of their model, so everything in it is untrusted: rows are bounded
in number and length, and those that cannot be shown are counted.
"""

from __future__ import annotations

import sys
import time
from functools import lru_cache
from typing import Any, NamedTuple

from huggingface_hub import DatasetCard, HfApi
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from huggingface_hub.utils import validate_repo_id

from ...hub_datasets.core.benchmarks import get_card
from ...hub_datasets.hub.model_cards import OWNER

MOST_ROWS = 100
_MOST_CHARACTERS = 200
_SECONDS = 600  # for so long an answer is kept, and also a failure
_TIMEOUT = 10.0


class Reported(NamedTuple):
    """A row of a dataset's leaderboard on the Hub.

    Attributes:
        dataset, model: repositories, ``owner/name``.
        value: as reported; on which scale is up to who reports it.
        is_verified: whether the Hub has run it itself.
        source, notes: texts of who reports it, cut to 200 characters; may be empty.
        pull_request: the number of the pull request that adds it, if its model's owner has not merged it.
    """

    dataset: str
    model: str
    value: float
    is_verified: bool
    source: str
    notes: str
    pull_request: int | None


class Community(NamedTuple):
    """The rows by dataset in the Hub's order, what was left out, and the reason if the Hub could not be read."""

    rows: tuple[Reported, ...] = ()
    unreadable: int = 0
    over_limit: int = 0
    problem: str = ""


def reported_results(benchmark: str, api: Any = None) -> Community:
    """Return the results on the Hub's leaderboards of a benchmark, at most ten minutes old.

    Args:
        benchmark: its name.
        api: a `huggingface_hub.HfApi` by default. No token is sent.
    """
    return _read(benchmark, api, int(time.monotonic() // _SECONDS))


@lru_cache(maxsize=128)
def _read(benchmark: str, api: Any, period: int) -> Community:
    api = api or HfApi()
    # Our dataset, and those of the Hub that the benchmark declares.
    datasets = [f"{OWNER}/{benchmark}", *DatasetCard(get_card(benchmark)).data.get("hub_leaderboards", [])]
    try:
        entries = [(dataset, entry) for dataset in datasets for entry in _leaderboard(dataset, api)]
    except HfHubHTTPError as error:
        return Community(problem=f"status {error.response.status_code}")
    except Exception as error:  # network errors of several libraries, and rows without the fields of the Hub
        return Community(problem=type(error).__name__)
    rows = [_row(*dataset_and_entry) for dataset_and_entry in entries[:MOST_ROWS]]
    readable = tuple(row for row in rows if row is not None)
    return Community(readable, len(rows) - len(readable), len(entries) - len(rows))


def _leaderboard(dataset: str, api: Any) -> list[Any]:
    """Return the entries of a dataset; none if the Hub has not accepted it as a benchmark, or it is not there."""
    try:
        return api.get_dataset_leaderboard(dataset, base_model_only=False, token=False, timeout=_TIMEOUT)
    except HfHubHTTPError as error:
        if error.response.status_code in (400, 401, 404):
            return []
        raise


def _row(dataset: str, entry: Any) -> Reported | None:
    """Return a row with bounded texts; None if the model has no valid name or the value is no finite number."""
    try:
        validate_repo_id(entry.model_id)
    except HFValidationError:
        return None
    value, number = entry.value, entry.pull_request
    if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:  # nor NaN
        return None
    source = entry.source if isinstance(entry.source, dict) else {}
    return Reported(
        dataset,
        entry.model_id,
        value,
        entry.verified is True,
        _text(source.get("name")),
        _text(entry.notes),
        number if type(number) is int and 0 < number < 1 << 31 else None,
    )


def _text(value: Any) -> str:
    """Return a text of one line without control characters, cut."""
    if not isinstance(value, str):
        return ""
    line = "".join(character if character.isprintable() else " " for character in value[: _MOST_CHARACTERS + 1])
    return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 1]}…"
