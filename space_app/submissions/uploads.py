"""Validation of uploaded predictions: file, metadata, and every row against the dataset.

No results are computed here, and uploads are opened only in the sandbox.
"""

from __future__ import annotations

import json
import os
import re
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import comb
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ...hub_datasets import load_examples
from ...hub_datasets.core.benchmarks import benchmark_names, get_benchmark, get_task
from ...hub_datasets.core.build import sources_folder
from ...metrics.common.errors import PredictionsError, SubmissionError, UnknownNameError, VLAssayError
from ...metrics.records.predictions import check_format
from .sandbox import Footer, Sandbox, readable

if TYPE_CHECKING:
    from ...hub_datasets import Example, TaskData
    from ...metrics.records.predictions import Predictions
    from ...metrics.records.schema import Row

SANDBOX = Sandbox()
# The default of the detectors here; as Python objects boxes take much memory.
MOST_BOXES = 100
MEGABYTE = 1 << 20
# Files of a submission, and how many times as large as one may be they may be together.
MOST_FILES, MOST_TOTAL = 50, 2
_MOST_TEXT = 1000
_DEEPEST = 8
_IMAGE_KEY = re.compile(r"[0-9a-f]{32}|file:.{1,300}")
# Overhead of a row, its caption's key included, and of an image, and slack for what the writer adds.
_ROW_BYTES, _IMAGE_BYTES, _SPARE_BYTES = 260, 320, 4 * MEGABYTE
_loading = threading.Lock()


def check_files(paths: Sequence[Path]) -> None:
    """Check uploaded files by name, number and size, before any file is read.

    Raises:
        SubmissionError: there are too many files, they are too large together, or a file occurs twice.
        PredictionsError: a file is too large.
    """
    check_count(len(paths))
    if len({path.resolve() for path in paths}) < len(paths):
        raise SubmissionError("the submission names one uploaded file several times; name each once")
    sizes = [path.stat().st_size for path in paths]
    for path, size in zip(paths, sizes, strict=True):
        _check_size(size, path.name)
    if sum(sizes) > most_bytes():
        raise SubmissionError(
            f"the files have {sum(sizes) / MEGABYTE:,.1f} MB together; those of a submission may have "
            f"{most_bytes() / MEGABYTE:,.0f} MB. Submit some of the tasks first, and the others then"
        )


def check_count(count: int) -> None:
    """Raise a `SubmissionError` unless a submission may have this number of files."""
    if not 1 <= count <= MOST_FILES:
        raise SubmissionError(f"got {count} predictions files; a submission has 1 to {MOST_FILES}")


def upload_limit() -> int:
    """Return the maximum bytes of a predictions file: ``VL_ASSAY_UPLOAD_LIMIT`` in megabytes."""
    return positive_setting("VL_ASSAY_UPLOAD_LIMIT", 64) * MEGABYTE


def most_bytes() -> int:
    """Return the maximum total bytes of the files of a submission."""
    return MOST_TOTAL * upload_limit()


def check_upload(content: bytes, name: str = "") -> Predictions:
    """Read uploaded predictions and validate them against the examples of their task.

    Args:
        content: the file.
        name: the user's name for it, used in messages only.

    Returns:
        The predictions. Apart from scores, boxes and image keys they equal the dataset.

    Raises:
        PredictionsError: the file is too large, damaged, of an unknown task, made with other data, or incomplete.
    """
    label = readable(PurePosixPath(name.replace("\\", "/")).name, 80) or "the predictions file"
    _check_bytes(content, label)
    footer = SANDBOX.footer(content, label)
    metadata = _metadata(footer, label)
    check_format(metadata, label)
    data = expected(metadata, label)
    most_rows, most_size = len(data.examples), _most_size(data)
    # What the file declares is checked before it is read, and counted again while it is read.
    if footer.rows != most_rows or not 0 <= footer.size <= most_size:
        raise PredictionsError(
            f"{label} declares {footer.rows:,} rows and {footer.size:,} bytes; expected {most_rows:,} rows, "
            f"each example once, and at most {most_size:,} bytes. Score the whole task with `vl-assay predict`"
        )
    predictions = SANDBOX.read(content, label, most_rows=most_rows, most_bytes=most_size)
    # A Parquet file may hold metadata twice, in its footer and with the schema of its columns.
    if predictions.metadata != metadata:
        raise PredictionsError(f"{label} has two different `vl_assay` metadata; upload the file of `vl-assay predict`")
    _check_benchmark(predictions, data, label)
    _check_rows(predictions, data, label)
    return predictions


