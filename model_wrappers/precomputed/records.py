"""Read files of predictions as records: JSON lines, CSV, Parquet, and files of other tools (`other_tools`)."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from ...hub_datasets.authoring.data.tables import unique_keys
from ...metrics.common.errors import ModelError
from .other_tools import released_answers, tool_answers, tool_files

RIGHT_LINE = '{"id": "swap_obj/13", "scores": [0.31, 0.27]}'
# Characters of a line, and of a JSON file, which takes ten times as much memory.
_LINE_LIMIT = 2**26
_JSON_LIMIT = 2**28
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_SPREADSHEETS = (".xlsx", ".xls", ".ods")


class Record(NamedTuple):
    """A record of a file and its place, such as ``"line 3"``; values of CSV are strings."""

    place: str
    fields: dict[str, Any]


def read_records(path: Path) -> Iterator[Record]:
    """Read the records of a file, or of a folder with the answers of GPT-4V that SugarCrepe's authors released.

    The suffix determines the format: ``.jsonl`` (lines that begin with # are comments), ``.csv``, ``.parquet``, or
    ``.eval`` and ``.json`` for logs and released answers. Only ``.json`` is read into memory as a whole.

    Raises:
        ModelError: the file is missing, malformed, too large or of another format; the message names the place.
    """
    if not path.exists() or not (path.is_dir() or path.is_file()):
        raise ModelError(f"no such file: {path}")
    files = tool_files(path) if path.is_dir() else [path]
    if not files:
        raise ModelError(f"{path} is a folder without released answers of GPT-4V; name a file: {allowed_files()}")
    for file in files:
        try:
            yield from (Record(f"{file.name}, {place}" if file != path else place, row) for place, row in _rows(file))
        except (ValueError, OSError, RecursionError, csv.Error) as error:
            reason = "too deeply nested" if isinstance(error, RecursionError) else error
            raise ModelError(f"{file.name} cannot be read: {reason}") from error


def allowed_files() -> str:
    """Name the formats, with a right line."""
    return f"expected .jsonl, .csv or .parquet with id and scores, answer or boxes, such as {RIGHT_LINE}"


def shown(value: Any) -> str:
    """Return a value for a message, truncated to a readable length."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    suffix = path.suffix.lower()
    readers = {".jsonl": _json_lines, ".csv": _csv, ".json": _json}
    if suffix in (".eval", ".parquet"):
        yield from tool_answers(path) if suffix == ".eval" else _parquet(path)
        return
    if suffix not in readers:
        raise ValueError(f"{'it is a spreadsheet; save it as CSV. ' * (suffix in _SPREADSHEETS)}{allowed_files()}")
    with path.open("rb") as file:
        if file.read(2) in _UTF_16:
            raise ValueError("it is UTF-16; save it as UTF-8")
    with path.open(encoding="utf-8-sig", newline="") as file:
        yield from readers[suffix](path, file)


def _lines(file: TextIO) -> Iterator[str]:
    while line := file.readline(_LINE_LIMIT):
        if len(line) == _LINE_LIMIT:
            raise ValueError(f"a line is longer than {_LINE_LIMIT:,} characters")
        yield line


def _csv(path: Path, file: TextIO) -> Iterator[tuple[str, dict[str, Any]]]:
    reader = csv.reader(_lines(file), strict=True)
    names = [name.strip() for name in next(reader, [])]
    if len(names) == 1 and re.search(r"[;\t]", names[0]):
        raise ValueError(f"its columns are not separated by commas: {shown(names[0])}; save it with commas")
    if not names or len(set(names)) < len(names):
        raise ValueError(f"its first line must name the columns, each once; it is {shown(names)}")
    try:
        for cells in filter(None, reader):
            place = f"line {reader.line_num}"
            if len(cells) != len(names):
                raise ValueError(f"{place} has {len(cells)} cells, not {len(names)} as the first line")
            yield place, _with_scores(place, dict(zip(names, cells, strict=True)))
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}; long cells are for JSON lines") from error


def _with_scores(place: str, cells: dict[str, str]) -> dict[str, Any]:
    """Join the columns ``score_0``, ``score_1`` … to ``scores``; the last ones may be empty."""
    named = {name: cells.pop(name) for name in list(cells) if re.fullmatch(r"score_\d{1,9}", name)}
    if not named:
        return cells
    given = {name for name, cell in named.items() if cell.strip()}
    scores = [f"score_{number}" for number in range(len(given))]
    if missing := [name for name in scores if name not in given]:
        raise ValueError(f"{place}: {missing[0]} is missing among {', '.join(sorted(given))}")
    return {**cells, "scores": [named[name] for name in scores]}


def _json_lines(path: Path, file: TextIO) -> Iterator[tuple[str, dict[str, Any]]]:
    def records() -> Iterator[tuple[str, dict[str, Any]]]:
        for number, line in enumerate(_lines(file), 1):
            if line.strip() and not line.startswith("#"):
                try:
                    record = json.loads(line, object_pairs_hook=unique_keys)
                except ValueError as error:
                    raise ValueError(f"line {number}: {error}") from error
                if not isinstance(record, dict):
                    raise ValueError(f"line {number}: {shown(record)} is not a record, such as {RIGHT_LINE}")
                yield f"line {number}", record

    return tool_answers(records())


def _json(path: Path, file: TextIO) -> Iterator[tuple[str, dict[str, Any]]]:
    text = file.read(_JSON_LIMIT)
    if len(text) == _JSON_LIMIT:
        raise ValueError(f"it is larger than {_JSON_LIMIT:,} characters; write JSON lines (.jsonl), a record a line")
    content = json.loads(text, object_pairs_hook=unique_keys)
    answers = released_answers(path, content) if isinstance(content, dict) else None
    if answers is None:
        raise ValueError(
            f"it is neither a log of inspect_ai nor answers that were released; other predictions are JSON lines "
            f"(.jsonl), such as {RIGHT_LINE}"
        )
    return answers


def _parquet(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            names = [name for name in ("id", "scores", "answer", "boxes") if name in file.schema_arrow.names]
            number = 0
            for batch in file.iter_batches(batch_size=1024, columns=names):
                for fields in batch.to_pylist():
                    number += 1
                    yield f"row {number}", fields
    except pa.ArrowException as error:
        raise ValueError(" ".join(str(error).split())) from error
