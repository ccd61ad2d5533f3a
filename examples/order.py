"""Does retrieval need order? Recall with and without the order of words and of the parts of images.

    python examples/order.py --quick
    python examples/order.py CLIP=openai/clip-vit-base-patch32 --dataset coco --data-dir coco

Repeats Tables 3 and 4 and Figure 2 of ARO (Yuksekgonul et al. 2023, section 3.1) with any models, by default demo-clip
on toy_scenes. docs/study-order.md has results. The same command predicts nothing twice.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from matplotlib import pyplot
from numpy.typing import NDArray

from vl_assay.hub_datasets.core.benchmarks import option_names
from vl_assay.metrics.common.documents import Part, Table, Verdict, print_tables, simple_table, to_markdown
from vl_assay.metrics.common.formatting import interval, percent, points, words
from vl_assay.metrics.evaluation import declared_metrics, example_ids, examples_of, scored_rows
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.metrics.statistics.bootstrap import cluster_bootstrap, resampled_totals
from vl_assay.metrics.statistics.paired import paired_difference
from vl_assay.model_wrappers import RunConfig, predict

PLAIN, CLEANED = "nothing", "nothing, captions cleaned"
# The conditions of the paper's tables, by the ends of the configurations' names.
TEXT_SHUFFLES = {
    "nouns and adjectives": "_shuffle_nouns_and_adjectives",
    "all words": "_shuffle_all_words",
    "all but nouns and adjectives": "_shuffle_all_but_nouns_and_adjectives",
    "trigrams": "_shuffle_trigrams",
    "within trigrams": "_shuffle_within_trigrams",
}
IMAGE_SHUFFLES = {
    "rows (4)": "_shuffle_rows_4",
    "columns (4)": "_shuffle_columns_4",
    "patches (9)": "_shuffle_patches_9",
}
CONDITIONS = {PLAIN: "", CLEANED: "_cleaned", **TEXT_SHUFFLES, **IMAGE_SHUFFLES}
# Shuffled words are compared with cleaned captions, of which they are made.
BASELINES = {CLEANED: TEXT_SHUFFLES, PLAIN: IMAGE_SHUFFLES}
# For each kind of order the shuffle that leaves the least of it.
STRONGEST = {"words": ("all words", CLEANED), "parts of the image": ("patches (9)", PLAIN)}
TABLES = {
    "Table 3, words shuffled": (PLAIN, CLEANED, *TEXT_SHUFFLES),
    "Table 4, parts of the image shuffled": (PLAIN, *IMAGE_SHUFFLES),
}
# By dataset: the benchmark of retrieval, the order task, and a test of composition.
DATASETS = {
    "toy_scenes": ("toy_order/retrieval", "toy_order/order", "toy_scenes/itm"),
    "coco": ("retrieval/coco", "aro/coco_order", ""),
    "flickr30k": ("retrieval/flickr30k", "aro/flickr30k_order", ""),
}
SCORES = ("text_recall_at_1", "text_recall_at_5", "image_recall_at_1", "image_recall_at_5")
HEADS = ("text R@1", "text R@5", "image R@1", "image R@5")
CHANCE, CONFIDENCE, RESAMPLES = 0.2, 0.95, 2000
# Order is hardly needed if more recall than this is kept without it, and needed if less is. Fixed beforehand: in the
# paper CLIP keeps 68 % of its recall@1 on COCO with all words shuffled, BLIP 82 %.
KEEPS_MOST, KEEPS_LITTLE = 2 / 3, 1 / 3


class Values(NamedTuple):
    """The scores of each example of a predictions file, NaN if a score does not apply, and the image of each."""

    ids: list[Any]
    scores: Mapping[str, NDArray[np.float64]]
    clusters: NDArray[np.intp]


Seeds = Sequence[Values]


def read_values(path: Path) -> Values:
    """Return the per-example scores of a predictions file; its examples have the same ids under every condition."""
    predictions = read_predictions(path)
    rows = scored_rows(predictions.rows)
    [(metric, settings)] = declared_metrics(predictions).items()
    examples = examples_of(rows, metric, settings)
    ids = [(row_id.rpartition("/")[2], part) for row_id, part in example_ids(rows, examples)]
    return Values(ids, dict(examples.values), examples.clusters)


def means(score: str, *groups: Seeds) -> tuple[list[NDArray[np.float64]], NDArray[np.intp]]:
    """Return each group's mean of a score over its seeds for the examples that all files have, and their images."""
    first = groups[0][0]
    common = set(first.ids).intersection(*(values.ids for seeds in groups for values in seeds))
    rows = [row for row, id in enumerate(first.ids) if id in common and not np.isnan(first.scores[score][row])]
    found = []
    for seeds in groups:
        places = [{id: place for place, id in enumerate(values.ids)} for values in seeds]
        own = [
            values.scores[score][[place[first.ids[row]] for row in rows]]
            for values, place in zip(seeds, places, strict=True)
        ]
        found.append(np.mean(own, axis=0))
    return found, first.clusters[rows]


