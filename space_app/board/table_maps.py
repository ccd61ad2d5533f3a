"""Reading a published table, CSV or TSV, with a map that says where on the leaderboard each column belongs.

The map is YAML or JSON:

```yaml
source: "Some paper, arXiv 2406.09388, results.csv of 2024-06-14"   # with its date or revision
unit: percent                     # or fraction: a score of 1 is written as 100 or as 1
model: [arch, pretrained]         # the columns that name a model, joined by a space
family: family                    # columns with facts on it; also parameters and training_data
columns:
  sugarcrepe::swap_obj: {task: sugarcrepe/itm, metric: sugarcrepe_itm, score: accuracy, average: category,
                         category: swap_obj}
  sugarcrepe: {task: sugarcrepe/itm, metric: sugarcrepe_itm, score: accuracy, average: macro, source: Table 2}
  cifar10: {benchmark: CIFAR10, score: accuracy, average: micro}    # of a benchmark that this package lacks
skip: [mnist]                     # columns to leave out
skip_models: [Human]              # rows to leave out
```
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import reprlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ...hub_datasets.core.benchmarks import benchmark_names, get_benchmark, get_task
from ...metrics.common.errors import DataError, SubmissionError, check_known, similar
from ...metrics.modules.discovery import get_spec
from ..submissions.names import check_name, is_same_name
from .entries import Column
from .imports import ImportedTable, Model
from .launch import published, shipped

# Of a table and a map in bytes, then of rows, columns, and characters of a text.
MAX_TABLE, MAX_MAP = 2**24, 2**20
MAX_ROWS, MAX_COLUMNS, MAX_TEXT = 2_000, 500, 200
UNITS = {"percent": 100, "fraction": 1}
AVERAGES = ("micro", "macro", "category")
_FACTS = ("family", "parameters", "training_data")
_KEYS = ("source", "unit", "model", *_FACTS, "columns", "skip", "skip_models")
_COLUMN_KEYS = ("task", "benchmark", "metric", "score", "average", "category", "source")
_NO_VALUE = ("", "-", "–", "—", "n/a", "na", "nan", "none")
_EXAMPLE = "`vl-assay leaderboard import TABLE --template` prints a map to fill in"


@dataclass(frozen=True)
class TableMap:
    """A map of a table, see above; `columns` holds the place and the source of each column."""

    source: str
    unit: str
    model: tuple[str, ...]
    facts: Mapping[str, str]
    columns: Mapping[str, tuple[Column, str]]
    skip: tuple[str, ...]
    skip_models: tuple[str, ...]


@dataclass(frozen=True)
class _Cells:
    """The cells of a file: the names of its columns, and each row by them, with its line."""

    path: Path
    names: list[str]
    rows: list[tuple[int, dict[str, str]]]


def read_table(path: Path, map_path: Path) -> ImportedTable:
    """The values of a published table, placed by a map.

    Args:
        path: CSV, or TSV if it is named so; its first line names the columns.
        map_path: see above.

    Raises:
        DataError: a file is missing, too large or malformed, the map does not cover the table, or a value is no number
            or outside its range; the message names line and column.
        UnknownNameError: the map names a column, task, metric or score that does not exist.
    """
    table = _read_cells(path)
    table_map = read_map(map_path, table.names)
    rows: dict[str, int] = {}
    models, values = [], []
    for line, cells in table.rows:
        place = f"{path}, line {line}"
        name = " ".join(filter(None, (cells[column] for column in table_map.model)))
        if name in table_map.skip_models:
            continue
        if name in rows:
            raise DataError(
                f"{path}: the lines {rows[name]} and {line} are both of {name!r}; correct one, or let `model` in "
                f"{map_path} name more columns, such as [name, weights]"
            )
        rows[name] = line
        facts = {fact: check_text(cells[column], f"{place}, {fact}") for fact, column in table_map.facts.items()}
        models.append(Model(_model_name(name, place, map_path), **facts))
        values.append(
            tuple(
                _value(cells[column], UNITS[table_map.unit], f"{place} ({name}), column {column!r}")
                for column in table_map.columns
            )
        )
    if not any(value is not None for row in values for value in row):
        raise DataError(f"{path} has no value in the columns that {map_path} places")
    if table_map.unit == "percent" and all((value or 0) <= 0.01 for row in values for value in row):
        raise DataError(f"{path}: no value is above 1, while {map_path} says unit: percent; is it fraction?")
    columns, sources = zip(*table_map.columns.values(), strict=True)
    return ImportedTable(table_map.source, tuple(models), columns, sources, tuple(values))


def read_map(path: Path, names: list[str]) -> TableMap:
    """A map for a table with these columns, checked; raises as `read_table`."""
    import yaml

    try:
        found = yaml.safe_load(_read_text(path, MAX_MAP))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DataError(f"{path} is neither YAML nor JSON: {' '.join(str(error).split())[:MAX_TEXT]}") from error
    if not isinstance(found, dict):
        raise DataError(f"{path} has no keys and values; {_EXAMPLE}")
    check_known(f"key in {path}", _texts([*found], f"{path}, a key"), _KEYS)
    for key in ("source", "unit", "model", "columns"):
        if not found.get(key):
            raise DataError(f"{path} does not state {key!r}; {_EXAMPLE}")
    unit = check_text(found["unit"], f"{path}, unit")
    check_known("unit", [unit], UNITS)
    if not isinstance(found["columns"], dict):
        raise DataError(f"{path}: 'columns' must give a place for each column; {_EXAMPLE}")
    model, skip, skip_models = (_texts(found.get(key), f"{path}, {key}") for key in ("model", "skip", "skip_models"))
    facts = {fact: check_text(found[fact], f"{path}, {fact}") for fact in _FACTS if found.get(fact)}
    mapped = [*map(str, found["columns"]), *skip, *model, *facts.values()]
    check_known("column of the table", mapped, names)
    twice = [name for name, count in Counter(mapped).items() if count > 1 and name in map(str, found["columns"])]
    if twice:
        raise DataError(f"{path}: the column {twice[0]!r} is placed and used for something else too; keep one")
    left = [name for name in names if name not in mapped]
    if left:
        raise DataError(
            f"{path} says nothing of {len(left)} columns ({', '.join(left[:3])}{' …' * (len(left) > 3)}); place each "
            "of them in 'columns', or list it in 'skip'"
        )
    columns = {str(name): _place(name, fields, path) for name, fields in found["columns"].items()}
    for heading, count in Counter(column.heading for column, _ in columns.values()).items():
        if count > 1:
            double = [repr(name) for name, (column, _) in columns.items() if column.heading == heading]
            raise DataError(f"{path}: the columns {' and '.join(double)} are both placed at {heading!r}")
    source = check_text(found["source"], f"{path}, source")
    return TableMap(source, unit, model, facts, columns, skip, skip_models)


def template(path: Path) -> str:
    """A map for a table to fill in, as YAML: comments suggest places, other columns are skipped."""
    table = _read_cells(path)
    places = dict(_known_places())
    lines = [
        "# Place each column in `columns`, where suggestions wait to be uncommented, or list it in `skip`.",
        'source: ""  # paper or address, with its date or revision',
        "unit: ''  # percent or fraction",
        f"model: [{json.dumps(table.names[0])}]  # joined by a space; also: family, parameters, training_data",
        "columns:",
        "  # NAME: {task: BENCHMARK/TASK, metric: METRIC, score: SCORE, average: micro, macro or category, …}",
        "  # NAME: {benchmark: ONE THAT IS NOT HERE, score: SCORE, average: micro}",
    ]
    others = []
    for name in table.names[1:]:
        words, quoted = re.sub(r"\W+", " ", name).casefold(), json.dumps(name, ensure_ascii=False)
        of_benchmark = [place for place in places if words.replace(" ", "_").startswith(place.partition(" ")[0])]
        if matches := similar(words, of_benchmark):
            lines.append(f"  # {quoted}: {places[matches[0]]}")
        else:
            others.append(f"  - {quoted}")
    return "\n".join([*lines, "skip:", *others]) + "\n"


def check_text(value: Any, place: str) -> str:
    """A text of one line without signs that cannot be seen, of at most `MAX_TEXT` characters; else `DataError`."""
    if not isinstance(value, str) or not value.isprintable() or len(value) > MAX_TEXT:
        raise DataError(
            f"{place}: {reprlib.repr(value):.80} is no text of at most {MAX_TEXT} printable characters; put numbers in "
            "quotes"
        )
    return value.strip()


def _texts(value: Any, place: str) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value or []
    if not isinstance(values, list):
        raise DataError(f"{place}: {reprlib.repr(value):.80} is no list of names, such as [a, b]")
    return tuple(check_text(each, place) for each in values)


def _place(name: Any, fields: Any, path: Path) -> tuple[Column, str]:
    """Where a column belongs, and its source."""
    place = f"{path}, column {str(name)[:MAX_TEXT]!r}"
    if not isinstance(fields, dict):
        raise DataError(f"{place}: {reprlib.repr(fields):.80} is no place; {_EXAMPLE}")
    check_known(f"key in {place}:", map(str, fields), _COLUMN_KEYS)
    texts = {key: check_text(value, f"{place}, {key}") for key, value in fields.items()}
    missing = [key for key in ("score", "average") if not texts.get(key)]
    if missing or bool(texts.get("task")) == bool(texts.get("benchmark")):
        lacking = missing[0] if missing else "either task or benchmark, and not both"
        raise DataError(f"{place} does not state {lacking}; {_EXAMPLE}")
    check_known("average", [texts["average"]], AVERAGES)
    if (texts["average"] == "category") != bool(texts.get("category")):
        raise DataError(f"{place}: 'category' is stated exactly where the average is 'category'")
    prefix = "macro_" if texts["average"] == "macro" else ""
    score, category, source = prefix + texts["score"], texts.get("category", ""), texts.get("source", "")
    if "benchmark" in texts:
        plain = re.sub(r"[\W_]", "", texts["benchmark"])
        if here := [name for name in benchmark_names() if is_same_name(name.replace("_", ""), plain)]:
            raise DataError(f"{place}: {texts['benchmark']!r} is {here[0]!r}, which is here; give its task")
        if texts.get("metric"):
            raise DataError(f"{place}: no metric here computes {texts['benchmark']!r}; leave 'metric' out")
        return Column(texts["benchmark"], "", "", score, category), source
    benchmark, _, task_name = texts["task"].partition("/")
    task = get_task(benchmark, task_name)
    check_known(f"metric of {texts['task']}", [texts.get("metric", "")], task.metrics)
    spec = get_spec(texts["metric"])
    if texts["score"].startswith("macro_") or spec.score(texts["score"]) is None:
        check_known(f"score of {texts['metric']}", [texts["score"]], [each.name for each in spec.scores])
    if category and (known := _categories(benchmark, task_name)):
        check_known(f"category of {texts['task']}", [category], known)
    return Column(benchmark, task_name, texts["metric"], score, category), source


def _model_name(name: str, place: str, map_path: Path) -> str:
    try:
        check_name(check_text(name, f"{place}, the model's name"))
    except SubmissionError as error:
        raise DataError(f"{place}: {error}, or list it in 'skip_models' of {map_path}") from error
    return name


def _value(cell: str, unit: int, place: str) -> float | None:
    """A fraction; None for an empty cell."""
    if cell.casefold() in _NO_VALUE:
        return None
    try:
        value = math.nan if "_" in cell else float(cell.removesuffix("%") if unit == UNITS["percent"] else cell) / unit
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{place}: {cell!r:.60} is no number; empty cells and - stand for no value")
    if not 0 <= value <= 1:
        raise DataError(f"{place}: {cell} lies outside 0 to {unit}, which is the range of the map's unit")
    return value


def _known_places() -> Iterator[tuple[str, str]]:
    """Readable names of places, such as "sugarcrepe swap_obj", each with its entry in a map."""
    for benchmark in benchmark_names():
        for task in get_benchmark(benchmark).tasks:
            for metric in task.metrics:
                spec = get_spec(metric)
                entry = f"{{task: {benchmark}/{task.name}, metric: {metric}, score: %s, average: %s}}"
                yield f"{benchmark} {task.name}", entry % (spec.main_score, "micro")
                for score in spec.scores:
                    yield f"{benchmark} {score.name}", entry % (score.name, "micro")
                for category in _categories(benchmark, task.name) if len(task.configs) > 1 or task.category else ():
                    yield f"{benchmark} {category}", entry % (spec.main_score, f"category, category: {category}")


@cache
def _categories(benchmark: str, name: str) -> list[str]:
    """The categories of a task as far as they are known without its data: from the papers' and the shipped values."""
    task = get_task(benchmark, name)
    if task.category is None:
        return [*task.configs]
    known = (entry for entry in [*published(), *shipped([])] if (entry.benchmark, entry.task) == (benchmark, name))
    return [*dict.fromkeys(entry.category for entry in known if entry.category)]