def with_known_images(predictions: Predictions, data: TaskData) -> Predictions:
    """Replace the image keys of predictions, by which rows are clustered, by the benchmark's keys.

    Args:
        predictions: as `check_upload` returned them.
        data: the examples of their task.

    Returns:
        `predictions` if their keys are the same. A missing image stays missing, and an image that the benchmark's data
        do not identify belongs to its example only.
    """
    known = {
        example.id: [key or f"file:{example.id}#{number}" for number, key in enumerate(example.images)]
        for example in data.examples
    }
    rows = [
        replace(row, images=[ours if theirs else "" for ours, theirs in zip(known[row.id], row.images, strict=True)])
        for row in predictions.rows
    ]
    is_same = [row.images for row in rows] == [row.images for row in predictions.rows]
    return predictions if is_same else replace(predictions, rows=rows)


def expected(metadata: Mapping[str, Any], label: str = "the predictions file") -> TaskData:
    """Return the data of the task that a predictions file's metadata name, see `known_examples`.

    Raises:
        PredictionsError: there is no such task, its task type is another, or its data are not on this server.
    """
    section = metadata.get("benchmark")
    section = section if isinstance(section, dict) else {}
    name, task_name, task_type = section.get("name"), section.get("task"), metadata.get("task_type")
    try:
        task = get_task(str(name), str(task_name))
    except UnknownNameError as error:
        raise PredictionsError(
            f"{label}: {readable(str(error), 400)}; choose a task that `vl-assay list` shows"
        ) from None
    if task_type != task.task_type:
        raise PredictionsError(
            f"{label} has predictions of the type {_shown(task_type)}, but the task {name}/{task_name} is of the type "
            f"{task.task_type}; score it again with `vl-assay predict`"
        )
    configs = section.get("configs")
    if configs == list(task.configs):
        reference = task.name
    elif isinstance(configs, list) and len(configs) == 1 and configs[0] in task.configs:
        reference = configs[0]
    else:
        raise PredictionsError(
            f"{label} has the configurations {_shown(configs)}; predictions of {name}/{task_name} have "
            f"all of {', '.join(task.configs)}, or one of them"
        )
    try:
        data = known_examples(f"{name}/{reference}")
    except (VLAssayError, OSError) as error:
        raise PredictionsError(
            f"{label} cannot be checked: the data of {name}/{reference} are not on this server "
            f"({readable(str(error), 300)}). Submit it where they are, or ask the maintainers to put them there"
        ) from error
    if data.task.name != task.name:
        raise PredictionsError(
            f"{label} has only {reference}, which is another task too; score all of {name}/{task_name}"
        )
    return data


def known_examples(reference: str) -> TaskData:
    """Return the examples of a task or configuration, without their images, as `prepare` built them; kept in memory.

    Raises:
        UnknownNameError, DataError: as `load_examples`; nothing is downloaded or built for a visitor's request.
    """
    with _loading:
        return _load(reference, os.environ.get("VL_ASSAY_CACHE"), os.environ.get("VL_ASSAY_DATA_DIR"))


def prepare() -> None:
    """Build the datasets that uploads are compared with, and warn of datasets that cannot be built.

    These are the generated datasets, the datasets with a folder of sources in ``VL_ASSAY_DATA_DIR``, and the datasets
    that ``VL_ASSAY_BENCHMARKS`` names, separated by spaces, which are downloaded.
    """
    requested = set(os.environ.get("VL_ASSAY_BENCHMARKS", "").split())
    for name in requested.difference(benchmark_names()):
        warnings.warn(str(UnknownNameError("benchmark in VL_ASSAY_BENCHMARKS", name, benchmark_names())), stacklevel=2)
    for name in benchmark_names():
        benchmark = get_benchmark(name)
        has_sources = name in requested or sources_folder(name, None) is not None
        for task in benchmark.tasks:
            if not (has_sources or not benchmark.source or set(task.configs) <= set(benchmark.generated)):
                continue
            try:
                load_examples(f"{name}/{task.name}", needs_images=False)
            except (VLAssayError, OSError) as error:
                warnings.warn(f"predictions of {name}/{task.name} cannot be submitted: {error}", stacklevel=2)


@lru_cache(maxsize=64)
def _load(reference: str, *_: str | None) -> TaskData:
    """Return the data of a task; cached by the task and by the environment variables that locate the data."""
    return load_examples(reference, needs_images=False, may_build=False)[0]


def positive_setting(name: str, default: int) -> int:
    """Return a positive integer from an environment variable.

    Raises:
        VLAssayError: it has another value.
    """
    text = os.environ.get(name, str(default))
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 10**9):
        raise VLAssayError(f"the environment variable {name} is {text[:50]!r}; give a whole number from 1")
    return int(text)


def check_text(value: Any, subject: str, most: int = 200) -> str:
    """Return an untrusted text, stripped.

    Raises:
        PredictionsError: it is not text, too long, or not printable.
    """
    if not isinstance(value, str) or not value.isprintable() or len(value) > most:
        raise PredictionsError(f"{subject} is {_shown(value)}; give at most {most:,} printable characters on one line")
    return value.strip()