def over_seeds(seeds: Seeds, score: str) -> tuple[float, float, list[float]]:
    """Return the mean of a score, its standard deviation over seeds (NaN for one), and its interval over images."""
    by_seed = [float(np.nanmean(values.scores[score])) for values in seeds]
    [values], clusters = means(score, seeds)
    bounds = cluster_bootstrap(values, clusters, confidence=CONFIDENCE, resamples=RESAMPLES).micro
    return float(np.mean(by_seed)), float(np.std(by_seed, ddof=1)) if len(by_seed) > 1 else np.nan, list(bounds)


def drop(before: Seeds, after: Seeds, score: str) -> str:
    """Return how many points a score falls: the paired difference of each query's means over seeds."""
    (first, second), clusters = means(score, before, after)
    options = {"confidence": CONFIDENCE, "resamples": RESAMPLES, "permutations": 100}
    found = paired_difference(first, second, clusters=clusters, **options)
    return f"{points(found['difference'])} [{interval(found['difference_interval'], True)}]"


def kept_share(before: Seeds, after: Seeds) -> tuple[float, list[float] | None]:
    """Return the share of recall@1, the mean of both directions, that is kept, and its interval over images.

    The share is NaN without recall to lose; the interval is None if a resample of images has none.
    """
    columns, clusters = [], []
    for score in SCORES[::2]:
        values, own = means(score, before, after)
        columns.append(np.stack([*values, np.ones(len(own))], axis=1))
        clusters.append(own)
    text, image = columns
    table = np.block([[text, np.zeros_like(text)], [np.zeros_like(image), image]])
    totals = np.vstack([table.sum(axis=0), resampled_totals(table, np.concatenate(clusters), RESAMPLES)])
    with np.errstate(invalid="ignore"):  # a resample without queries of one direction
        recall = totals[:, [0, 1]] / totals[:, [2]] + totals[:, [3, 4]] / totals[:, [5]]
        shares = recall[:, 1] / recall[:, 0]
    tail = (1 - CONFIDENCE) / 2
    bounds = np.quantile(shares[1:], [tail, 1 - tail]).tolist() if (recall[:, 0] > 0).all() else None
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
    """The values of a model: by condition and in the order task for each seed; and its results on composition."""

    retrieval: dict[str, Seeds]
    order: Seeds
    composition: list[Any]

    def sentence(self, label: str) -> str:
        """Return what was found, in a sentence or two."""
        clauses = []
        for kind, (condition, base) in STRONGEST.items():
            share, bounds = kept_share(self.retrieval[base], self.retrieval[condition])
            kept = f"{percent(share)} % of recall@1" + (f" [{interval(bounds)}]" if bounds else "")
            found = verdict(bounds)
            needs = (
                f"whether this retrieval needs the order of {kind} is open"
                if found == "open"
                else f"the order of {kind} is {found}"
            )
            clauses.append(f"with {condition} shuffled it keeps {kept}: {needs}")
        mean, _, bounds = over_seeds(self.order, "accuracy")
        return (
            f"{label}: {'; '.join(clauses)}. It prefers the true order of words in {percent(mean)} % "
            f"[{interval(bounds)}] of five (chance {percent(CHANCE)} %)."
        )


def cell(seeds: Seeds, score: str) -> str:
    """Return a mean with its deviation over seeds in percent, such as ``"71.0 ± 0.6"``."""
    mean, deviation, _ = over_seeds(seeds, score)
    return percent(mean) + ("" if np.isnan(deviation) else f" ± {percent(deviation)}")


