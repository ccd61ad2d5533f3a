"""The benchmarks, one folder each, found by listing, and how their rows are scored.

A folder holds ``builder.py`` (a `datasets.GeneratorBasedBuilder`), ``README.md`` (the card) and ``benchmark.py``, whose
constant ``BENCHMARK`` declares the tasks. Benchmarks are not registered anywhere; CONTRIBUTING lists what else a new
one needs for the tests and the documentation.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ...metrics.common.errors import DataError, UnknownNameError, check_known
from ...metrics.common.plugins import plugins
from ...metrics.common.storage import with_home

TASK_TYPES = ("matching", "text_similarity", "retrieval", "detection", "vqa")
# The skills that examples test, with their descriptions; `Task.skills` maps to these.
SKILLS = {
    "object": "an object was added or replaced",
    "attribute": "an attribute was added or replaced",
    "relation": "a relation was replaced, of any kind",
    "spatial": "a spatial relation was replaced",
    "action": "an action was replaced",
    "binding": "attributes, objects or roles were exchanged",
    "order": "the words are in another order",
    "count": "a number was changed",
    "negation": "a negation was added, moved or removed",
    "existence": "something is said to be there, or not to be there",
    "paraphrase": "true captions in other words outscore a false one",
}
_BENCHMARKS = Path(__file__).parents[1]
_PACKAGE = __name__.rpartition(".core.")[0]
_NOT_HASHED = ("README.md", "audit.json", "blind.json")
# A folder with these files is a benchmark.
_NEEDED = ("benchmark.py", "builder.py", "README.md")
# The folders of benchmarks outside the package that this process uses, by name; see `adopt`.
_ADOPTED: dict[str, Path] = {}


@dataclass(frozen=True)
class Task:
    """One way to score configurations of a dataset.

    - ``"matching"``: a row becomes a matrix of scores, `images` × `captions`; a column with a list of captions counts
      as one column per caption. Caption number i is the positive caption of image number i. If a row has several images
      and one caption, the first image is the correct choice.
    - ``"text_similarity"``: without `images`; the captions of a row are scored with each other, each pair once. The
      first two mean the same.
    - ``"retrieval"``: the images of all rows of the only configuration are scored with the captions of all rows; the
      captions of a row are the positives of its image. With `label`, images are scored with all classes.
    - ``"detection"``: a detector predicts boxes for the phrases of the only caption; the dataset has the columns
      `phrases` (text, start, end and boxes as x, y, width, height, of each), `positive` and `pair_id`.
    - ``"vqa"``: the only caption column is a yes-or-no question, and the column `answer` is true for yes.

    Args:
        name: short name; together with the benchmark's it names the predictions file.
        metrics: the metrics that evaluate the scores, each with the settings that belong to the task.
        configs: the dataset configurations that belong to the task, in the order of reports; by default the
            configuration with the task's name.
        images: columns with the images of a row.
        captions: columns with its captions.
        positives: how many captions of a row, from the first, are true of one of its images. The default is the number
            of images, for text similarity 2 (the captions that mean the same), and for the other types None (all). A
            caption of detection is true of the image if the column `positive` is true.
        category: column with the category of a row; None takes the configuration's name.
        task_type: one of `TASK_TYPES`, see above.
        label: retrieval: column of class labels. The candidates are all its classes, including classes without an
            image. A class is scored by the mean of its prompts: its name in each template, the class labels of the
            column `templates`. The caption of a row is the name of its class.
        tags: column with a list of further labels, which may overlap, such as Winoground's.
        cluster: column that is equal in rows which are not independent, such as crops of one photograph. Rows with
            the same image are clustered in any case.
        by_default: whether the task is scored when only the benchmark's name is given.
        part_of: a task of the same benchmark whose predictions contain this task's, so that reports show both.
        ids: with `part_of`, the ids of its rows, which begin with their configuration in that task and ``/``.
        split: the split that is scored; None for the benchmark's.
        skills: which of `SKILLS` its examples test: one for all, or one for each value of their category. A category
            without a skill is excluded from every skill's accuracy, and reported as excluded.
    """

    name: str
    metrics: Mapping[str, Mapping[str, Any]]
    configs: tuple[str, ...] = ()
    images: tuple[str, ...] = ("image",)
    captions: tuple[str, ...] = ("caption", "negative_caption")
    positives: int | None = None
    category: str | None = None
    task_type: str = "matching"
    label: str | None = None
    tags: str | None = None
    cluster: str | None = None
    by_default: bool = True
    part_of: str | None = None
    ids: frozenset[str] = frozenset()
    split: str | None = None
    skills: str | Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        check_known(f"skill of the task {self.name}", self.declared_skills, SKILLS)
        for name in ("configs", "images", "captions"):
            if isinstance(value := getattr(self, name), str):
                raise TypeError(f"{name} of the task {self.name} is the text {value!r}; give a tuple: ({value!r},)")
        object.__setattr__(self, "configs", self.configs or (self.name,))
        by_type = {"matching": min(len(self.images), len(self.captions)), "text_similarity": 2}
        if self.positives is None:
            object.__setattr__(self, "positives", by_type.get(self.task_type))

    @property
    def declared_skills(self) -> list[str]:
        """Return the distinct skills that its examples test; empty if none is declared."""
        skills = [self.skills] if isinstance(self.skills, str) else (self.skills or {}).values()
        return list(dict.fromkeys(skills))

    @property
    def is_multiple_choice(self) -> bool:
        """Return whether exactly one caption is true of each image, or the caption is a yes-or-no question."""
        if self.task_type != "matching":
            return self.task_type == "vqa"
        return self.positives == len(self.images) and len(self.images) in (1, len(self.captions))

    def hub_ids(self, configs: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """Return the configurations of each id in ``eval.yaml``: an id for all of them, and one for each of several."""
        parts = {f"{self.name}_{config}": (config,) for config in configs if len(self.configs) > 1}
        return ({self.name: configs} if len(configs) == len(self.configs) else {}) | parts

    def skill_of(self, category: str) -> str | None:
        """Return the skill that the examples of a category test; None if none is declared."""
        return self.skills if isinstance(self.skills, str) else (self.skills or {}).get(category)


def group_task(name: str, metric: str, **options: Any) -> Task:
    """Return a task of Winoground's form: two images and two captions, each true of one of the images."""
    images, captions = (tuple(f"{column}_{side}" for side in "01") for column in ("image", "caption"))
    return Task(name, {metric: {}}, images=images, captions=captions, **options)


