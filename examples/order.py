"""Does retrieval need order? Recall with and without the order of words and of the parts of images.

    python examples/order.py --quick
    python examples/order.py CLIP=openai/clip-vit-base-patch32 --dataset coco --data-dir coco

Repeats Tables 3 and 4 and Figure 2 of ARO (Yuksekgonul et al. 2023, section 3.1) with any models, by default demo-clip
on toy_scenes. docs/study-order.md has results. The same command predicts nothing twice.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
import yaml
from matplotlib import pyplot
from scipy.linalg import block_diag

from vl_assay.hub_datasets.core.benchmarks import option_names
from vl_assay.metrics.common.documents import Part, Table, Verdict, print_tables, simple_table, to_markdown
from vl_assay.metrics.common.formatting import interval, percent, points, words
from vl_assay.metrics.estimation.bootstrap import cluster_bootstrap, resampled_totals
from vl_assay.metrics.estimation.differences import differences
from vl_assay.metrics.estimation.paired import Resampling
from vl_assay.metrics.estimation.spec import make_examples
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.metrics.results.compute import declared_metrics, examples_of, scored_rows
from vl_assay.metrics.results.pairs import example_ids
from vl_assay.metrics.results.report import PredictionFiles, Report
from vl_assay.model_wrappers import RunConfig, predict

PLAIN, CLEANED = "nothing", "nothing, captions cleaned"
TEXT_SHUFFLES = ("nouns and adjectives", "all words", "all but nouns and adjectives", "trigrams", "within trigrams")
IMAGE_SHUFFLES = ("rows (4)", "columns (4)", "patches (9)")
# The conditions of the paper's tables, by the ends of the configurations' names.
SHUFFLES = {name: re.sub(r"\W+", "_", f"_shuffle {name}").rstrip("_") for name in (*TEXT_SHUFFLES, *IMAGE_SHUFFLES)}
CONDITIONS = {PLAIN: "", CLEANED: "_cleaned", **SHUFFLES}
# Shuffled words are compared with cleaned captions, of which they are made.
BASELINES = {CLEANED: TEXT_SHUFFLES, PLAIN: IMAGE_SHUFFLES}
# For each kind of order the shuffle that leaves the least of it.
STRONGEST = {"words": ("all words", CLEANED), "parts of the image": ("patches (9)", PLAIN)}
TABLES = {"3, words": (PLAIN, CLEANED, *TEXT_SHUFFLES), "4, parts of the image": (PLAIN, *IMAGE_SHUFFLES)}
# By dataset: the benchmark of retrieval, the order task, and a test of composition.
DATASETS = {
    "toy_scenes": ("toy_order/retrieval", "toy_order/order", "toy_scenes/itm"),
    "coco": ("retrieval/coco", "aro/coco_order", ""),
    "flickr30k": ("retrieval/flickr30k", "aro/flickr30k_order", ""),
}
SCORES = ("text_recall_at_1", "text_recall_at_5", "image_recall_at_1", "image_recall_at_5")
HEAD = ["shuffled", "model", "text R@1", "text R@5", "image R@1", "image R@5"]
CHANCE, RESAMPLES = 0.2, 2000
# Order is hardly needed if more recall than this is kept without it, and needed if less is. Fixed beforehand: in the
# paper CLIP keeps 68 % of its recall@1 on COCO with all words shuffled, BLIP 82 %.
KEEPS_MOST, KEEPS_LITTLE = 2 / 3, 1 / 3
# The scores of the examples of a predictions file for each seed, NaN if a score does not apply, with their images.
Seeds = Sequence[pandas.DataFrame]


def read_scores(path: Path) -> pandas.DataFrame:
    """Return the per-example scores of a predictions file; its examples have the same ids under every condition."""
    predictions = read_predictions(path)
    rows = scored_rows(predictions.rows)
    [(metric, settings)] = declared_metrics(predictions).items()
    examples = examples_of(rows, metric, settings)
    ids = [f"{row_id.rpartition('/')[2]} {part}" for row_id, part in example_ids(rows, examples)]
    return pandas.DataFrame({**examples.values, "cluster": examples.clusters}, index=ids)


def means(score: str, *groups: Seeds) -> pandas.DataFrame:
    """Return each group's mean of a score over its seeds for the examples that all files have, and their images."""
    by_group = (pandas.concat([frame[score] for frame in seeds], axis=1, join="inner") for seeds in groups)
    table = pandas.concat([columns.mean(axis=1) for columns in by_group], axis=1, join="inner").dropna()
    return table.assign(cluster=groups[0][0]["cluster"])


def over_seeds(seeds: Seeds, score: str) -> tuple[float, float]:
    """Return the mean of a score and its standard deviation over seeds, NaN for one seed."""
    by_seed = pandas.Series([frame[score].mean() for frame in seeds])
    return by_seed.mean(), by_seed.std()