def check_link(value: Any, subject: str) -> str:
    """Return an untrusted web address, or "".

    Raises:
        PredictionsError: it is neither a web address nor empty.
    """
    link = check_text(value, subject, 300)
    try:
        parts = urlsplit(link)
        is_link = parts.scheme in ("http", "https") and bool(parts.hostname) and not re.search(r"[\s\"'<>`\\]", link)
    except ValueError:
        is_link = False
    if link and not is_link:
        raise PredictionsError(f"{subject} is {_shown(link)}; give an address that begins with https:// or http://")
    return link


def _shown(value: Any) -> str:
    return readable(repr(value)[:200], 80)


def _check_bytes(content: bytes, label: str) -> None:
    _check_size(len(content), label)
    if len(content) < 12 or content[:4] != b"PAR1" or content[-4:] != b"PAR1":
        raise PredictionsError(
            f"{label} is not a Parquet file, or was cut off: it has {len(content):,} bytes and does not begin and end "
            "with PAR1. Upload the .parquet file that `vl-assay predict` wrote"
        )


def _check_size(size: int, label: str) -> None:
    if size > upload_limit():
        raise PredictionsError(
            f"{label} has {size / MEGABYTE:,.1f} MB; a predictions file may have {upload_limit() / MEGABYTE:,.0f} MB. "
            "For detectors set max_boxes to a lower number"
        )


def _metadata(footer: Footer, label: str) -> dict[str, Any]:
    try:
        metadata = json.loads(footer.metadata)
    except (ValueError, RecursionError):
        metadata = None
    if not isinstance(metadata, dict):
        raise PredictionsError(f"{label} is not a predictions file: its `vl_assay` metadata are no JSON object")
    for problem in _problems(metadata, "the metadata"):
        raise PredictionsError(f"{label}: {problem}")
    model = metadata.get("model")
    model = model if isinstance(model, dict) else {"name": ""}
    for key in ("name", "family", "checkpoint", "revision", "dtype"):
        if not check_text(model.get(key, "unknown"), f"{label}: model.{key}"):
            raise PredictionsError(f"{label}: model.{key} in the metadata is empty; name the model of the predictions")
    for key in ("link", "url"):
        check_link(model.get(key, ""), f"{label}: model.{key}")
    parameters = model.get("parameters", 0)
    if not isinstance(parameters, int) or isinstance(parameters, bool) or parameters < 0:
        raise PredictionsError(f"{label}: model.parameters is {_shown(parameters)}; give a number of parameters, or 0")
    return metadata