def retrieval_task(config: str, metric: str, **options: Any) -> Task:
    """Return a retrieval task: the images of a configuration, each with several captions, and all their captions."""
    metrics = {metric: {"pool": "shared", "ks": [1, 5, 10]}}
    return Task(config, metrics, task_type="retrieval", captions=("captions",), **options)


# Tasks, each with the requested ones of its configurations.
Chosen = list[tuple[Task, tuple[str, ...]]]


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: its tasks, the split that is scored, and how its dataset is built for scoring.

    Args:
        tasks: the ways to score it.
        split: the split that is scored, by tasks that do not name another.
        scoring_options: fields of the builder's configuration that a build for scoring sets.
        summary: what it tests, in a few words, for `vl-assay list`.
        source: where a user without a local copy gets the data from; empty if the data are generated.
        generated: the configurations that are generated, in a benchmark whose others have a source.
        main_scores: what its paper argues for, in the order in which the leaderboard opens: task, metric, and the key
            of the score in results. See `main_scores` for the default.
        suites: by name, tasks of one metric whose scores are averaged, such as VTAB's sets.
        caution: a known weakness of its scores, in one sentence with the figure; empty if none is known.
    """

    tasks: tuple[Task, ...]
    split: str = "test"
    scoring_options: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""
    source: str = ""
    generated: tuple[str, ...] = ()
    main_scores: tuple[tuple[str, str, str], ...] = ()
    suites: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    caution: str = ""

    def split_for(self, task: Task) -> str:
        """Return the split that a task scores."""
        return task.split or self.split

    def split_of(self, config: str) -> str:
        """Return the split of a configuration that its first task scores, by default the benchmark's."""
        return next((self.split_for(task) for task in self.tasks if config in task.configs), self.split)

    def select(self, name: str, part: str | None, task_types: Collection[str] = TASK_TYPES) -> Chosen:
        """Return the tasks and configurations that `part` (a task, a configuration, or None for the default) names.

        The default is restricted to the given task types; a part is not.
        """
        if part is None:
            return [(task, task.configs) for task in self.tasks if task.by_default and task.task_type in task_types]
        for task in self.tasks:
            if part == task.name:
                return [(task, task.configs)]
            if part in task.configs:
                return [(task, (part,))]
        known = [known for task in self.tasks for known in (task.name, *task.configs)]
        raise UnknownNameError(f"part of {name}", part, dict.fromkeys(known))

    def select_built(self, built: Collection[str], task_types: Collection[str] = TASK_TYPES) -> Chosen:
        """Return the tasks that score some of the configurations `built`: the default ones, or else all of them."""
        tasks = [(task, tuple(config for config in task.configs if config in built)) for task in self.tasks]
        able = [(task, configs) for task, configs in tasks if configs and task.task_type in task_types]
        return [(task, configs) for task, configs in able if task.by_default] or able


