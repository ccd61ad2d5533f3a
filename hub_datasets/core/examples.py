"""Load examples to score from a dataset repository: ids, captions, and images identified by their content."""

from __future__ import annotations

import dataclasses
import glob
import hashlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

from ...metrics.common.errors import DataError
from ...metrics.common.storage import readable, with_home, writable_cache
from ...metrics.records.predictions import is_predictions
from ...metrics.records.schema import caption_key
from .benchmarks import (
    TASK_TYPES,
    Task,
    adopt,
    benchmark_names,
    code_hash,
    get_benchmark,
    get_builder,
    option_names,
    split_reference,
)
from .build import build, built_files, data_errors, existing_folder, remember_sources, sources_folder
from .image_keys import MISSING, NO_IMAGE, ImageKey, content_key, image_keys
from .repository import BUILD_FILE, cache_folder, read_build, shipped_build

# Files that this package or a system writes into folders, besides predictions and builds: no builder reads them.
_NEVER_READ = {
    *("results.json", "report.md", "report.tex"),
    *("profile.png", "profile.svg", "profile.pdf", "profile.html"),
    *("comparison.json", "comparison.md", "Thumbs.db", "desktop.ini"),
}


@dataclass(frozen=True)
class Phrase:
    """A phrase, characters `start` to `end` of a caption, and its ground-truth boxes (x1, y1, x2, y2, in pixels).

    Its `number` is the dataset's `phrase_id`, if there is one.
    """

    text: str
    start: int
    end: int
    boxes: tuple[tuple[float, float, float, float], ...] = ()
    number: int | None = None


@dataclass(frozen=True)
class Example:
    """One example of a task of any type.

    Args:
        id, config, category: as in the dataset.
        images: content keys (SHA-256 of the file's bytes, 32 hexadecimal digits); `MISSING` for a missing image;
            ``"file:"`` and its name for one that was not needed. Text similarity has none.
        captions: matching: caption number i is the positive caption of image number i; text similarity: those to
            compare, of which the first two mean the same; retrieval: all positive captions of the only image;
            detection: the caption of the phrases; vqa: the question.
        tags, cluster: see ``Task``.
        phrases, positive, pair: detection: the phrases to find, whether the caption is true of the image, and an id
            that the rows of one caption share.
        answer: vqa: whether the label is yes.
    """

    id: str
    config: str
    category: str
    images: tuple[str, ...]
    captions: tuple[str, ...]
    tags: tuple[str, ...] = ()
    cluster: str | None = None
    phrases: tuple[Phrase, ...] = ()
    positive: bool = True
    pair: str = ""
    answer: bool = True

    @property
    def correct(self) -> list[int]:
        """Matching: the number of each image's positive caption; of several images with one caption, the first's.

        Text similarity: the number of the pair of captions that mean the same, the first.
        """
        return list(range(min(max(len(self.images), 1), len(self.captions))))

    def facts(self) -> dict[str, Any]:
        """Return the fields of an example that predictions of all task types contain."""
        return {
            "id": self.id,
            "config": self.config,
            "category": self.category,
            "images": list(self.images),
            "tags": list(self.tags),
            "cluster": self.cluster,
            "caption_key": caption_key(self.captions[0]),
        }


