"""Read files of predictions as records: JSON lines, CSV, Parquet, and files of other tools (`other_tools`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from ...metrics.common.errors import ModelError
from ...metrics.common.user_files import json_lines, open_text, parse_json, table_rows
from .other_tools import released_answers, tool_answers, tool_files

RIGHT_LINE = '{"id": "swap_obj/13", "scores": [0.31, 0.27]}'
# Characters of a line, and of a JSON file, which takes ten times as much memory.
_LINE_LIMIT = 2**26
_JSON_LIMIT = 2**28
_Placed = tuple[str, dict[str, Any]]


class AnswerRecord(NamedTuple):
    """A record of a file and its place, such as ``"line 3"``; values of CSV are strings."""

    place: str
    fields: dict[str, Any]


def read_records(path: Path) -> Iterator[AnswerRecord]:
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
            start = "" if file == path else f"{file.name}, "
            yield from (AnswerRecord(start + position, fields) for position, fields in _rows(file))
        except (ValueError, OSError) as error:
            raise ModelError(f"{file.name} cannot be read: {error}") from error


def allowed_files() -> str:
    """Name the formats, with a right line."""
    return f"expected .jsonl, .csv or .parquet with id and scores, answer or boxes, such as {RIGHT_LINE}"


def shown(value: Any) -> str:
    """Return a value for a message, truncated to a readable length."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _rows(path: Path) -> Iterator[_Placed]:
    suffix = path.suffix.lower()
    readers = {".jsonl": _json_lines, ".csv": _csv, ".json": _json}
    if suffix in (".eval", ".parquet"):
        yield from tool_answers(path) if suffix == ".eval" else _parquet(path)
        return
    with open_text(path) as file:
        if suffix not in readers:
            raise ValueError(allowed_files())
        yield from readers[suffix](path, file)


def _lines(file: TextIO) -> Iterator[str]:
    while line := file.readline(_LINE_LIMIT):
        if len(line) == _LINE_LIMIT:
            raise ValueError(f"a line is longer than {_LINE_LIMIT:,} characters")
        yield line


def _csv(path: Path, file: TextIO) -> Iterator[_Placed]:
    return ((f"line {number}", cells) for number, cells in table_rows(_lines(file)))


def _json_lines(path: Path, file: TextIO) -> Iterator[_Placed]:
    def records() -> Iterator[_Placed]:
        for number, record in json_lines(_lines(file)):
            if not isinstance(record, dict):
                raise ValueError(f"line {number}: {shown(record)} is not a record, such as {RIGHT_LINE}")
            yield f"line {number}", record

    return tool_answers(records())


def _json(path: Path, file: TextIO) -> Iterator[_Placed]:
    text = file.read(_JSON_LIMIT)
    if len(text) == _JSON_LIMIT:
        raise ValueError(f"it is larger than {_JSON_LIMIT:,} characters; write JSON lines (.jsonl), a record a line")
    content = parse_json(text)
    answers = released_answers(path, content) if isinstance(content, dict) else None
    if answers is None:
        raise ValueError(
            f"it is neither a log of inspect_ai nor answers that were released; other predictions are JSON lines "
            f"(.jsonl), such as {RIGHT_LINE}"
        )
    return answers


def _parquet(path: Path) -> Iterator[_Placed]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path.absolute()) as file:  # a colon would name a file system
            names = [name for name in file.schema_arrow.names if name in ("id", "scores", "answer", "boxes")]
            number = 0
            for batch in file.iter_batches(batch_size=1024, columns=names):
                for fields in batch.to_pylist():
                    number += 1
                    yield f"row {number}", fields
    except pa.ArrowException as error:
        raise ValueError(" ".join(str(error).split())) from error