def benchmark_names() -> list[str]:
    """Return the sorted names of all benchmarks, with `plugins` and those that this process has adopted."""
    return sorted({*_ADOPTED, *_listed()})


@cache
def _listed() -> frozenset[str]:
    outside = [name for name, path in plugins("benchmarks").items() if (path / "benchmark.py").is_file()]
    return frozenset([*outside, *(path.parent.name for path in _BENCHMARKS.glob("*/benchmark.py"))])


def adopt(reference: str) -> str:
    """Register a benchmark outside the package under the name of its folder, and return a reference by that name.

    ``"mywork/my_photos/swap_att"``, a folder with ``benchmark.py``, ``builder.py`` and ``README.md`` and an optional
    part of the benchmark, becomes ``"my_photos/swap_att"`` until the process ends. Other references are returned
    unchanged. The code in the folder runs when the benchmark is used.

    Raises:
        DataError: a benchmark of the package has that name.
    """
    if reference.partition("/")[0] in benchmark_names():
        return reference
    path = with_home(reference).resolve()
    folder = path if path.exists() else path.parent
    # A dataset repository, which has build.json, is data: no script in it runs.
    if (folder / "build.json").exists() or not all((folder / name).is_file() for name in _NEEDED):
        return reference
    name, package = folder.name, f"{_PACKAGE}.{folder.name}"
    if folder != (_BENCHMARKS / name).resolve():
        if (_BENCHMARKS / name / "benchmark.py").is_file() or not name.isidentifier():
            raise DataError(f"{folder} cannot be used under the name {name!r}; rename the folder, as in my_photos")
        _ADOPTED[name] = folder
    for loaded in [module for module in sys.modules if f"{module}.".startswith(f"{package}.")]:
        del sys.modules[loaded]  # of an earlier version of the folder
    if name in _ADOPTED:
        sys.modules[package] = ModuleType(package)
        sys.modules[package].__path__ = [str(folder)]
    return name if folder == path else f"{name}/{path.name}"


def benchmark_folder(name: str) -> Path:
    """Return the folder of a benchmark; `UnknownNameError` lists the known ones."""
    _check(name)
    folder = _BENCHMARKS / name
    return _ADOPTED.get(name) or (folder if folder.is_dir() else plugins("benchmarks")[name])


def _import(name: str, module: str) -> ModuleType:
    """Import a module of a benchmark; no compiled code is written into folders outside the package."""
    _check(name)
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = before or name in _ADOPTED or name in plugins("benchmarks")
    try:
        return importlib.import_module(f"{_PACKAGE}.{name}.{module}")
    finally:
        sys.dont_write_bytecode = before


