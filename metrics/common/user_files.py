"""Files and folders made by users: list the relevant files of a folder, and read text, JSON and tables.

All readers of such files use these functions, so that one place decides what a byte order mark means, names a file that
is not text, and refuses what would lose a value: a key or column that comes twice, or a row of another length. They
raise `ValueError` with the place in the file; callers add the name of the file, and how to get a right one.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any, TextIO

from .storage import refuse_pointer

# Files and folders that systems and archivers leave behind, besides those whose names begin with a period.
_LEFT_BEHIND = {"__macosx", "thumbs.db", "ehthumbs.db", "desktop.ini", "$recycle.bin", "@eadir", "icon\r"}
# The mark of UTF-32 begins with that of UTF-16, so that it comes first.
_MARKS = {
    **dict.fromkeys((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE), "utf-32"),
    **dict.fromkeys((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "utf-16"),
    codecs.BOM_UTF8: "utf-8-sig",
}
# The first bytes of files that are no tables or lists, in lower case, and the names of such files.
_OTHER_FILES = {
    b"pk\x03\x04": "a zip archive or a spreadsheet (.xlsx, .ods); save a table as CSV in UTF-8",
    b"\xd0\xcf\x11\xe0": "a spreadsheet (.xls); save it as CSV in UTF-8",
    b"\x93numpy": "a NumPy array (.npy)",
    b"par1": "a Parquet file; name it .parquet",
    b"arrow1": "an Arrow file; save it as Parquet",
    b"\x89hdf": "an HDF5 file",
    b"\x80": "a pickle, such as torch.save writes",
    b"\x1f\x8b": "compressed with gzip; unpack it",
    b"%pdf": "a PDF",
    **dict.fromkeys((b"<!doctype", b"<html", b"<?xml"), "a page of HTML or XML, perhaps of the site that has the file"),
}
_START = 64  # bytes that tell what a file is
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


def list_files(folder: Path, pattern: str = "*") -> list[Path]:
    """Return the sorted paths in a folder that match a `Path.glob` pattern, without files that systems leave behind.

    Left out are hidden files and folders, such as ``._1.jpg`` and ``.DS_Store``, further ones such as ``__MACOSX`` and
    ``Thumbs.db``, and everything below them.
    """
    return sorted(path for path in folder.glob(pattern) if not is_left_behind(path.relative_to(folder)))


def is_left_behind(path: PurePath) -> bool:
    """Return whether a path, relative to the user's folder or archive, has a part that `list_files` leaves out."""
    return any(name.startswith(".") or name.casefold() in _LEFT_BEHIND for name in path.parts)


def encoding_of(start: bytes) -> str:
    """Detect the encoding of a text from its first bytes: by its byte order mark, else UTF-8.

    Raises:
        ValueError: the bytes are the start of a file of another type; the message names it.

    >>> encoding_of("ö".encode("utf-16")), encoding_of(b"id,score")
    ('utf-16', 'utf-8')
    """
    refuse_pointer(start)
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return encoding
    for beginning, kind in _OTHER_FILES.items():
        if start.lower().startswith(beginning):
            raise ValueError(f"it is not text but {kind}")
    if b"\0" in start:
        raise ValueError("it is not text, or is UTF-16 without a byte order mark; save it as UTF-8")
    return "utf-8"


@contextmanager
def open_text(source: Path | bytes) -> Iterator[TextIO]:
    """Open a text file, or the content of one, in the encoding that `encoding_of` finds; line endings are kept.

    Raises:
        ValueError: it is not text, or not in that encoding; the latter may be raised while it is read.
    """
    with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as file:
        encoding = encoding_of(file.read(_START))
        file.seek(0)
        try:
            yield io.TextIOWrapper(file, encoding, newline="")
        except UnicodeDecodeError as error:
            raise ValueError(f"it is not text in UTF-8 ({error}); save it in that encoding") from error


def read_text(source: Path | bytes) -> str:
    """Return the text of a file, or of its content, without a byte order mark; raise as `open_text`."""
    with open_text(source) as file:
        return file.read()


def parse_json(text: str) -> Any:
    """Return the value of a JSON document.

    Raises:
        ValueError: it is not JSON, is too deeply nested, or has an object in which a key comes twice.

    >>> parse_json('{"1": "a cat", "1": "a dog"}')
    Traceback (most recent call last):
    ...
    ValueError: the key '1' comes twice
    """
    try:
        return json.loads(text, object_pairs_hook=_unique_keys)
    except RecursionError:
        raise ValueError("it is too deeply nested") from None
    except json.JSONDecodeError as error:
        lines = "; a file with a value in each line ends in .jsonl" if error.msg == "Extra data" else ""
        raise ValueError(f"it is not JSON ({error}){lines}") from error


def json_lines(lines: Iterable[str]) -> Iterator[tuple[int, Any]]:
    """Yield the value of each line of JSON with its number from 1; blank lines and comments (#) are skipped.

    Raises:
        ValueError: as `parse_json`; the message names the line.
    """
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            try:
                value = parse_json(line.rstrip())
            except ValueError as error:
                raise ValueError(f"line {number}: {error}; mend or remove the line") from error
            yield number, value


def table_rows(lines: Iterable[str], separator: str = ",") -> Iterator[tuple[int, dict[str, str]]]:
    """Yield each row of a table as its cells by column, with the number of its last line; blank rows are skipped.

    Raises:
        ValueError: it is not such a table, a column comes twice, or a row has more or fewer cells than the first; the
            message names the line.

    >>> list(table_rows(["id,caption", '1,"a cat, a dog"']))
    [(2, {'id': '1', 'caption': 'a cat, a dog'})]
    """
    reader = csv.reader(lines, delimiter=separator, strict=True)
    try:
        header = next(reader, None)
        if header is None:
            return
        names = [name.strip() for name in header]
        separators = [name for character, name in _SEPARATORS.items() if len(names) == 1 and character in names[0]]
        if separators:
            raise ValueError(f"its columns are separated by {separators[0]}; save it with {_SEPARATORS[separator]}")
        if not names or len(set(names)) < len(names):
            raise ValueError(f"its first line must name the columns, each once; it is {str(names)[:60]}")
        for cells in filter(any, reader):
            if len(cells) != len(names):
                raise ValueError(
                    f"line {reader.line_num} has {len(cells)} cells, not {len(names)} as the first line; put a text "
                    f"with {_SEPARATORS[separator]} in quotation marks"
                )
            yield reader.line_num, dict(zip(names, cells, strict=True))
    except csv.Error as error:
        raise ValueError(
            f"line {reader.line_num}: {error}; close the quotation mark that is open there, or write long texts as "
            "JSON lines"
        ) from error


def read_values(source: Path | bytes, suffix: str) -> Any:
    """Return the value of a ``.json`` file, or the list of the rows of a ``.jsonl``, ``.tsv`` or ``.csv`` file.

    Raises:
        ValueError: as `open_text`, `parse_json`, `json_lines` and `table_rows`.
    """
    with open_text(source) as file:
        if suffix == ".json":
            return parse_json(file.read())
        numbered = json_lines(file) if suffix == ".jsonl" else table_rows(file, "\t" if suffix == ".tsv" else ",")
        return [row for _, row in numbered]


def _unique_keys(items: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(items)
    if len(content) < len(items):
        [(key, _)] = Counter(key for key, _ in items).most_common(1)
        raise ValueError(f"the key {key!r} comes twice")
    return content
