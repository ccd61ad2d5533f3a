"""Answers in a folder of files, one for each configuration, as GPT-4V's to SugarCrepe were released.

``gpt-4v-results/`` of the authors' repository has the folders ``positive-first`` and ``negative-first``: the order in
which the two captions were shown. A file such as ``gpt4v-swap_obj.json`` has the answers to one configuration by the
key of the example. Either of the two folders can be read, too, or any folder of such files.

With several orders an example scores 1 and 0 where all answers are right, 0 and 1 where all are wrong or choose no
caption, and ties otherwise. So with ``ties="half"`` accuracy is the average over the orders, as in SugarCrepe's Table
6, and with the default an example is right if it is right in every order.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from ...metrics.common.errors import ModelError
from ...metrics.records.predictions import file_hash
from ..engine.plan import ScoringPlan
from ..engine.results import Results
from .reading import Reading, Record, read_records

_SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv")


def orders(folder: Path) -> dict[str, list[Path]]:
    """The files of a folder by order: those of each subfolder that has some, else its own.

    Raises:
        ModelError: there are none.
    """
    parts = {path.name: _files(path) for path in sorted(folder.iterdir()) if path.is_dir()}
    found = {name: files for name, files in parts.items() if files} or {folder.name: _files(folder)}
    if not any(found.values()):
        raise ModelError(f"{folder} has no files with answers ({', '.join(_SUFFIXES)}), nor have its subfolders")
    return found


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES and path.is_file())


def folder_hash(files: Mapping[str, Collection[Path]]) -> str:
    """A hash of all files, with their places."""
    digest = hashlib.sha256()
    for order, paths in files.items():
        for path in paths:
            digest.update(f"{order}/{path.name} {file_hash(path)}\n".encode())
    return digest.hexdigest()


def records(files: Collection[Path], configs: Collection[str]) -> Iterator[Record]:
    """The records of the files that belong to some configurations, their ids with the configuration.

    A value that is no record, such as the `accuracy` that one released file has among its records, is none here.
    """
    for path in files:
        config = config_of(path, configs)
        if config is None:
            continue
        for place, fields in read_records(path):
            if set(fields) == {"id", "answer"} and isinstance(fields["answer"], float):
                continue
            yield Record(f"{path.name}, {place}", {**fields, "id": f"{config}/{fields.get('id')}"})


def config_of(path: Path, configs: Collection[str]) -> str | None:
    """The configuration whose name the file's name ends with, the longest; None for another's file."""
    ends = [config for config in configs if path.stem == config or path.stem.endswith((f"-{config}", f"_{config}"))]
    return max(ends, key=len, default=None)


def combined_results(
    files: Mapping[str, Collection[Path]], name: str, form: str, settings: dict[str, str], plan: ScoringPlan
) -> tuple[Results, dict[str, int]]:
    """The results over all orders, and counts for the metadata.

    Answers to examples that the data lack are counted by configuration: `unknown_answers_…`, and `unknown_right_…`,
    those that chose the caption which their own record calls right.

    Raises:
        ModelError: examples without an answer in some order, or another task than matching with two captions.
    """
    configs = {config for task in plan.tasks for config in task.configs}
    parts: list[Results] = []
    facts: Counter[str] = Counter()
    for order, paths in files.items():
        if not any(config_of(path, configs) for path in paths):
            known = ", ".join(path.name for path in paths)
            raise ModelError(f"no file in {name}/{order} is of {', '.join(sorted(configs))}; there are {known}")
        reading = Reading(f"{name}/{order}", records(paths, configs), form, {**settings, "allow_unknown": "true"}, plan)
        results, found = reading.results()
        parts.append(results)
        facts.update(found)
        for record in reading.unknown:
            config = str(record.fields["id"]).partition("/")[0]
            facts[f"unknown_answers_{config}"] += 1
            facts[f"unknown_right_{config}"] += _is_right(record)
    if len(parts) == 1:
        return parts[0], dict(facts)
    widths = {len(example.captions) for task in plan.tasks for example in task.examples}
    if widths != {2}:
        raise ModelError(f"{name} has {len(files)} orders of two captions each; these examples have others ({widths})")
    # In each order an answer is right or not; one that chooses no caption is not.
    margins = sum(np.where(_is_first(part), 1, -1) for part in parts)
    pairs = np.stack([margins == len(parts), margins == -len(parts)], axis=1).astype(np.float64)
    return replace(parts[0], pairs=pairs.ravel()), dict(facts)


def _is_first(results: Results) -> np.ndarray:
    """Whether the positive caption was chosen, for each example."""
    scores = results.pairs.reshape(-1, 2)
    return scores[:, 0] > scores[:, 1]


def _is_right(record: Record) -> bool:
    answer = record.fields.get("answer")
    chosen = answer.get("multiple_choice_answer") if isinstance(answer, Mapping) else answer
    caption = record.fields.get("caption")
    return isinstance(chosen, str) and isinstance(caption, str) and chosen.strip() == caption.strip()
