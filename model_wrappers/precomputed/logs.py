"""Answers from the logs of other tools: of inspect_ai (``.eval`` or ``.json``), and lm-eval's and lmms-eval's samples.

They evaluated what ``vl-assay export`` wrote. A record has the id that the export gave and the text of the chosen
caption, since the letters of a log are those of its own order of the choices. The answers about the images of one
example, with ids that end in ``#0``, ``#1`` …, become one record; a sample without a score, because of an error or a
limit, becomes none, so that its example is one without a prediction.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from string import ascii_uppercase
from typing import Any

_SAMPLE_LIMIT = 2**26  # bytes of a sample, of which most are its images
_COUNT_LIMIT = 1_000_000
# zipfile expands all that one read takes from the file, and zstd makes 128 KiB of a few bytes.
_READ = 4096


def is_inspect_log(content: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a log of inspect_ai."""
    return isinstance(content.get("eval"), dict) and isinstance(content.get("samples"), list)


def inspect_answer(sample: Any) -> dict[str, Any] | None:
    """The record of a sample of inspect_ai; None without a score; `ValueError` for a damaged one."""
    known, scores = (_objects(sample, name) for name in ("metadata", "scores"))
    if not scores:
        return None
    if "choice" not in scores or not isinstance(scores["choice"], dict):
        raise ValueError(f"its scorers are {', '.join(scores)[:60]}, not `choice`, which logs the chosen letter")
    return _record(known.get("id", sample.get("id")), sample.get("choices"), scores["choice"].get("answer"))


def lm_eval_answer(line: Mapping[str, Any]) -> dict[str, Any] | None:
    """The record of a line of lm-eval's or lmms-eval's samples; None if it is none of these."""
    if isinstance(line.get("vl_assay"), dict):  # of lmms-eval, by the function that the export wrote
        known = line["vl_assay"]
        return _record(known.get("id"), known.get("choices"), known.get("answer"))
    if not isinstance(line.get("doc"), dict) or "filtered_resps" not in line:
        return None
    given = line["filtered_resps"]
    answer = given[0] if isinstance(given, list) and len(given) == 1 else None
    return _record(line["doc"].get("id"), line["doc"].get("choices"), answer)


def read_eval_file(path: Path) -> Iterator[tuple[str, Any]]:
    """The samples of a ``.eval`` file, with their places; `ValueError` for a damaged or too large one."""
    with suppress(ImportError):  # it teaches zipfile the compression of these files
        import_module("zipfile_zstd")
    try:
        with zipfile.ZipFile(path) as archive:
            members = [each for each in archive.infolist() if each.filename.startswith("samples/")]
            if len(members) > _COUNT_LIMIT:
                raise ValueError(f"it has {len(members):,} samples, of at most {_COUNT_LIMIT:,}")
            for member in members:
                yield member.filename, json.loads(_content(archive, member))
    except NotImplementedError as error:
        raise ValueError(
            f"its compression is unknown here ({error}): pip install zipfile-zstd, or turn it into JSON with "
            f"`inspect log convert {path.name} --to json --output-dir FOLDER`"
        ) from error
    except zipfile.BadZipFile as error:
        raise ValueError(str(error)) from error


class Joined:
    """Joins the records of an example's images; incomplete ones stay as they are, with ids that no example has."""

    def __init__(self) -> None:
        self._parts: dict[str, dict[int, tuple[str, dict[str, Any]]]] = {}

    def add(self, place: str, fields: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The record, unless it waits for others; `ValueError` for the second answer about an image."""
        whole, _, image = str(fields["id"]).rpartition("#")
        if not (whole and image.isascii() and image.isdigit() and len(image) < 4):
            yield place, fields
            return
        parts = self._parts.setdefault(whole, {})
        if int(image) in parts:
            raise ValueError(f"{place}: duplicate answer for {fields['id']}, already at {parts[int(image)][0]}")
        parts[int(image)] = place, fields

    def rest(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """What has waited, after the last record."""
        for whole, found in self._parts.items():
            if len(found) > 1 and set(found) == set(range(len(found))):
                yield found[0][0], {"id": whole, "answer": [found[image][1]["answer"] for image in sorted(found)]}
            else:
                yield from found.values()


def _record(own: Any, choices: Any, answer: Any) -> dict[str, Any]:
    """The chosen text, which is None for anything but one letter."""
    letter = answer.strip() if isinstance(answer, str) else ""
    if not isinstance(choices, list) or not all(isinstance(each, str) for each in choices):
        raise ValueError("it has no list of choices; the log must be of what `vl-assay export` wrote")
    place = ascii_uppercase.find(letter) if len(letter) == 1 else -1
    return {"id": own, "answer": choices[place] if 0 <= place < len(choices) else None}


def _objects(sample: Any, name: str) -> dict[str, Any]:
    found = sample.get(name) if isinstance(sample, dict) else None
    if not isinstance(found, dict | None):
        raise ValueError(f"the {name} of a sample is not an object")
    return found or {}


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    found = bytearray()
    with archive.open(member) as file:
        while part := file.read(_READ):
            found += part
            if len(found) > _SAMPLE_LIMIT:
                raise ValueError(f"{member.filename} is larger than {_SAMPLE_LIMIT:,} bytes")
    return bytes(found)
