"""From a dataset repository to examples that can be scored: ids, captions, and images known by their content."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..metrics.errors import DataError, UnknownNameError, VLAssayError
from .benchmarks import Task, benchmark_names, code_hash, get_benchmark, option_names, split_reference
from .repository import build, data_errors, read_build

MISSING = ""
_WRITTEN_HERE = {"results.json", "report.md", "report.tex", "profile.png", "profile.html", "build.json"}


@dataclass(frozen=True)
class Example:
    """One thing to score: every caption against every image; caption number i belongs to image number i.

    `images` holds content keys (SHA-256 of the file's bytes, 32 hexadecimal digits), `MISSING` where the dataset has
    no image.
    """

    id: str
    config: str
    category: str
    images: tuple[str, ...]
    captions: tuple[str, ...]


@dataclass
class TaskData:
    """The examples of one task of one benchmark, and access to their images."""

    benchmark: str
    task: Task
    configs: tuple[str, ...]
    split: str
    examples: list[Example] = field(default_factory=list)
    image_names: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    _places: dict[str, tuple[Any, int, str]] = field(default_factory=dict, repr=False)
    _digest: Any = field(default_factory=hashlib.sha256, repr=False)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over ids, categories, captions and image names: what was asked, whatever drew the pixels."""
        return self._digest.hexdigest()

    def image_bytes(self, key: str) -> bytes:
        """The file of the image with that content key."""
        dataset, row, column = self._places[key]
        return dataset[row][column]["bytes"]

    def add_config(self, config: str, dataset: Any) -> None:
        """Take in the rows of one configuration; images are read once, hashed and let go."""
        import datasets

        task = self.task
        lacking = [column for column in (*_text_columns(task), *task.images) if column not in dataset.features]
        if lacking:
            raise DataError(
                f"{self.benchmark}/{config} has no column {lacking[0]!r}, which the task {task.name} scores; it has "
                f"{', '.join(dataset.features)}. Was it built without images?"
            )
        text = dataset.select_columns(_text_columns(task)).to_dict()
        images = dataset.select_columns(list(task.images))
        for column in task.images:
            images = images.cast_column(column, datasets.Image(decode=False))
        for row, files in enumerate(_iterate(images)):
            names = [_name(files[column]) for column in task.images]
            keys = [self._place(images, row, column, files[column]) for column in task.images]
            example = Example(
                id=text["id"][row],
                config=config,
                category=config if task.category is None else text[task.category][row],
                images=tuple(keys),
                captions=tuple(_captions(text, task, row)),
            )
            self.examples.append(example)
            if MISSING in keys:
                self.missing.append(example.id)
            line = [example.id, example.config, example.category, example.captions, names]
            self._digest.update(json.dumps(line, ensure_ascii=False).encode() + b"\n")

    def _place(self, images: Any, row: int, column: str, file: Mapping[str, Any] | None) -> str:
        if file is None or file["bytes"] is None:
            return MISSING
        key = hashlib.sha256(file["bytes"]).hexdigest()[:32]
        if key not in self._places:
            self._places[key] = (images, row, column)
            self.image_names[key] = _name(file)
        return key


def load_examples(
    reference: str,
    *,
    data_dir: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> list[TaskData]:
    """The tasks that `reference` names, built first where that is needed, one `TaskData` each.

    Args:
        reference: a benchmark (``"sugarcrepe"``), a part of one (``"sugarcrepe/swap_obj"``: a task or a
            configuration), or the folder of a dataset repository that `build` wrote.
        data_dir: the user's own copy of the sources, see the benchmark's card.
        options: fields of the builder's configuration, such as ``{"allow_missing": True}``.

    Raises:
        UnknownNameError: no such benchmark or part; the message lists the known ones.
        DataError: the data are missing or damaged.
    """
    if _is_folder(reference):
        return _load_folder(Path(reference).expanduser())
    name, part = split_reference(reference, benchmark_names())
    benchmark = get_benchmark(name)
    options = {**benchmark.scoring_options, **_applicable(name, options or {})}
    tasks = []
    for task, configs in benchmark.select(name, part):
        data = TaskData(name, task, configs, benchmark.split)
        for config in configs:
            data.add_config(config, _open(cached_build(name, config, data_dir, options), config, benchmark.split))
        tasks.append(data)
    return tasks


def check_reference(reference: str) -> None:
    """Raise `UnknownNameError` at once where `load_examples` would, before anything is downloaded or built."""
    if not _is_folder(reference):
        name, part = split_reference(reference, benchmark_names())
        get_benchmark(name).select(name, part)


def _is_folder(reference: str) -> bool:
    """Whether a reference means a folder; "./sugarcrepe" does, "sugarcrepe" means the benchmark."""
    if reference.partition("/")[0] in benchmark_names():
        return False
    if Path(reference).expanduser().is_dir():
        return True
    if reference.startswith((".", "/", "~")):
        raise DataError(f"there is no folder {reference}; name one that `vl-assay build` wrote, or a benchmark")
    return False


def cached_build(name: str, config: str, data_dir: str | Path | None, options: Mapping[str, Any]) -> Path:
    """The repository of one configuration in the user's cache, built now where it is not there yet.

    Its place depends on the builder's code, the options and the files of `data_dir` (name, size, time), so that a
    changed source is built anew.
    """
    key = [code_hash(name), config, dict(sorted(options.items())), _listing(data_dir)]
    digest = hashlib.sha256(json.dumps(key, default=str).encode()).hexdigest()[:16]
    folder = cache_folder() / "datasets" / name / f"{config}-{digest}"
    if not folder.exists():
        try:
            build(name, folder, configs=[config], data_dir=data_dir, options=options)
        except VLAssayError:
            if not folder.exists():  # else another process has built it meanwhile
                raise
    return folder


def cache_folder() -> Path:
    """Where built datasets are kept: ``VL_ASSAY_CACHE``, by default ``vl_assay`` in the Hugging Face home."""
    from huggingface_hub.constants import HF_HOME

    return Path(os.environ.get("VL_ASSAY_CACHE", Path(HF_HOME) / "vl_assay")).expanduser()


def _applicable(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options without ``allow_missing`` for a benchmark whose images cannot be missing."""
    return {key: value for key, value in options.items() if key != "allow_missing" or key in option_names(name)}


def _load_folder(folder: Path) -> list[TaskData]:
    record = read_build(folder)
    name = record["benchmark"]
    if name not in benchmark_names():
        raise UnknownNameError("benchmark", name, benchmark_names())
    benchmark = get_benchmark(name)
    tasks = []
    for task in benchmark.tasks:
        configs = tuple(config for config in task.configs if config in record["configs"])
        if configs and (task.by_default or not tasks):
            data = TaskData(name, task, configs, benchmark.split)
            for config in configs:
                data.add_config(config, _open(folder, config, benchmark.split))
            tasks.append(data)
    if not tasks:
        raise DataError(f"{folder} holds no configuration of {name} that can be scored")
    return tasks


def _open(folder: Path, config: str, split: str) -> Any:
    import datasets

    with data_errors(f"{folder} cannot be read; remove it to have it built again"):
        return datasets.load_dataset(str(folder), config, split=split)


def _listing(data_dir: str | Path | None) -> list[tuple[str, int, int]]:
    """Name, size and time of the files of `data_dir`, without what this package itself writes."""
    if data_dir is None:
        return []
    root = Path(data_dir).expanduser()
    if not root.is_dir():
        raise DataError(f"the data folder {data_dir} is not there, or is not a folder")
    found = []
    for path in root.rglob("*"):
        ours = path.name in _WRITTEN_HERE or path.suffix == ".parquet" or ".unfinished" in path.parts
        if not ours and path.is_file():
            status = path.stat()
            found.append((str(path), status.st_size, status.st_mtime_ns))
    return sorted(found)


def _text_columns(task: Task) -> list[str]:
    return ["id", *task.captions, *([task.category] if task.category else [])]


def _captions(text: Mapping[str, list[Any]], task: Task, row: int) -> Iterator[str]:
    for column in task.captions:
        value = text[column][row]
        yield from [value] if isinstance(value, str) else value


def _name(file: Mapping[str, Any] | None) -> str:
    return Path(file["path"] or "").name if file else MISSING


def _iterate(images: Any) -> Iterator[dict[str, Any]]:
    for table in images.with_format("arrow").iter(batch_size=200):
        yield from table.to_pylist()
