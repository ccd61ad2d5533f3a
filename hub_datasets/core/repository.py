"""Built dataset repositories: where they are kept, and what was built; needs no `datasets`."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...metrics.common.errors import DataError
from ...metrics.common.storage import with_home, writable_cache
from .benchmarks import benchmark_folder, get_card

BUILD_FILE = "build.json"
BUILD_SCHEMA = "vl-assay/build"


def cache_folder() -> Path:
    """Return the folder of built datasets: ``VL_ASSAY_CACHE``, by default ``vl_assay`` in the Hugging Face home."""
    from huggingface_hub.constants import HF_HOME

    folder = with_home(os.environ.get("VL_ASSAY_CACHE", Path(HF_HOME) / "vl_assay"))
    return writable_cache(folder) if str(folder).startswith("~") else folder


def shipped_build(benchmark: str) -> Path | None:
    """Return the built repository that comes with the package, so that a first run builds nothing; None without one."""
    folder = benchmark_folder(benchmark) / "built"
    return folder if (folder / BUILD_FILE).is_file() else None


def newest_build(name: str, config: str, split: str) -> Path | None:
    """Return the newest build of a configuration's split in the cache, with whatever options; None without one."""
    builds = (cache_folder() / "datasets" / name).glob(f"{config}-*/{BUILD_FILE}")
    for path in sorted(builds, key=lambda path: path.stat().st_mtime, reverse=True):
        # Another version, or another configuration whose name has the same prefix.
        with suppress(DataError, KeyError):
            read_build(path.parent)["configs"][config][split]
            return path.parent
    return None


def read_build(folder: str | Path) -> dict[str, Any]:
    """Return the record of a build: benchmark, options, and the counts of rows, images and captions of each split.

    Raises:
        DataError: the folder was not written by `build`.
    """
    path = Path(folder) / BUILD_FILE
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{folder} has no {BUILD_FILE}: not a dataset that `vl-assay build` wrote") from None
    except ValueError as error:
        raise DataError(f"{path} is damaged ({error}); build the dataset again") from error
    if not isinstance(record, dict) or record.get("schema") != BUILD_SCHEMA or record.get("version") != 1:
        raise DataError(f"{path} is of another version; build the dataset again")
    return record


def compare_with_card(folder: str | Path) -> tuple[list[str], list[str]]:
    """Compare the numbers of rows and images of a build with the benchmark's card; see `card_counts`.

    Returns:
        A line for each number that differs, and a line for each that the card does not have. Images are not compared
        if the build has none.

    Raises:
        DataError: as `read_build`.
    """
    record = read_build(folder)
    card = card_counts(record["benchmark"])
    wrong, unknown = list[str](), list[str]()
    for config, splits in record["configs"].items():
        for split, counts in splits.items():
            expected = dict(zip(("rows", "images"), card.get((config, split), (None, None)), strict=True))
            for name, number in expected.items():
                line = f"{config}, {split}: {counts[name]:,} {name}"
                if number is None:
                    unknown.append(f"{line}; the card has no number")
                elif counts[name] != number and (counts[name] or name == "rows"):
                    wrong.append(f"{line}, but the card says {number:,}")
    return wrong, unknown


def card_counts(benchmark: str) -> dict[tuple[str, str], tuple[int | None, int | None]]:
    """Return rows and images by configuration and split from the table of a benchmark's card; None for a dash."""
    lines = re.findall(r"^\| (\w+) \| (\w+) \| ([\d,]+|–) \| ([\d,]+|–)", get_card(benchmark), re.MULTILINE)
    counts = [[None if cell == "–" else int(cell.replace(",", "")) for cell in cells] for _, _, *cells in lines]
    return {(line[0], line[1]): (rows, images) for line, (rows, images) in zip(lines, counts, strict=True)}