@dataclass
class TaskData:
    """The examples of one task of one benchmark, and access to their images.

    Without `needs_images` those that are not here are known by the dataset's `filename` columns. `options` are the
    fields of the builder's configuration that the dataset was built with, such as its seed. With a `limit` only so many
    examples are there, as evenly from the configurations as it allows, of each the first, and what shares a pair with
    them; `is_partial` where there were more. `hub` has the `repo` and `revision` of a dataset that was downloaded from
    the Hub. `candidates` are the captions of a retrieval set that its examples do not name, each with the prompts that
    are averaged to score it: the classes of `Task.label`.
    """

    benchmark: str
    task: Task
    configs: tuple[str, ...]
    split: str
    needs_images: bool = True
    options: dict[str, Any] = field(default_factory=dict)
    limit: int | None = None
    is_partial: bool = False
    hub: dict[str, str] = field(default_factory=dict)
    examples: list[Example] = field(default_factory=list)
    candidates: dict[str, tuple[str, ...]] = field(default_factory=dict)
    image_names: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    _places: dict[str, tuple[Any, int, str]] = field(default_factory=dict, repr=False)
    _digest: Any = field(default_factory=hashlib.sha256, repr=False)

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 of ids, categories, captions and image names, independent of the pixels."""
        return self._digest.hexdigest()

    def image_bytes(self, key: str) -> bytes:
        """Return the bytes of the image file with that content key.

        Raises:
            DataError: the dataset's files have changed since its keys were taken.
        """
        dataset, row, column = self._places[key]
        content = dataset[row][column]["bytes"]
        if content is None or content_key(content) != key:
            raise DataError(
                f"the images of {self.benchmark} have changed since they were listed; remove {_keys_folder()} and run "
                "again"
            )
        return content

    def select(self, part: Task) -> TaskData:
        """Return the examples of a task that is a part of this one."""
        examples = [replace(example, config=part.configs[0]) for example in self.examples if example.id in part.ids]
        return replace(self, task=part, configs=part.configs, examples=examples)

    def add_config(self, config: str, dataset: Any) -> None:
        """Add the rows of one configuration, with `limit` the first of them; its images stay on disk."""
        task = self.task
        # The columns with the names of the images' files, by the columns of the images.
        renamed = {} if self.needs_images else {column: column.replace("image", "filename") for column in task.images}
        renamed = {column: name for column, name in renamed.items() if name in dataset.features}
        present = [column for column in task.images if column in dataset.features or column not in renamed]
        labels = [column for column in (task.category, task.tags, task.cluster) if column]
        asked = _TYPE_COLUMNS.get(task.task_type, ())
        columns = list(dict.fromkeys(["id", *task.captions, *labels, *asked, *renamed.values()]))
        classes = (task.label, "templates") if task.label else ()
        lacking = [column for column in (*columns, *present, *classes) if column not in dataset.features]
        if lacking:
            raise DataError(
                f"{self.benchmark}/{config} has no column {lacking[0]!r}, which the task {task.name} scores; it has "
                f"{', '.join(dataset.features)}. Was it built without images?"
            )
        if task.label:
            templates = dataset.features["templates"].feature.names
            for name in dataset.features[task.label].names:
                self.candidates[name] = tuple(template.replace("{}", name) for template in templates)
            self._digest.update(json.dumps(self.candidates, ensure_ascii=False).encode() + b"\n")
        if self.limit is not None:
            number, count = self.configs.index(config), len(self.configs)
            share = self.limit * (number + 1) // count - self.limit * number // count
            kept = range(min(share, len(dataset)))
            if "pair_id" in asked:  # whole pairs: a caption is scored on all of its images together
                pairs = dataset["pair_id"][:]
                kept_pairs = {pairs[row] for row in kept}
                kept = [row for row, pair in enumerate(pairs) if pair in kept_pairs]
            self.is_partial |= len(kept) < len(dataset)
            dataset = dataset.select(kept)
        rows = dataset.select_columns(columns).to_list()
        images, found = _images(dataset, present)
        for number, (row, files) in enumerate(zip(rows, found, strict=True)):
            by_column = dict(zip(present, files, strict=True))
            for column, name in renamed.items():
                if by_column.get(column, NO_IMAGE) == NO_IMAGE:
                    by_column[column] = ImageKey(f"file:{row[name]}", Path(row[name]).name)
            stored = [by_column[column] for column in task.images]
            keys, names = tuple(image.key for image in stored), [image.name for image in stored]
            for column, key, name in zip(task.images, keys, names, strict=True):
                if key != MISSING:
                    self._places.setdefault(key, (images, number, column))
                    self.image_names.setdefault(key, name)
            example = Example(
                id=row["id"],
                config=config,
                category=config if task.category is None else row[task.category],
                images=keys,
                captions=tuple(_captions(row, task)),
                tags=tuple(row[task.tags]) if task.tags else (),
                cluster=row[task.cluster] if task.cluster else None,
                **_asked(row, task),
            )
            self.examples.append(example)
            if MISSING in keys:
                self.missing.append(example.id)
            line = [*vars(replace(example, images=())).values(), names]
            self._digest.update(json.dumps(line, ensure_ascii=False, default=astuple).encode() + b"\n")


def load_examples(
    reference: str,
    *,
    task_types: Collection[str] = TASK_TYPES,
    data_dir: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    needs_images: bool = True,
    limit: int | None = None,
    may_build: bool = True,
) -> list[TaskData]:
    """Load the tasks that `reference` names, one `TaskData` each; their datasets are built if necessary.

    Args:
        reference: a benchmark (``"sugarcrepe"``), a part of one (``"sugarcrepe/swap_obj"``: a task or a
            configuration), the folder of a benchmark outside the package (see `benchmarks.adopt`), or the folder of a
            dataset repository that `build` wrote.
        task_types: the types of tasks to load if `reference` names a whole benchmark or a folder.
        data_dir: the user's copy of the sources, see the benchmark's card; remembered for later calls without it
            if anything was read there.
        options: fields of the builder's configuration, such as ``{"allow_missing": True}``.
        needs_images: whether the examples need their images; otherwise a build has none by default.
        limit: the number of examples of each task, see ``TaskData``; None for all.
        may_build: whether a dataset that was not built before is downloaded and built; otherwise it is missing.

    Raises:
        UnknownNameError: no such benchmark or part; the message lists the known ones.
        DataError: the data are missing or damaged.
    """
    reference = adopt(reference)
    if _is_folder(reference):
        folder = with_home(reference)
        record = read_build(folder)
        name = record["benchmark"]
        chosen = get_benchmark(name).select_built(record["configs"], task_types)
        if not chosen:
            raise DataError(
                f"{folder} holds no configuration of {name} that can be scored by {' or '.join(task_types)}"
            )
        folders = dict.fromkeys(record["configs"], folder)
        options = record["options"]
    else:
        name, task_name = split_reference(reference)
        chosen = get_benchmark(name).select(name, task_name, task_types)
        needs_images = needs_images and any(task.images for task, _ in chosen)
        options = _build_options(name, options or {}, needs_images)
        sources = sources_folder(name, data_dir)
        split_for = get_benchmark(name).split_for
        folders = {
            config: cached_build(name, config, sources, options, split_for(task), may_build=may_build)
            for task, configs in chosen
            for config in configs
        }
        if data_dir and sources and any(_is_of_copy(folder, config) for config, folder in folders.items()):
            remember_sources(name, sources)
    split_for = get_benchmark(name).split_for
    used = _effective_options(name, options or {})
    tasks = [TaskData(name, task, configs, split_for(task), needs_images, used, limit) for task, configs in chosen]
    for task in tasks:
        task.hub = _hub_revision(folders[task.configs[0]])
        for config in task.configs:
            task.add_config(config, _open(folders[config], config, task.split))
    return tasks


def _is_of_copy(folder: Path, config: str) -> bool:
    """Return whether rows or images of a build are from the user's copy, so that not all of them were downloaded."""
    record = read_build(folder)
    downloaded = " ".join(line.partition(": ")[0] for line in record.get("sources", {}).get(config, ()))
    kinds = 1 + any(counts["images"] for counts in record["configs"][config].values())
    return sum(kind in downloaded for kind in ("rows", "captions", "images")) < kinds


