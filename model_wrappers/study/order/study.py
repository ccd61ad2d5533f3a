"""Predict with models under each condition, and put together what each query and each example is worth.

The runner does the work: it encodes an image or a caption once for all conditions that show it, resumes an interrupted
run, and takes finished predictions as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....hub_datasets.core.benchmarks import benchmark_names, option_names
from ....metrics.common.errors import ModelError, check_known
from ....metrics.evaluation import PredictionFiles, declared_metrics, example_ids, examples_of, scored_rows
from ....metrics.records.predictions import read_predictions
from ...engine.distributed import join
from ...engine.progress import Progress
from ...engine.runner import RunConfig, predict
from .design import CONDITIONS, GENERATED, SOURCES, Design
from .findings import Measured, Values, document
from .report import write_study

if TYPE_CHECKING:
    from ....metrics.records.results import Result


def run_study(
    models: Mapping[str, str], out: str | Path, design: Design | None = None, *, config: RunConfig | None = None
) -> dict[str, Any] | None:
    """Measure each model under each condition, and write the report (see `write_study`).

    Predictions of a model are in a folder of its label, such as ``out/NegCLIP``; the same call again resumes.

    Args:
        models: by label a name as `load_model` takes it.
        out: the study's folder.
        design: what is measured; by default all of it, on toy_scenes.
        config: how models and data are loaded and run; its options are set for the benchmarks that have them. A
            setting whose name begins with a label, such as ``"NegCLIP:pretrained"``, is that model's alone.

    Returns:
        The `document` of the study; None in a process other than the main one.

    Raises:
        ModelError: no model, or two whose labels give one folder.
        UnknownNameError: an option that no benchmark of the study has, a part of one that does not exist, or a label in
            a setting that no model has.
        VLAssayError: as `predict`, such as missing sources.
    """
    design, config = design or Design(), config or RunConfig()
    folders = {label: Path(out) / re.sub(r"[^\w.-]+", "-", label).strip("-.") for label in models}
    if not models or len(set(folders.values())) < len(models):
        raise ModelError(f"the models are {list(models)}; give at least one, each with a label of its own: NAME=MODEL")
    settings = _settings(config.settings or {}, models)
    configs, runs = _configs(config, design), [*design.runs()]
    processes = join()
    bars = Progress(show=config.progress and processes.is_main)
    files: dict[str, dict[str, PredictionFiles]] = {label: {} for label in models}
    with bars.bar("conditions", len(models) * len(runs)) as advance:
        for label, model in models.items():
            for reference, seeds in runs:
                bars.say(f"{label}: {reference}")
                how = replace(configs[reference], settings=settings[label])
                files[label][reference] = predict(model, reference, out=folders[label], seeds=seeds, config=how)
                advance(1)
    if not processes.is_main:
        return None
    bars.say("evaluating")
    found = document(design, {label: _measured(found, design) for label, found in files.items()}, models)
    write_study(found, Path(out))
    return found


def parse_models(names: Sequence[str]) -> dict[str, str]:
    """``["CLIP=clip:ViT-B-32", "demo-clip"]`` → ``{"CLIP": "clip:ViT-B-32", "demo-clip": "demo-clip"}``.

    Raises:
        ModelError: an empty label or model, or a label twice.
    """
    found: dict[str, str] = {}
    for name in names:
        label, _, model = (part.strip() for part in name.partition("=")) if "=" in name else (name, "", name)
        if not label or not model or label in found:
            raise ModelError(f"the model {name!r} has no label of its own; write NAME=MODEL, such as NegCLIP=./negclip")
        found[label] = model
    return found


def _settings(given: Mapping[str, str], models: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The settings of each model: those without a label, and its own."""
    found: dict[str, dict[str, str]] = {label: {} for label in models}
    # Those of one model come last, and replace those of all.
    for name, value in sorted(given.items(), key=lambda item: ":" in item[0]):
        label, separator, own = name.partition(":")
        if separator:
            check_known("label of a model in a setting", [label], models)
        for each in [label] if separator else models:
            found[each][own or name] = value
    return found


def _configs(config: RunConfig, design: Design) -> dict[str, RunConfig]:
    """The configuration of each run: with the options that its benchmark has, and the user's data if it needs them."""
    benchmarks = {reference: reference.partition("/")[0] for reference, _ in design.runs()}
    known = {name: option_names(name) for name in {*benchmarks.values()}.intersection(benchmark_names())}
    options = config.options or {}
    allowed = {"allow_missing"}.union(*known.values())
    check_known("option of the study's benchmarks", options, sorted(allowed))
    return {
        reference: replace(
            config,
            options={key: value for key, value in options.items() if key in known.get(name, ())},
            data_dir=None if name in GENERATED else config.data_dir,
            limit=design.limit,
            progress=False,
        )
        for reference, name in benchmarks.items()
    }


def _measured(files: Mapping[str, PredictionFiles], design: Design) -> Measured:
    """What the predictions of a model are worth."""
    composition: list[Result] = []
    for reference in design.composition_references:
        composition += files[reference].report()
    return Measured(
        retrieval={name: [*map(_values, files[design.reference(name)].paths)] for name in CONDITIONS},
        order=[*map(_values, files[SOURCES[design.dataset].order].paths)],
        composition=composition,
    )


def _values(path: Path) -> Values:
    """The per-example scores of a file of predictions, by what identifies an example under every condition and seed."""
    predictions = read_predictions(path)
    rows = scored_rows(predictions.rows)
    [(metric, settings)] = declared_metrics(predictions).items()
    examples = examples_of(rows, metric, settings)
    # The ids of `retrieval` begin with the configuration: coco_shuffle_trigrams/7.
    ids = [(row_id.rpartition("/")[2], part) for row_id, part in example_ids(rows, examples)]
    return Values(ids, dict(examples.values), examples.clusters)
