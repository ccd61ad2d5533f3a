"""SugarCrepe: what blind models see in benchmarks (Figures 1, 2, 4), and correlation with ImageNet (Figure 5)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ....hub_datasets import correlate
from ....hub_datasets.core.audits import read_audit
from ....hub_datasets.core.benchmarks import benchmark_names
from ....hub_datasets.published.tables import Column, get_table
from ....metrics.common.documents import Part, simple_table
from ....metrics.common.errors import DataError, PredictionsError
from ....metrics.common.figures import colours
from ....metrics.common.formatting import percent, words
from ....metrics.evaluation import ScoreName
from ....metrics.functional.symmetry import artifact_gap
from ....metrics.records.predictions import read_predictions
from ....metrics.records.schema import MatchingRow
from ....metrics.statistics.correlation import FEWEST
from .material import Material, draw_bars

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXISTING = (
    *("crepe/productivity_replace", "crepe/productivity_swap", "crepe/productivity_negate"),
    *("aro/relation", "aro/attribution", "aro/coco_order", "aro/flickr30k_order", "vl_checklist/itm"),
)
REFINEMENT = ("aro_crepe/itm", "sugarcrepe/unrefined", "sugarcrepe/itm")
IMAGENET = Column("ImageNet", "zero_shot/imagenet", "zero_shot_accuracy", ("acc_at_1",), "micro")
# The correlations that section 5.3 prints; of the other categories it says "r > 0.8".
PRINTED_R = {"SWAP Object": "0.78", "ADD Attribute": "0.75"}
_BINS = 41


def blind_against_clip(material: Material) -> list[Part]:
    """SugarCrepe's Figure 2, from Table 8: the blind models and the best CLIP model of each source, task by task."""
    table = get_table("sugarcrepe-8")
    blind = {row.label: table.values(row) for row in table.rows if row.group.startswith("Text")}
    sources = [*dict.fromkeys(row.group for row in table.rows if not row.group.startswith("Text"))]
    best = {
        f"{source}, best": {
            column.name: max(table.values(row)[column.name] for row in table.rows if row.group == source)
            for column in table.columns
        }
        for source in sources
    }
    shown, tasks = {**blind, **best}, [column.name for column in table.columns]
    won = [task for task in tasks if max(shown, key=lambda name: shown[name][task]) in blind]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        bars = {name: [values[task] for task in tasks] for name, values in shown.items()}
        draw_bars(axes, [task.replace(" ", "\n", 1) for task in tasks], bars)
        axes.tick_params("x", labelsize=7)
        axes.set(ylabel="accuracy, %")
        axes.legend(fontsize=7)

    rows = [
        (task, *(f"{each[task]:.2f}" for each in shown.values()), "blind" if task in won else "CLIP") for task in tasks
    ]
    note = f"A blind model is the best on {len(won)} of {len(tasks)} tasks; the paper says 9 out of 10."
    return [
        simple_table(("", *shown, "best"), rows, title="Published", note=note, numbers=True),
        material.draw("sugarcrepe-figure-2", draw, (12, 4.5)),
    ]


def existing_gaps(material: Material) -> list[Part]:
    """SugarCrepe's Figure 1: gaps of blind models' scores on the benchmarks before it."""
    return _gaps(material, EXISTING, "sugarcrepe-figure-1")


def refinement_gaps(material: Material) -> list[Part]:
    """SugarCrepe's Figure 4: such gaps on ARO+CREPE, before and after refinement; and the audits that are shipped."""
    try:
        gaps = _gaps(material, REFINEMENT, "sugarcrepe-figure-4")
    except PredictionsError as error:
        gaps = [f"Of Vera and the grammar model: {error}."]
    return [_audits(), *gaps]


def _audits() -> Part:
    """What scorers without the image reach on SugarCrepe before and after its refinement, as audited and shipped."""
    audits = read_audit("sugarcrepe") or {}
    before, after = audits["sugarcrepe/unrefined"]["scorers"], audits["sugarcrepe"]["scorers"]
    rows = [(words(name), percent(before[name]["accuracy"]), percent(after[name]["accuracy"])) for name in after]
    note = (
        "Accuracy in % without the image, where 50 is chance: rules and cross-validated probes of our audit. The "
        "paper's refinement balanced two other scorers, Vera and a grammar model."
    )
    return simple_table(
        ("scorer", "before refinement", "after"), rows, title="Text-only scorers", note=note, numbers=True
    )