def report(models: Mapping[str, Model], dataset: str) -> list[Part]:
    """Return the sentences and tables of the report."""
    parts: list[Part] = [Verdict(model.sentence(label)) for label, model in models.items()]
    images = len(np.unique(next(iter(models.values())).retrieval[PLAIN][0].clusters))
    parts.append(
        f"Data: {dataset}, {images:,} images. Mean ± standard deviation over the seeds of shuffles. Intervals: 95 %, "
        'over images. Order is "hardly needed" if the interval of the share of recall@1 that is kept (mean of both '
        'directions) lies above two thirds, "needed" below a third, "needed in part" between, and else open.'
    )
    head = ["shuffled", "model", *HEADS]
    for title, names in TABLES.items():
        rows: list[Any] = []
        for label, model in models.items():
            rows += [
                None,
                *([name, label, *(cell(model.retrieval[name], score) for score in SCORES)] for name in names),
            ]
        parts.append(simple_table(head, rows, title=f"ARO, {title} (%)", numbers=True))
    rows = []
    for label, model in models.items():
        for base, shuffles in BASELINES.items():
            rows.append(None)
            for name in shuffles:
                before, after = model.retrieval[base], model.retrieval[name]
                rows.append([name, label, *(drop(before, after, score) for score in SCORES)])
    note = "Positive if order helps. Paired by query: shuffled words with cleaned captions, shuffled images with plain."
    parts.append(simple_table(head, rows, title="How much recall falls without order, points", note=note, numbers=True))
    return [*parts, composition_table(models, dataset)]


def composition_table(models: Mapping[str, Model], dataset: str) -> Table:
    """Return the accuracies on order and on composition."""
    cells = [
        f"{cell(model.order, 'accuracy')} [{interval(over_seeds(model.order, 'accuracy')[2])}]"
        for model in models.values()
    ]
    rows = [[f"order, {dataset}", percent(CHANCE), *cells]]
    for results in zip(*(model.composition for model in models.values()), strict=True):
        main, task = results[0].main_score, "{name}/{task}".format(**results[0].benchmark)
        base = main.removeprefix("macro_")
        chance = percent(results[0].chance.get(base))
        values = [(result.scores[main], result.scores.get(f"{main}_interval")) for result in results]
        cells = [percent(value) + (f" [{interval(bounds)}]" if bounds else "") for value, bounds in values]
        rows.append([f"{task}, {words(main)}", chance, *cells])
        for name, part in results[0].scores.get("per_category", {}).items():
            if base in part:
                cells = [percent(result.scores["per_category"][name].get(base)) for result in results]
                rows.append([f"{task}, {name}", chance, *cells])
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
                found = np.array([over_seeds(model.retrieval[name], score)[:2] for name in shuffles])
                mean, deviation = 100 * np.nan_to_num(found).T
                axes.errorbar(np.arange(len(mean)) + shift, mean, yerr=deviation, fmt="o", color=colour, label=label)
            axes.set_xticks(range(len(shuffles)), [name.replace(" ", "\n") for name in shuffles], fontsize="small")
        line[0].set(ylabel=f"{words(score)}, %", ylim=(0, 102))
    panels[0, 1].legend(frameon=False, loc="lower left")
    figure.savefig(path)


def measure(model: str, out: Path, dataset: str, config: RunConfig, quick: bool) -> Model:
    """Predict with a model under all conditions, and read what the predictions are worth."""

    def predictions(reference: str, seeds: Sequence[int]) -> Any:
        name = reference.partition("/")[0]
        known = {field: value for field, value in config.options.items() if field in option_names(name)}
        data_dir = None if name.startswith("toy_") else config.data_dir
        return predict(model, reference, out=out, seeds=seeds, config=replace(config, options=known, data_dir=data_dir))

    retrieval, order, composition = DATASETS[dataset]
    shuffled = range(2 if quick else 3)
    files = {
        name: predictions(retrieval + end, shuffled if "shuffle" in end else [0]) for name, end in CONDITIONS.items()
    }
    return Model(
        {name: [read_values(path) for path in found.paths] for name, found in files.items()},
        [read_values(path) for path in predictions(order, range(2 if quick else 5)).paths],
        predictions(composition, []).report() if composition else [],
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
        own = (each.removeprefix(f"{label}:") for each in options.setting if each.startswith(f"{label}:"))
        config = RunConfig(
            data_dir=options.data_dir,
            options={key: yaml.safe_load(value) for key, value in (each.split("=", 1) for each in options.option)},
            settings=dict(each.split("=", 1) for each in own),
            limit=200 if options.quick else None,
            progress=False,
        )
        models[label] = measure(model, options.out / label.replace("/", "-"), options.dataset, config, options.quick)
    parts = report(models, options.dataset)
    print_tables(parts)
    text = to_markdown(parts, "Retrieval with and without order", level=2)
    (options.out / "study.md").write_text(text, encoding="utf-8")
    plot(models, options.out / "study.png")


if __name__ == "__main__":
    main()