def _problems(value: Any, where: str, depth: int = 0) -> Iterator[str]:
    """Yield a message for each value in untrusted metadata that should not be stored or shown."""
    if depth > _DEEPEST:
        yield f"{where[:200]} is nested more than {_DEEPEST} levels deep; predictions are flatter"
    elif isinstance(value, str) and not (value.isprintable() and len(value) <= _MOST_TEXT):
        yield f"{where} is {_shown(value)}; a text has at most {_MOST_TEXT:,} printable characters"
    elif isinstance(value, int | float) and not abs(value) < 2**63:
        yield f"{where} is {_shown(value)}; a number is finite and below 2^63"
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _problems(key, f"a name in {where}", depth)
            yield from _problems(inner, f"{where}: {readable(key, 40)}", depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _problems(inner, where, depth + 1)


def _most_size(data: TaskData) -> int:
    """Return a generous bound on the memory that the columns of a predictions file take."""
    columns = len(data.candidates) or sum(len(example.captions) for example in data.examples)
    total = _SPARE_BYTES
    for example in data.examples:
        texts = [example.id, example.config, example.category, example.cluster or "", example.pair, *example.tags]
        texts += [phrase.text for phrase in example.phrases]
        if data.task.task_type == "matching":
            count = len(example.images) * (len(example.captions) + 2)
        elif data.task.task_type == "text_similarity":
            count = comb(len(example.captions), 2) + 2
        elif data.task.task_type == "retrieval":
            count = columns + len(example.captions)
        else:
            texts.append(example.captions[0])
            count = 6 * sum(MOST_BOXES + len(phrase.boxes) + 2 for phrase in example.phrases)
        total += _ROW_BYTES + _IMAGE_BYTES * len(example.images) + 8 * count
        total += 4 * sum(len(text) + 4 for text in texts)
    return total


def _check_benchmark(predictions: Predictions, data: TaskData, label: str) -> None:
    section, name = predictions.metadata["benchmark"], f"{data.benchmark}/{data.task.name}"
    ours = {"split": data.split, "fingerprint": data.fingerprint, "metrics": json.loads(json.dumps(data.task.metrics))}
    ours["limit"] = None
    for key, value in ours.items():
        if section.get(key) != value:
            raise PredictionsError(
                f"{label} was made with other data or metrics: its {key} is {_shown(section.get(key))}, that of {name} "
                f"on this server {value!r}. Score the task again with the published dataset and this version of "
                "vl-assay"
            )
    lacking = sorted(row.id for row in predictions.rows if "" in row.images)
    if not all(isinstance(id, str) for id in section["missing"]) or sorted(section["missing"]) != lacking:
        raise PredictionsError(
            f"{label}: its metadata name {len(section['missing']):,} examples without an image, its rows are "
            f"{len(lacking):,}; both must be the same"
        )
    if not any(row.is_scored for row in predictions.rows):
        raise PredictionsError(f"{label} holds no scores: all images are missing; see the benchmark's card for images")


def _check_rows(predictions: Predictions, data: TaskData, label: str) -> None:
    by_id = {row.id: row for row in predictions.rows}
    lacking = [example.id for example in data.examples if example.id not in by_id]
    if lacking:
        strange = by_id.keys() - {example.id for example in data.examples}
        raise PredictionsError(
            f"{label} lacks {len(lacking):,} of the {len(data.examples):,} examples, such as {_shown(lacking[0])}, and "
            f"has {len(strange):,} unknown ones{f', such as {_shown(min(strange))}' if strange else ''}; each example "
            "is there once"
        )
    rows = [by_id[example.id] for example in data.examples]
    correct, columns = _retrieval_set(data, rows) if data.task.task_type == "retrieval" else ({}, 0)
    for example, row in zip(data.examples, rows, strict=True):
        for problem in _row_problems(example, row, correct, columns):
            raise PredictionsError(f"{label}: the example {_shown(row.id)}: {problem}")


def _row_problems(example: Example, row: Any, correct: Mapping[str, list[int]], columns: int) -> Iterator[str]:
    """Yield messages on columns whose values differ from the dataset, and on scores and images of another shape."""
    ours = example.facts() | {"images": row.images}
    if row.task_type in ("matching", "text_similarity"):
        ours["correct"] = example.correct
    elif row.task_type == "retrieval":
        ours["correct"] = correct.get(example.id, [])
    elif row.task_type == "vqa":
        ours |= {"question": example.captions[0], "correct": example.answer}
    else:
        phrases = [{"text": phrase.text, "start": phrase.start, "end": phrase.end} for phrase in example.phrases]
        truth = [[list(box) for box in phrase.boxes] for phrase in example.phrases]
        ours |= {"positive": example.positive, "pair": example.pair, "phrases": phrases, "truth": truth}
    for name, value in ours.items():
        if getattr(row, name) != value:
            yield f"its {name} is {_shown(getattr(row, name))}, in the dataset {_shown(value)}; leave it unchanged"
    count = len(example.captions)
    if not row.is_scored:
        pass
    elif row.task_type == "matching" and len(row.scores[0]) != count:
        yield f"{len(row.scores[0])} scores of an image; it has {count} captions, each with a score"
    elif row.task_type == "text_similarity" and len(row.scores[0]) != comb(count, 2):
        yield f"{len(row.scores[0])} scores; its {count} captions are scored in pairs, each pair once"
    elif row.task_type == "retrieval" and len(row.scores) != columns:
        yield f"{len(row.scores):,} scores; the set has {columns:,} different captions, each with a score"
    elif row.task_type == "detection" and any(len(boxes) > MOST_BOXES for boxes in row.scores):
        yield f"more than {MOST_BOXES} boxes for a phrase; set max_boxes to {MOST_BOXES} or fewer"
    if len(row.images) != len(example.images):
        yield f"{len(row.images)} images; it has {len(example.images)}"
    for key in row.images:
        if key and not _IMAGE_KEY.fullmatch(key):
            yield f"the image key {_shown(key)}; a key has 32 hexadecimal digits"


def _retrieval_set(data: TaskData, rows: Sequence[Row]) -> tuple[dict[str, list[int]], int]:
    """Return for each scored example of a retrieval set its image's caption columns, and the number of columns."""
    columns: dict[str, int] = {name: column for column, name in enumerate(data.candidates)}
    of_image: dict[str, list[int]] = {}
    scored = [example for example, row in zip(data.examples, rows, strict=True) if row.is_scored]
    if data.candidates:  # an image has the class of its row alone
        return {example.id: [columns[example.captions[0]]] for example in scored}, len(columns)
    for example in scored:
        own_columns = [columns.setdefault(text, len(columns)) for text in example.captions]
        key = example.images[0] or example.id
        of_image[key] = list(dict.fromkeys([*of_image.get(key, ()), *own_columns]))
    return {example.id: of_image[example.images[0] or example.id] for example in scored}, len(columns)
