"""Answers in the files of other tools: logs of inspect_ai, samples of lm-eval and lmms-eval, GPT-4V's released answers.

The tools evaluated a dataset that ``vl-assay export`` wrote. A record gets the id that the export gave and the text of
the caption that `chosen_captions` reads in the reply, since the letters of a log follow its own order of the choices.
The answers about the images of one example, with ids that end in ``#0``, ``#1`` …, become one record. A sample without
a score, because of an error or a limit, becomes no record, so that its example has no prediction.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from ...metrics.common.user_files import list_files
from ..serving.replies import chosen_captions

_SAMPLE_LIMIT = 2**26  # bytes of a sample, of which most are its images
_COUNT_LIMIT = 1_000_000
# zipfile expands all that one read takes from the file, and zstd makes 128 KiB of a few bytes.
_READ = 4096
# The field in which SugarCrepe's authors released GPT-4V's answers.
_RELEASED = "multiple_choice_answer"

_Placed = tuple[str, dict[str, Any]]


def orders_of(path: Path) -> list[Path]:
    """Return the folders of GPT-4V's answers, one for each order of the captions, or the path itself if it has none."""
    folders = [folder for folder in list_files(path) if tool_files(folder)]
    return [path] if tool_files(path) or not folders else folders


def tool_files(folder: Path) -> list[Path]:
    """List the files of GPT-4V's answers in a folder, such as ``gpt4v-swap_obj.json``; empty if it is not a folder."""
    return list_files(folder, "*-*.json")


def released_answers(path: Path, content: Mapping[str, Any]) -> Iterator[_Placed] | None:
    """Return the records of a log of inspect_ai, or of GPT-4V's answers to a configuration; None for other content."""
    if isinstance(content.get("eval"), dict) and isinstance(content.get("samples"), list):
        samples = ((f"sample {number}", sample) for number, sample in enumerate(content["samples"], 1))
        return _joined(_inspect_answers(samples))
    # A number beside the answers is a summary: "accuracy".
    answers = {key: value for key, value in content.items() if not isinstance(value, float)}
    config = path.stem.rpartition("-")[2]
    if not answers or not all(isinstance(value, dict) and _is_released(value) for value in answers.values()):
        return None
    return (
        (f"key {key!r}", {"id": f"{config}/{key}", "answer": value["answer"][_RELEASED]})
        for key, value in answers.items()
    )


def tool_answers(source: Path | Iterable[_Placed]) -> Iterator[_Placed]:
    """Return the records of an ``.eval`` file or of JSON lines; records of lm-eval and lmms-eval are converted.

    Raises:
        ValueError: a damaged log; the message names the place.
    """
    return _joined(_inspect_answers(_eval_samples(source)) if isinstance(source, Path) else _lm_eval_answers(source))


def _is_released(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("answer"), dict) and _RELEASED in value["answer"]


def _inspect_answers(samples: Iterable[tuple[str, Any]]) -> Iterator[_Placed]:
    for position, sample in samples:
        known, scores = (_object(position, sample, name) for name in ("metadata", "scores"))
        if not scores:
            continue
        if not isinstance(scores.get("choice"), dict):
            raise ValueError(
                f"{position}: its scorers are {', '.join(scores)[:60]}, not `choice`, which logs the letter"
            )
        answer = scores["choice"].get("answer")
        yield _answer(position, known.get("id", sample.get("id")), sample.get("choices"), answer)


def _lm_eval_answers(lines: Iterable[_Placed]) -> Iterator[_Placed]:
    for position, line in lines:
        known = line.get("vl_assay")
        if isinstance(known, dict):  # of lmms-eval, by the function that the export wrote
            yield _answer(position, known.get("id"), known.get("choices"), known.get("answer"))
        elif isinstance(line.get("doc"), dict) and "resps" in line:
            match line["resps"]:
                case [[str(reply)]]:
                    answer = reply
                case _:  # several replies to a question
                    answer = None
            yield _answer(position, line["doc"].get("id"), line["doc"].get("choices"), answer)
        else:
            yield position, line


def _eval_samples(path: Path) -> Iterator[tuple[str, Any]]:
    with suppress(ImportError):  # it teaches zipfile the compression of these files
        import_module("zipfile_zstd")
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if member.filename.startswith("samples/")]
            if len(members) > _COUNT_LIMIT:
                raise ValueError(f"it has {len(members):,} samples, of at most {_COUNT_LIMIT:,}")
            for member in members:
                yield member.filename, json.loads(_content(archive, member))
    except NotImplementedError as error:
        raise ValueError(
            f"its compression is unknown here ({error}): pip install zipfile-zstd, or turn it into JSON with "
            f"`inspect log convert {path.name} --to json --output-dir FOLDER`"
        ) from error
    except Exception as error:  # of a damaged file each compression raises its own
        raise ValueError(str(error)) from error


def _joined(records: Iterable[_Placed]) -> Iterator[_Placed]:
    """Join the records of an example's images; incomplete records keep their ids, which match no example."""
    parts: dict[str, dict[int, _Placed]] = {}
    for position, fields in records:
        example_id, _, image = str(fields.get("id")).rpartition("#")
        if not (example_id and image.isascii() and image.isdigit() and len(image) < 4):
            yield position, fields
            continue
        images = parts.setdefault(example_id, {})
        if int(image) in images:
            raise ValueError(f"{position}: duplicate answer for {fields['id']}, already at {images[int(image)][0]}")
        images[int(image)] = position, fields
    for example_id, images in parts.items():
        if len(images) > 1 and set(images) == set(range(len(images))):
            answers = [images[image][1].get("answer") for image in sorted(images)]
            yield images[0][0], {"id": example_id, "answer": answers}
        else:
            yield from images.values()


def _answer(position: str, example_id: Any, choices: Any, answer: Any) -> _Placed:
    """Return a record with the chosen text, None if the answer names none."""
    if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
        raise ValueError(f"{position}: it has no list of choices; the log must be of what `vl-assay export` wrote")
    answers = chosen_captions(answer, choices) if isinstance(answer, str) else []
    return position, {"id": example_id, "answer": choices[answers[0]] if answers else None}


def _object(position: str, sample: Any, name: str) -> dict[str, Any]:
    content = sample.get(name) if isinstance(sample, dict) else None
    if not isinstance(content, dict | None):
        raise ValueError(f"{position}: the {name} of a sample is not an object")
    return content or {}


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    content = bytearray()
    with archive.open(member) as file:
        while block := file.read(_READ):
            content += block
            if len(content) > _SAMPLE_LIMIT:
                raise ValueError(f"{member.filename} is larger than {_SAMPLE_LIMIT:,} bytes")
    return bytes(content)