def get_benchmark(name: str) -> Benchmark:
    """Return a benchmark by its name; an `UnknownNameError` lists the known ones."""
    return _import(name, "benchmark").BENCHMARK


def get_builder(name: str) -> type[Any]:
    """Return the `datasets.GeneratorBasedBuilder` subclass of a benchmark."""
    import datasets

    module = _import(name, "builder")
    return next(
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, datasets.GeneratorBasedBuilder)
        and value.__module__ == module.__name__
    )


def is_downloaded(name: str) -> bool:
    """Return whether a builder downloads its sources: its ``IS_DOWNLOADED``, read without importing `datasets`."""
    text = (benchmark_folder(name) / "builder.py").read_text(encoding="utf-8")
    return re.search(r"^ +IS_DOWNLOADED = True$", text, re.MULTILINE) is not None


def get_card(name: str) -> str:
    """Return the text of a benchmark's card, ``README.md``."""
    return (benchmark_folder(name) / "README.md").read_text(encoding="utf-8")


def get_task(benchmark: str, task: str) -> Task:
    """Return a task of a benchmark by its name."""
    tasks = {known.name: known for known in get_benchmark(benchmark).tasks}
    check_known(f"task of {benchmark}", [task], tasks)
    return tasks[task]


def parts_of(benchmark: str, task: str) -> list[Task]:
    """Return the tasks of a benchmark that are parts of a task; none for an unknown benchmark."""
    known = get_benchmark(benchmark).tasks if benchmark in benchmark_names() else ()
    return [candidate for candidate in known if candidate.part_of == task]


def suites_of(benchmark: str) -> Mapping[str, tuple[str, ...]]:
    """Return the tasks of each suite of a benchmark; none for an unknown benchmark."""
    return get_benchmark(benchmark).suites if benchmark in benchmark_names() else {}


def main_scores(benchmark: str) -> tuple[tuple[str, str, str], ...]:
    """Return task, metric and score of each main score of a benchmark, see `Benchmark`.

    By default the main score of the first metric of the first task. It may be a pattern such as ``recall_at_*``.
    """
    from ...metrics.modules.discovery import get_spec

    declared = get_benchmark(benchmark)
    task = declared.tasks[0]
    metric = next(iter(task.metrics))
    return declared.main_scores or ((task.name, metric, get_spec(metric).main_score),)


def config_names(name: str) -> list[str]:
    """Return all configurations of a benchmark's dataset, scored or not."""
    return [config.name for config in get_builder(name).BUILDER_CONFIGS]


def option_names(name: str) -> list[str]:
    """Return the options of a builder: the fields of its configuration class beyond `datasets.BuilderConfig`."""
    import datasets

    common = {field.name for field in dataclasses.fields(datasets.BuilderConfig)}
    return sorted({field.name for field in dataclasses.fields(get_builder(name).BUILDER_CONFIG_CLASS)} - common)


def code_hash(name: str) -> str:
    """Return a hash over this package's version and the benchmark's own files, which identifies the code of its rows.

    Files that cannot change rows are not hashed: the card, the audit, blind levels, and subfolders (the shipped build).
    """
    from importlib.metadata import version

    files = [path for path in benchmark_folder(name).iterdir() if path.is_file() and path.name not in _NOT_HASHED]
    digest = hashlib.sha256(version("vl-assay").encode())
    for path in sorted(files):
        digest.update(b"\0" + path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _check(name: str) -> None:
    if name not in benchmark_names():
        _listed.cache_clear()  # its folder may be new
    check_known("benchmark", [name], benchmark_names())


def split_reference(reference: str) -> tuple[str, str | None]:
    """Split ``"sugarcrepe/swap_obj"`` into ``("sugarcrepe", "swap_obj")``; `UnknownNameError` for another benchmark."""
    name, _, task_name = adopt(reference).partition("/")
    _check(name)
    return name, task_name or None