def _read_cells(path: Path) -> _Cells:
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    try:
        reader = csv.reader(io.StringIO(_read_text(path, MAX_TABLE), newline=""), delimiter=separator, strict=True)
        # pandas leaves the column of row numbers without a name.
        names = [name.strip() or f"column {number}" for number, name in enumerate(next(reader, []), start=1)]
        lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))]
    except csv.Error as error:
        raise DataError(f"{path} is not a table that can be read: {error}") from error
    if not names or not lines:
        raise DataError(f"{path} has no rows; expected a line with the names of the columns, and one for each model")
    if len(names) > MAX_COLUMNS or len(lines) > MAX_ROWS:
        raise DataError(
            f"{path} has {len(lines):,} rows and {len(names):,} columns; at most {MAX_ROWS:,} and {MAX_COLUMNS:,} are "
            "imported at once: split it"
        )
    for name, count in Counter(names).items():
        check_text(name, f"{path}, the name of a column")
        if count > 1:
            raise DataError(f"{path} has {count} columns with the name {name!r}; rename them")
    for line, row in lines:
        if len(row) != len(names):
            raise DataError(f"{path}, line {line} has {len(row)} cells, and the table {len(names)} columns; correct it")
    return _Cells(path, names, [(line, dict(zip(names, row, strict=True))) for line, row in lines])


def _read_text(path: Path, limit: int) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise DataError(f"{path} cannot be read: {reason}") from error
    if len(content) > limit:
        raise DataError(f"{path} is larger than {limit / 2**20:g} MB")
    return text