def check_reference(reference: str) -> None:
    """Raise `UnknownNameError` at once where `load_examples` would, before anything is downloaded or built."""
    reference = adopt(reference)
    if not _is_folder(reference):
        name, task_name = split_reference(reference)
        get_benchmark(name).select(name, task_name)


def _is_folder(reference: str) -> bool:
    """Return whether a reference names a folder: "./sugarcrepe" does, "sugarcrepe" names the benchmark."""
    if reference.partition("/")[0] in benchmark_names():
        return False
    if with_home(reference).is_dir():
        return True
    if reference.startswith((".", "/", "~")):
        raise DataError(f"there is no folder {reference}; name one that `vl-assay build` wrote, or a benchmark")
    return False


def cached_build(
    name: str,
    config: str,
    data_dir: str | Path | None,
    options: Mapping[str, Any],
    split: str | None = None,
    *,
    may_build: bool = True,
) -> Path:
    """Return the repository of one configuration, or of one split of it, in the user's cache; build it if needed.

    Its key has the builder's code, the options and the files of `data_dir` (see `listing`), so that a changed source is
    built again. Of several processes one builds it, and the others wait. A build that comes with the package is used
    in its place if it was made by the same code with the same options.

    Raises:
        DataError: it is not there and cannot be built, or must not be (`may_build`).
    """
    from huggingface_hub.utils import WeakFileLock

    folder = build_folder(name, config, data_dir, options, split)
    if not (may_build or folder.exists()):
        raise DataError(f"{name}/{config} was not built here")
    if not folder.exists():
        splits = None if split is None else (split,)
        with data_errors(f"the dataset {folder}"):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with WeakFileLock(folder.with_name(f".{folder.name}.lock")):
                if not folder.exists():  # otherwise another process has built it meanwhile
                    build(name, folder, configs=[config], data_dir=data_dir, options=options, splits=splits)
    return folder