def cell(seeds: Seeds, score: str, bounds: bool = False) -> str:
    """Return a mean with its deviation over seeds in percent, such as ``"71.0 ± 0.6"``; `bounds` adds its interval."""
    mean, deviation = over_seeds(seeds, score)
    text = percent(mean) + ("" if np.isnan(deviation) else f" ± {percent(deviation)}")
    if not bounds:
        return text
    values, clusters = means(score, seeds).to_numpy().T
    return f"{text} [{interval(cluster_bootstrap(values, clusters, resamples=RESAMPLES).micro)}]"


def drop(before: Seeds, after: Seeds, score: str) -> str:
    """Return how many points a score falls: the paired difference of each query's means over seeds."""
    first, second, clusters = means(score, before, after).to_numpy().T
    resampling = Resampling(resamples=RESAMPLES, permutations=100)
    sides = (make_examples({"recall": side}, np.zeros(len(side)), clusters=clusters) for side in (first, second))
    found = differences(*sides, resampling)["recall"]
    return f"{points(found['difference'])} [{interval(found['difference_interval'], True)}]"


def kept_share(before: Seeds, after: Seeds) -> tuple[float, list[float] | None]:
    """Return the share of recall@1, the mean of both directions, that is kept, and its interval over images.

    The share is NaN without recall to lose; the interval is None if a resample of images has none.
    """
    text, image = (means(score, before, after).assign(queries=1) for score in SCORES[::2])
    columns = block_diag(text.drop(columns="cluster"), image.drop(columns="cluster"))
    clusters = [*text["cluster"], *image["cluster"]]
    totals = np.vstack([columns.sum(axis=0), resampled_totals(columns, clusters, RESAMPLES)])
    with np.errstate(invalid="ignore"):  # a resample without queries of one direction
        recall = totals[:, [0, 1]] / totals[:, [2]] + totals[:, [3, 4]] / totals[:, [5]]
        shares = recall[:, 1] / recall[:, 0]
    bounds = np.quantile(shares[1:], [0.025, 0.975]).tolist() if (recall[:, 0] > 0).all() else None
    return float(shares[0]) if recall[0, 0] else np.nan, bounds


def verdict(bounds: Sequence[float] | None) -> str:
    """Return whether retrieval needs an order; the whole interval of the share that is kept must be on one side."""
    low, high = bounds or (0.0, 1.0)
    if low > KEEPS_MOST:
        return "hardly needed"
    if high < KEEPS_LITTLE:
        return "needed"
    return "needed in part" if low > KEEPS_LITTLE and high < KEEPS_MOST else "open"


class Model(NamedTuple):
    """The values of a model, by condition and in the order task for each seed; and its report on composition."""

    retrieval: dict[str, Seeds]
    order: Seeds
    composition: Report | None


def sentence(label: str, model: Model) -> str:
    """Return whether a model needs order, in two sentences."""
    clauses = []
    for kind, (condition, base) in STRONGEST.items():
        share, bounds = kept_share(model.retrieval[base], model.retrieval[condition])
        kept = f"{percent(share)} % of recall@1" + (f" [{interval(bounds)}]" if bounds else "")
        clauses.append(f"with {condition} shuffled it keeps {kept} (order of {kind}: {verdict(bounds)})")
    order = f"{cell(model.order, 'accuracy', bounds=True)} % of five (chance {percent(CHANCE)} %)"
    return f"{label}: {'; '.join(clauses)}. It prefers the true order of words in {order}."


def report(models: Mapping[str, Model], dataset: str) -> list[Part]:
    """Return the sentences and tables of the report."""
    images = len(np.unique(next(iter(models.values())).retrieval[PLAIN][0]["cluster"]))
    parts: list[Part] = [
        *(Verdict(sentence(label, model)) for label, model in models.items()),
        f"Data: {dataset}, {images:,} images. Mean ± standard deviation over the seeds of shuffles. Intervals: 95 %, "
        'over images. Order is "hardly needed" if the interval of the share of recall@1 that is kept (mean of both '
        'directions) lies above two thirds, "needed" below a third, "needed in part" between, and else open.',
    ]
    for title, names in TABLES.items():
        rows: list[Any] = []
        for label, model in models.items():
            rows += [None, *([name, label, *(cell(model.retrieval[name], each) for each in SCORES)] for name in names)]
        parts.append(simple_table(HEAD, rows, title=f"ARO, Table {title} shuffled (%)", numbers=True))
    rows = []
    for (label, model), (base, shuffles) in product(models.items(), BASELINES.items()):
        before = model.retrieval[base]
        lines = ([name, label, *(drop(before, model.retrieval[name], score) for score in SCORES)] for name in shuffles)
        rows += [None, *lines]
    note = "Positive if order helps. Paired by query: shuffled words with cleaned captions, shuffled images with plain."
    parts.append(simple_table(HEAD, rows, title="How much recall falls without order, points", note=note, numbers=True))
    return [*parts, composition_table(models, dataset)]


