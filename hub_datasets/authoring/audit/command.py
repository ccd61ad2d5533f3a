"""The command ``vl-assay audit``."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....metrics.common.errors import DataError, StorageError
from ....metrics.statistics.bootstrap import check_share
from ..data.pairs import Pair, read_pairs
from .audit import audit, failures
from .probes import PROBES
from .report import print_audit, write_audit, write_card


def read_with_notes(dataset: str, out: Path, **reading: Any) -> list[Pair]:
    """The pairs of `read_pairs`, whose warnings are printed to standard error.

    Raises:
        DataError: results in the folder `out` would overwrite the dataset or be read as a part of it.
    """
    if Path(dataset).resolve() in [(out / name).resolve() for name in ("", "pairs.jsonl", "report.json", "audit.json")]:
        raise DataError(f"the results in {out} would overwrite {dataset} or be a part of it; give another --out")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        pairs = read_pairs(dataset, **reading)
    for warning in caught:
        if warning.category is UserWarning:
            print(f"note: {warning.message}", file=sys.stderr)
    return pairs


def run_audit(
    dataset: str,
    *,
    out: Path | None,
    columns: Mapping[str, str],
    data_dir: Path | None,
    options: Mapping[str, Any],
    predictions: Sequence[Path],
    normalised: bool,
    max_blind_accuracy: float | None,
    card: Path | None,
    confidence: float,
    seed: int,
) -> bool:
    """Audit a dataset and write the reports; returns whether it is above the limit."""
    from rich.console import Console
    from rich.progress import Progress

    if max_blind_accuracy is not None:
        check_share("max_blind_accuracy", max_blind_accuracy)
    folder = out or Path("vl-assay-results") / "audit" / re.sub(r"[^\w.-]+", "-", dataset).strip("-.")
    _check_places(folder, card)
    pairs = read_with_notes(dataset, folder, columns=columns, data_dir=data_dir, options=options)
    steps = 1 + len(predictions) + len(PROBES) + normalised * (1 + len(PROBES))
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("audit", total=steps)
        result = audit(
            pairs,
            dataset,
            predictions=predictions,
            normalised=normalised,
            confidence=confidence,
            seed=seed,
            progress=lambda step: bar.update(task, description=step, advance=1),
        )
    print_audit(result.record)
    files = write_audit(result, folder)
    print(f"written to {folder}: {', '.join(file.name for file in files)}")
    if card is not None:
        changed = write_card(card, result.record)
        print(f"card {card}: {', '.join(file.name for file in changed) or 'nothing to change'}")
    found = [] if max_blind_accuracy is None else failures(result.record, max_blind_accuracy)
    for sentence in found:
        print(f"fails: {sentence}", file=sys.stderr)
    return bool(found)


def _check_places(folder: Path, card: Path | None) -> None:
    """Raise an error before the audit if its results could not be written."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise StorageError(
            f"nothing can be written to {folder}, as {there} is no folder to write to; give another --out"
        )
    if card is not None and not card.is_file():
        raise DataError(f"the card {card} is not a file; name the README.md that the audit becomes a section of")