def is_cached(name: str, configs: Collection[str], options: Mapping[str, Any]) -> bool:
    """Return whether configurations were built for scoring, with images, or come with the package."""
    used, split_of = _build_options(name, options, True), get_benchmark(name).split_of
    folder = sources_folder(name, None)
    return all(build_folder(name, config, folder, used, split_of(config)).exists() for config in configs)


def build_folder(
    name: str, config: str, data_dir: str | Path | None, options: Mapping[str, Any], split: str | None
) -> Path:
    """Return the folder in which `cached_build` keeps a configuration, or of the build that comes with the package."""
    [defaults] = [
        builder_config for builder_config in get_builder(name).BUILDER_CONFIGS if builder_config.name == config
    ]
    options = {key: value for key, value in sorted(options.items()) if getattr(defaults, key, None) != value}
    code = code_hash(name)
    shipped = shipped_build(name)
    if shipped is not None and data_dir is None:
        record = read_build(shipped)
        if (record["code"], record["options"]) == (code, options) and split in record["configs"].get(config, ()):
            return shipped
    listed = [] if data_dir is None else listing(existing_folder(data_dir))
    key = [code, config, options, listed, split]
    digest = hashlib.sha256(json.dumps(key, default=str).encode()).hexdigest()[:16]
    path = Path("datasets", name, f"{config}-{digest}")
    folder = cache_folder() / path
    return folder if os.access(folder, os.R_OK) else writable_cache(cache_folder()) / path


def listing(folder: Path) -> list[tuple[str, int, int]]:
    """List name, size and time of all files below a folder that a builder may read.

    Predictions, builds, reports and hidden files are left out.

    Raises:
        DataError: a folder or a Parquet file cannot be read.
    """
    with readable(folder):
        return sorted(_listed(folder))