def composition_table(models: Mapping[str, Model], dataset: str) -> Table:
    """Return the accuracies on order and on composition."""
    orders = (cell(model.order, "accuracy", bounds=True) for model in models.values())
    rows = [[f"order, {dataset}", percent(CHANCE), *orders]]
    reports = [model.composition.to_pandas() for model in models.values() if model.composition]
    frames = [frame[frame["category"] != "macro average"] for frame in reports]
    for lines in zip(*(frame.itertuples() for frame in frames), strict=True):
        cells = [f"{percent(line.value)} [{interval([line.low, line.high])}]" for line in lines]
        rows.append([f"{lines[0].benchmark}/{lines[0].task}, {lines[0].category}", percent(lines[0].chance), *cells])
    return simple_table(["test", "chance", *models], rows, title="Composition of the same models (%)", numbers=True)


def plot(models: Mapping[str, Model], path: Path) -> None:
    """Draw Figure 2: recall@1 with order, a dashed line, and without, points with the deviation over seeds."""
    shape = {"sharex": "col", "sharey": "row", "width_ratios": [len(TEXT_SHUFFLES), len(IMAGE_SHUFFLES)]}
    figure, panels = pyplot.subplots(2, 2, figsize=(11, 6.5), layout="constrained", **shape)
    for line, score in zip(panels, SCORES[::2], strict=True):
        for axes, (base, shuffles) in zip(line, BASELINES.items(), strict=True):
            for number, (label, model) in enumerate(models.items()):
                colour, shift = f"C{number}", 0.12 * (number - (len(models) - 1) / 2)
                axes.axhline(100 * over_seeds(model.retrieval[base], score)[0], color=colour, linestyle="--")
                mean, deviation = 100 * np.nan_to_num([over_seeds(model.retrieval[name], score) for name in shuffles]).T
                axes.errorbar(np.arange(len(mean)) + shift, mean, yerr=deviation, fmt="o", color=colour, label=label)
            axes.set_xticks(range(len(shuffles)), [name.replace(" ", "\n") for name in shuffles], fontsize="small")
        line[0].set(ylabel=f"{words(score)}, %", ylim=(0, 102))
    panels[0, 1].legend(frameon=False, loc="lower left")
    figure.savefig(path)


def measure(model: str, out: Path, dataset: str, config: RunConfig, quick: bool) -> Model:
    """Predict with a model under all conditions, and read what the predictions are worth."""

    def predictions(references: list[str], seeds: Sequence[int]) -> PredictionFiles:
        name = references[0].partition("/")[0]
        known = {field: value for field, value in config.options.items() if field in option_names(name)}
        return predict(model, references, out=out, seeds=seeds, config=replace(config, options=known))

    retrieval, order, composition = DATASETS[dataset]
    plain = predictions([retrieval, retrieval + CONDITIONS[CLEANED]], range(1))
    shuffled = predictions([retrieval + end for end in SHUFFLES.values()], range(2 if quick else 3))
    found = [(path.name.split(".")[1], path) for path in (*plain, *shuffled)]  # of NAME.TASK.seed-SEED.parquet
    task = retrieval.partition("/")[2]
    return Model(
        {name: [read_scores(path) for each, path in found if each == task + end] for name, end in CONDITIONS.items()},
        [read_scores(path) for path in predictions([order], range(2 if quick else 5))],
        predictions([composition], []).report() if composition else None,
    )


def main() -> None:
    """Measure the models, and print and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["demo-clip"], metavar="[NAME=]MODEL")
    parser.add_argument("--out", type=Path, default=Path("order"), help="folder of predictions, study.md and study.png")
    parser.add_argument("--dataset", choices=DATASETS, default="toy_scenes")
    parser.add_argument("--data-dir", type=Path, help="your copy of COCO or Flickr30k")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="of the benchmarks")
    parser.add_argument("--setting", action="append", default=[], metavar="MODEL:NAME=VALUE", help="of one model")
    parser.add_argument("--quick", action="store_true", help="two seeds, and at most 200 examples of each task")
    options = parser.parse_args()
    models = {}
    for name in options.models:
        label, _, model = name.rpartition("=") if "=" in name else (name, "", name)
        own = f"{label}:"
        config = RunConfig(
            data_dir=options.data_dir,
            options={key: yaml.safe_load(value) for key, value in (each.split("=", 1) for each in options.option)},
            settings=dict(s.removeprefix(own).split("=", 1) for s in options.setting if s.startswith(own)),
            limit=200 if options.quick else None,
            progress=False,
        )
        models[label] = measure(model, options.out / label.replace("/", "-"), options.dataset, config, options.quick)
    parts = report(models, options.dataset)
    print_tables(parts)
    (options.out / "study.md").write_text(to_markdown(parts, "Retrieval with and without order", level=2), "utf-8")
    plot(models, options.out / "study.png")


if __name__ == "__main__":
    main()