def _gaps(material: Material, tasks: Sequence[str], name: str) -> list[Part]:
    """Score of the positive caption minus that of each hard negative, by blind model and task.

    Raises:
        PredictionsError: there are no predictions of a model that sees no images.
    """
    found: dict[tuple[str, str], NDArray[np.float64]] = {}
    for path, task, _, model in material.predictions:
        if task in tasks and model.get("sees_images") is False:
            found[str(model["name"]), task] = _pairs(path)
    if not found:
        raise PredictionsError(
            "no predictions of models that see no images, such as Vera, which vl-assay predict makes, on "
            + ", ".join(tasks)
        )
    rows = []
    for (model, task), pairs in sorted(found.items()):
        gap = artifact_gap(pairs, np.zeros(len(pairs), int), ties="half", permutations=100)
        shown = (percent(gap["accuracy"]), f"{gap['mean_gap']:.3f}", f"{gap['asymmetry']:.3f}", f"{len(pairs):,}")
        rows.append((f"{model}, {task}", *shown))
    headings = ("", "positive higher, %", "mean gap", "asymmetry", "pairs")
    drawing = material.draw(name, lambda figure: _draw_gaps(figure, found), (3.2 * len({t for _, t in found}) + 1, 5))
    return [simple_table(headings, rows, title="Gaps of blind models", numbers=True), drawing]


def _pairs(path: Path) -> NDArray[np.float64]:
    """Scores of positive captions with those of each of their hard negatives, of shape (pairs, 2)."""
    pairs = []
    for row in read_predictions(path).rows:
        if isinstance(row, MatchingRow) and row.scores is not None:
            [scores], [correct] = row.scores, row.correct
            pairs += [(scores[correct], score) for place, score in enumerate(scores) if place != correct]
    return np.array(pairs, np.float64).reshape(-1, 2)


def _draw_gaps(figure: Figure, found: dict[tuple[str, str], NDArray[np.float64]]) -> None:
    """A row of histograms for each model and a column for each task, symmetric around zero."""
    models, tasks = (list(dict.fromkeys(key[place] for key in found)) for place in (0, 1))
    panels = figure.subplots(len(models), len(tasks), squeeze=False)
    for (model, task), pairs in found.items():
        axes = panels[models.index(model)][tasks.index(task)]
        gaps = pairs[:, 0] - pairs[:, 1]
        limit = float(np.abs(gaps).max()) or 1.0
        axes.hist(gaps, np.linspace(-limit, limit, _BINS + 1), color=colours([model])[model])
        axes.axvline(0, color="0.5")
        axes.set(title=task, xlabel=f"score gap, {model}")
        axes.title.set_fontsize(8)


def imagenet_correlation(material: Material, axis: Column = IMAGENET) -> list[Part]:
    """SugarCrepe's Figure 5: accuracy on ImageNet and on SugarCrepe, of the models whose predictions have both.

    Args:
        axis: the score of the horizontal axis.

    Raises:
        DataError: no benchmark here has that score.
        PredictionsError: too few models.
    """
    if axis.task.partition("/")[0] not in benchmark_names():
        raise DataError(f"{axis.task} is no benchmark here")
    columns = [each for each in get_table("sugarcrepe-6").columns if each.average == "category"]
    tasks = {column.task for column in (axis, *columns)}
    paths: dict[str, dict[str, list[Path]]] = {}
    for path, task, _, model in material.predictions:
        if task in tasks:
            paths.setdefault(str(model["name"]), {}).setdefault(task, []).append(path)
    complete = [by_task for by_task in paths.values() if by_task.keys() == tasks]
    if len(complete) < FEWEST:
        raise PredictionsError(
            f"{len(complete)} models have predictions on both {axis.task} and {columns[0].task}; a correlation takes "
            f"{FEWEST} or more"
        )
    both = [path for by_task in complete for paths in by_task.values() for path in paths]
    found = correlate(*both, across=_score(axis), up=[_score(column) for column in columns], with_baselines=True)
    rows = []
    for column, each in zip(columns, found.found, strict=True):
        low, high = each.result["pearson_interval"] or (np.nan, np.nan)
        ours = "–" if each.result["pearson"] is None else f"{each.result['pearson']:.2f}"
        rows.append((column.name, PRINTED_R.get(column.name, "> 0.8"), ours, f"{low:.2f} – {high:.2f}"))
    names = sorted(point.model for point in found.points)
    note = (
        f"Pearson's r over {len(names)} models, with 95 % intervals over models and images: {', '.join(names)}. "
        "vl-assay correlate makes the same of any two scores."
    )
    table = simple_table(("", "published r", "ours", "interval"), rows, note=note, numbers=True)
    return [table, material.draw("sugarcrepe-figure-5", found.draw, (8, 5.5))]


def _score(column: Column) -> ScoreName:
    """The score of a column, as ``correlate`` takes it."""
    benchmark, _, task = column.task.partition("/")
    category = column.score[1] if len(column.score) > 1 else ""
    return ScoreName(benchmark, task, column.metric, column.score[-1] if column.score else "", category)