def _listed(folder: Path) -> Iterator[tuple[str, int, int]]:
    visited = set[str]()
    for root, folders, files in os.walk(folder, followlinks=True, onerror=_raise):
        real = os.path.realpath(root)
        is_build = BUILD_FILE in files and Path(root) != folder
        folders[:] = [name for name in folders if not name.startswith(".") and not is_build and real not in visited]
        visited.add(real)
        for name in files:
            path = Path(root, name)
            if is_build or name in _NEVER_READ or name.startswith(".") or not path.is_file():
                continue
            status = path.stat()
            if path.suffix != ".parquet" or not is_predictions(path):
                yield str(path), status.st_size, status.st_mtime_ns


def _raise(error: OSError) -> None:
    raise error


def _keys_folder() -> Path:
    return cache_folder() / "image-keys"


def _images(dataset: Any, columns: list[str]) -> tuple[Any, list[list[ImageKey]]]:
    """Return the image columns of a dataset, not decoded, and the content keys of their images, row by row."""
    import datasets

    images = dataset.select_columns(["id", *columns])
    for column in columns:
        images = images.cast_column(column, datasets.Image(decode=False))
    files = [Path(file["filename"]) for file in dataset.cache_files]
    identity = [(len(dataset), str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return images, image_keys(images, columns, _keys_folder(), identity)


def _build_options(name: str, options: Mapping[str, Any], needs_images: bool) -> dict[str, Any]:
    """Return the options of a build for scoring, without ``allow_missing`` if the benchmark does not have it."""
    known = option_names(name)
    unread = {} if needs_images or "with_images" not in known else {"with_images": False}
    accepted = {key: value for key, value in options.items() if key != "allow_missing" or key in known}
    return {**get_benchmark(name).scoring_options, **unread, **accepted}


def _effective_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a builder's configuration that determine the rows, with their defaults, as JSON values."""
    fields = dataclasses.fields(get_builder(name).BUILDER_CONFIG_CLASS)
    known = set(option_names(name)) - {"allow_missing", "with_images"}
    defaults = {field_.name: field_.default for field_ in fields if field_.name in known}
    settings = {**defaults, **{key: value for key, value in options.items() if key in known}}
    return {key: value for key, value in sorted(settings.items()) if isinstance(value, str | int | float | bool)}


def _open(folder: Path, config: str, split: str) -> Any:
    import datasets
    from datasets.config import HF_DATASETS_CACHE

    with data_errors(f"{folder} cannot be read; remove it to have it built again"):
        files = built_files(folder, config, split)
        # By their files, whose names have hashes: `datasets` would take another folder of the same name for this one,
        # and run a script in it.
        features = datasets.info.DatasetInfosDict.from_directory(str(folder))[config].features
        names = {split: [glob.escape(str(path)) for path in files]}
        cache = str(writable_cache(HF_DATASETS_CACHE))
        return datasets.load_dataset("parquet", data_files=names, features=features, split=split, cache_dir=cache)


def _hub_revision(folder: Path) -> dict[str, str]:
    """Return the repository and revision of a download by `huggingface_hub`; empty for any other folder."""
    match = re.search(r"/datasets--([^/]+)--([^/]+)/snapshots/([0-9a-f]{40})$", folder.absolute().as_posix())
    return {"repo": f"{match[1]}/{match[2]}", "revision": match[3]} if match else {}


_TYPE_COLUMNS = {"detection": ("phrases", "positive", "pair_id"), "vqa": ("answer",)}


def _captions(row: Mapping[str, Any], task: Task) -> Iterator[str]:
    for column in task.captions:
        value = row[column]
        yield from [value] if isinstance(value, str) else value


def _asked(row: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """Return the fields of an example that only its task type has."""
    if task.task_type == "vqa":
        return {"answer": row["answer"]}
    if task.task_type != "detection":
        return {}
    phrases = [
        Phrase(
            *(phrase["text"], phrase["start"], phrase["end"]),
            tuple((x, y, x + width, y + height) for x, y, width, height in phrase["boxes"]),
            phrase.get("phrase_id"),
        )
        for phrase in row["phrases"]
    ]
    return {"phrases": tuple(phrases), "positive": row["positive"], "pair": row["pair_id"]}
