"""What hard negatives, hard positives and in-batch negatives teach a small CLIP, on rendered scenes.

    python examples/hard_positives.py --out hard-positives

Repeats Tables 1 and 3 of *The Hard Positive Truth* (Kamath et al. 2024), SugarCrepe's test of artefacts (Hsieh et al.
2023, section 5.2) and ARO's hypothesis on in-batch negatives (Yuksekgonul et al. 2023, section 3) in miniature.
docs/study-hard-positives.md has the design and the results. It takes half an hour on 2 cores, and the same command
resumes; `--quick` only shows in seconds that it runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib import pyplot
from numpy.typing import NDArray
from scipy.stats import t as student

from vl_assay.hub_datasets.toy_scenes import episodes, language, render, tasks
from vl_assay.metrics.common.documents import Part, print_tables, simple_table, to_markdown
from vl_assay.metrics.common.formatting import percent, points
from vl_assay.metrics.functional.hard_positives import augmented_accuracy, brittleness
from vl_assay.metrics.statistics.bootstrap import cluster_bootstrap
from vl_assay.model_wrappers import load_model
from vl_assay.model_wrappers.demo_clip_web.captions import in_common_words, web_captions, with_synonym_of_difference
from vl_assay.model_wrappers.demo_clip_web.train import Recipe, train
from vl_assay.model_wrappers.finetune.data.captions import Sample, SceneImages
from vl_assay.model_wrappers.finetune.data.hard_negatives import add_hard_captions
from vl_assay.model_wrappers.finetune.data.training_set import TrainingSet
from vl_assay.model_wrappers.finetune.train.recipes import get_recipe
from vl_assay.model_wrappers.finetune.train.training import TrainingConfig, finetune

BASE, BOTH = "demo-clip-web", ("scene:swap", "scene:replace")
# By name: the label in the tables, the recipe, its hard captions, and the weight of its loss on hard negatives.
VARIANTS = {
    "plain": ("plain fine-tuning", "coco", BOTH, 0),
    "hn": ("HN", "hn", BOTH, 1),
    "hp+hn": ("HP+HN", "hp+hn", BOTH, 1),
    "swap-only": ("HP+HN, swap only", "swap-only", BOTH[:1], 1),
    "replace-only": ("HP+HN, replace only", "replace-only", BOTH[1:], 1),
    "hn-weight-0": ("HP + 0.00 HN", "hp+hn", BOTH, 0),
    "hn-weight-0.25": ("HP + 0.25 HN", "hp+hn", BOTH, 0.25),
    "hn-weight-0.5": ("HP + 0.50 HN", "hp+hn", BOTH, 0.5),
    "hn-stop": ("HN, negatives with a final period", "hn", BOTH, 1),
}
# Models trained from nothing by the number of captions that an image is compared with.
CURVE = {f"batch-{size}": size for size in (4, 8, 16, 32, 64)}
# Rows of the papers' tables, None for a line between groups.
TABLES = {
    "1": (BASE, "plain", None, "hn", "hp+hn", None, "swap-only", "replace-only"),
    "3": (BASE, None, "hn-weight-0", "hn-weight-0.25", "hn-weight-0.5", "hp+hn", None, "hn"),
}
CATEGORIES = {"attributes": "replace_att", "objects": "replace_obj", "relations": "replace_rel", "swap": "swap"}
KINDS, SIDES = ("replace", "swap"), ("words", "composition")
PARTS = {
    **{name: (category,) for name, category in CATEGORIES.items()},
    "replace": ("replace_att", "replace_rel"),
    "words": ("replace_att", "replace_obj"),
    "composition": ("replace_rel", "swap"),
}
ORIGINAL, AUGMENTED, BRITTLE = "original accuracy", "augmented accuracy", "brittleness"
GAP, STOPPED = "original − augmented", "accuracy on negatives with a period"
CHANCE = {ORIGINAL: 1 / 2, AUGMENTED: 1 / 3, BRITTLE: 1 / 3}
HEADS = dict(zip(CHANCE, ("original", "augmented", "brittleness ↓"), strict=True))


class Size(NamedTuple):
    """The number of captions to fine-tune on, of test scenes and of trainings of each model, and their lengths."""

    captions: int = 6000
    scenes: int = 1000
    seeds: int = 3
    epochs: int = 2
    batch: int = 32
    warmup: int = 10
    curve_steps: int = 1000
    curve_scenes: int = 6000


class Study(NamedTuple):
    """The scores of each model: cosines of shape (seeds, examples, 4); the start has a single row."""

    size: Size
    scores: dict[str, NDArray[np.float64]]


@lru_cache(1)
def make_examples(scenes: int) -> tuple[list[str], list[list[str]]]:
    """Return the category and four texts of each test example, four examples a scene.

    The texts are a caption in common words; a hard positive, with a rare synonym or the phrases exchanged; a hard
    negative, with the false word of toy_scenes or attributes exchanged; and the negative with a final period.
    """
    rows = [row for scene in range(scenes) for row in tasks.task_rows("hard_positives", 0, "test", scene)[1]]
    texts = []
    for row in rows:
        drawn, false = language.parse(row["caption"]), language.parse(row["negative_caption"])
        caption = in_common_words(drawn)
        if row["category"] == "swap":
            positive, negative = language.Statement(caption.phrases[::-1]), in_common_words(false)
        else:
            positive, phrases = with_synonym_of_difference(caption, in_common_words(false)), []
            for common, ours, theirs in zip(caption.phrases, drawn.phrases, false.phrases, strict=True):
                for word in {*theirs.adjectives, theirs.noun} - {*ours.adjectives, ours.noun}:
                    common = common.with_word(word)
                phrases.append(common)
            relation = caption.relation if drawn.relation == false.relation else false.relation
            negative = language.Statement(tuple(phrases), relation)
        texts.append([caption.text, positive.text, negative.text, f"{negative.text}."])
    return [row["category"] for row in rows], texts


def score_examples(model: Any, scenes: int) -> NDArray[np.float64]:
    """Return the cosines of each example's texts with its scene, of shape (4 · scenes, 4), with 7 digits."""
    texts = make_examples(scenes)[1]
    distinct = sorted({text for each in texts for text in each}, key=lambda text: (len(text), text))
    captions = [
        model.encode_captions(model.prepare_captions(distinct[start : start + 64]))
        for start in range(0, len(distinct), 64)
    ]
    worlds = [tasks.task_rows("captions", 0, "test", scene)[1][0]["image"] for scene in range(scenes)]
    images = [
        model.encode_images([model.prepare_image(render.render(world)) for world in worlds[start : start + 64]])
        for start in range(0, scenes, 64)
    ]
    image_rows = np.repeat(np.concatenate(images).astype(np.float64), 4, axis=0)
    index = {text: row for row, text in enumerate(distinct)}
    caption_rows = np.concatenate(captions).astype(np.float64)[[[index[text] for text in each] for each in texts]]
    return np.einsum("md,mcd->mc", image_rows, caption_rows).round(7)


def make_training_set(kinds: tuple[str, ...], seed: int, captions: int, *, stop: bool) -> TrainingSet:
    """Return captions in common words with hard captions of some kinds; with `stop`, negatives end in a period."""
    scenes, samples, number = {}, {}, 0
    while len(samples) < captions:
        episode, image = episodes.sample_episode(1 + seed, "train", number), f"train-{number:06d}.png"
        scenes[image] = episode.scene
        for statement in web_captions(episode, episodes.rng_for(1 + seed, "train", number, 1001), rare=0):
            key = (image, statement.text)
            samples[key] = Sample(*key, id=f"{image}#{len(samples)}")
        number += 1
    rows, _ = add_hard_captions([*samples.values()][:captions], SceneImages(scenes), kinds, kinds, (), seed)
    if stop:
        rows = [row._replace(negatives=tuple(f"{text}." for text in row.negatives)) for row in rows]
    return TrainingSet("toy_scenes in common words", rows, SceneImages(scenes))


def train_and_score(name: str, seed: int, size: Size, out: Path) -> NDArray[np.float64]:
    """Train a model by one thread, unless it is finished, and return its scores of the examples."""
    torch.set_num_threads(1)
    folder = out / f"seed-{seed}" / name
    if name in VARIANTS:
        _, base, kinds, weight = VARIANTS[name]
        recipe = replace(
            get_recipe(base), name=name, gaps="In miniature.", negatives=kinds, positives=kinds, neighbours=0,
            weights=get_recipe(base).weights._replace(hard_negative=weight), frozen=False, epochs=size.epochs,
            batch_size=size.batch, learning_rate=1e-3, warmup_steps=size.warmup, seed=seed,
        )  # fmt: skip
        data = make_training_set(kinds, seed, size.captions, stop=name == "hn-stop")
        finetune(BASE, data, folder, recipe, config=TrainingConfig(micro_batch=size.batch, workers=1), progress=False)
    elif name in CURVE and not (folder / "model.safetensors").exists():
        steps, scenes = size.curve_steps, size.curve_scenes
        # The seed is also that of the scenes; no other model is trained on these.
        recipe = Recipe(steps, scenes, group=CURVE[name], warmup=min(Recipe.warmup, steps // 2), seed=100 + seed)
        for part in reversed(train(recipe, quiet=True)):  # the weights last: they show that the training ended
            part.save_pretrained(folder)
    return score_examples(load_model(BASE if name == BASE else str(folder)), size.scenes)


def per_scene(study: Study, name: str, measure: str, *parts: str) -> NDArray[np.float64]:
    """Return the mean of a measure over the examples of each scene, of shape (seeds, scenes); ties are wrong."""
    wanted = {category for part in parts for category in PARTS[part]}
    rows = [row for row, category in enumerate(make_examples(study.size.scenes)[0]) if category in wanted]
    caption, positive, negative, stopped = np.moveaxis(study.scores[name][:, rows], -1, 0)
    original, kept = caption > negative, positive > negative
    values = {
        ORIGINAL: original,
        AUGMENTED: original & kept,
        GAP: original & ~kept,
        BRITTLE: (original != kept) & (caption != negative) & (positive != negative),
        STOPPED: caption > stopped,
    }[measure]
    return values.reshape(len(values), study.size.scenes, -1).mean(axis=-1)


def estimate(values: NDArray[np.float64], low: float = 0.0, high: float = 1.0) -> tuple[float, float, float]:
    """Return the mean of values in [`low`, `high`] of shape (seeds, scenes), and its 95 % interval over scenes."""
    scaled = (values.mean(axis=0) - low) / (high - low)
    bounds = cluster_bootstrap(scaled, range(len(scaled)), resamples=2000).micro
    return float(values.mean()), *(low + (high - low) * bound for bound in bounds)


def measured(study: Study, name: str, measure: str, part: str) -> tuple[float, float, float]:
    """Return the mean over categories of a measure for the examples of all seeds, and its 95 % interval over scenes."""
    categories, scores = make_examples(study.size.scenes)[0], study.scores[name]
    rows = [row for row, category in enumerate(categories) if category in PARTS[part]]
    metric, key = brittleness if measure == BRITTLE else augmented_accuracy, f"macro_{measure.replace(' ', '_')}"
    found = metric(
        scores[:, rows, :3].reshape(-1, 3),
        categories=[categories[row] for row in rows] * len(scores),
        clusters=[row // 4 for row in rows] * len(scores),
        confidence=0.95,
        resamples=2000,
    )
    return found[key], *found[f"{key}_interval"]


def cell(mean: float, low: float, high: float) -> str:
    """Return a mean in percent with its interval, such as ``"71.2 [69.2, 73.0]"``."""
    return f"{percent(mean)} [{percent(low)}, {percent(high)}]"


def finding(claim: str, compared: str, values: NDArray[np.float64]) -> list[str]:
    """Return the row of a claim that values in [-2, 2], of shape (seeds, scenes), are above 0 on average."""
    mean, low, high = estimate(values, -2, 2)
    by_seed, bounds, over_seeds = values.mean(axis=1), [(low, high)], "–"
    if len(by_seed) > 1:
        half = student.ppf(0.975, len(by_seed) - 1) * by_seed.std(ddof=1) / np.sqrt(len(by_seed))
        bounds.append((mean - half, mean + half))
        over_seeds = "[{}, {}]".format(*map(signed, bounds[1]))
    verdict = "shown" if min(bounds)[0] > 0 else "refuted" if max(high for _, high in bounds) < 0 else "not shown"
    difference = "{} [{}, {}]".format(*map(signed, (mean, low, high)))
    return [claim, compared, difference, ", ".join(map(signed, by_seed)), over_seeds, verdict]


def signed(value: float) -> str:
    """Return a difference in points with its sign."""
    return points(float(value)).replace("-", "−")


def findings(study: Study) -> list[list[str]]:
    """Return the rows of the papers' findings: a measure of the first model is above that of the others."""
    rows, start = [], (BASE, "plain")

    def add(claim: str, measure: str, name: str, others: Sequence[str], kinds: Sequence[str] = KINDS) -> None:
        for other, kind in product(others, kinds):
            values = per_scene(study, name, measure, kind) - per_scene(study, other, measure, kind)
            rows.append(finding(claim, f"{kind.upper()}, {measure}: {name} − {other}", values))

    add("HN raises original accuracy", ORIGINAL, "hn", start)
    add("HN raises original accuracy more than augmented", GAP, "hn", start)
    add("HN raises brittleness", BRITTLE, "hn", start)
    add("HP+HN raises original accuracy", ORIGINAL, "hp+hn", start)
    add("HP+HN raises augmented accuracy", AUGMENTED, "hp+hn", (*start, "hn"))
    add("HP+HN is less brittle than HN", BRITTLE, "hn", ["hp+hn"])
    for name, kind in (("swap-only", "replace"), ("replace-only", "swap")):
        claim = f"{name.capitalize()} does not do for {kind.upper()} what both do"
        add(claim, AUGMENTED, "hp+hn", [name], [kind])
        add(claim, BRITTLE, name, ["hp+hn"], [kind])
    for measure in (ORIGINAL, AUGMENTED):
        add(f"A higher weight of HN raises {measure}", measure, "hp+hn", ["hn-weight-0"])
    add("A higher weight of HN raises brittleness on REPLACE", BRITTLE, "hp+hn", ["hn-weight-0"], ["replace"])
    add("HN alone has a higher original accuracy than HP+HN", ORIGINAL, "hn", ["hp+hn"])
    stopped, base, plain = (
        per_scene(study, name, STOPPED, *SIDES) - per_scene(study, name, ORIGINAL, *SIDES)
        for name in ("hn-stop", *start)
    )
    claim = "Trained on negatives with a final period, HN gains more on such than on others"
    rows.append(finding(claim, f"all, gain over {BASE}: with a period − without", stopped - base))
    rows.append(finding(claim, "all, gain over plain: with a period − without", stopped - plain))
    words, composition = (per_scene(study, "batch-4", ORIGINAL, side) for side in SIDES)
    claim = "Few in-batch negatives teach words, not composition"
    rows.append(finding(claim, "batch-4, original accuracy: words − composition", words - composition))
    kinds = ("composition", "relations", "swap")
    add("More in-batch negatives teach composition", ORIGINAL, "batch-64", ["batch-4"], kinds)
    return rows


def report(study: Study) -> list[Part]:
    """Return the paragraphs and tables of the report."""
    size, labels = study.size, {BASE: BASE, **{name: label for name, (label, *_) in VARIANTS.items()}}
    steps = size.epochs * max(size.captions // size.batch, 1)
    parts: list[Part] = [
        f"Fine-tuning: {size.captions:,} captions, {steps:,} steps of {size.batch}. Curve: {size.curve_steps:,} steps "
        f"of 64. Each model was trained {size.seeds} times and tested on {size.scenes:,} scenes. Intervals are 95 %, "
        "over scenes; over seeds, Student's. A finding is shown if both lie above 0, and refuted if both lie below."
    ]
    columns = [*product(CHANCE, KINDS)]
    head = ["", *(f"{kind.upper()} {HEADS[measure]}" for measure, kind in columns)]
    chance = ["random choice", *(percent(CHANCE[measure]) for measure, _ in columns)]
    for table, names in TABLES.items():
        rows = [name and [labels[name], *(cell(*measured(study, name, *each)) for each in columns)] for name in names]
        title = f"Table {table} of The Hard Positive Truth, for the toy world (%)"
        parts.append(simple_table(head, [*rows, None, chance], title=title))
    columns = [*product(CATEGORIES, CHANCE)]
    rows = [
        [labels[name], *(percent(measured(study, name, measure, kind)[0]) for kind, measure in columns)]
        for name in (BASE, "plain", "hn", "hp+hn")
    ]
    head = ["", *(f"{kind} {HEADS[measure]}" for kind, measure in columns)]
    parts.append(simple_table(head, rows, title="By category (%)"))
    rows = [
        [labels[name], *(cell(*estimate(per_scene(study, name, measure, *SIDES))) for measure in (ORIGINAL, STOPPED))]
        for name in (BASE, "plain", "hn", "hn-stop")
    ]
    title = "SugarCrepe's point: negatives with an artefact, in training and test (%)"
    parts.append(simple_table(["accuracy on negatives", "as they are", "with a final period"], rows, title=title))
    columns = [*product([ORIGINAL], CATEGORIES), *product([BRITTLE], KINDS)]
    rows = [[str(size), *(cell(*measured(study, name, *column)) for column in columns)] for name, size in CURVE.items()]
    head = ["captions that an image is told apart among", *(f"{category} original" for category in CATEGORIES)]
    head += [f"{kind.upper()} brittleness ↓" for kind in KINDS]
    title = "ARO's hypothesis: composition by the number of in-batch negatives (%)"
    parts.append(simple_table(head, rows, title=title))
    head = ["finding", "compared", "difference, points", "by seed", "over seeds", "here"]
    return [*parts, simple_table(head, findings(study), title="Findings of the papers")]


def plot(study: Study, path: Path) -> None:
    """Draw original accuracy against brittleness of each variant, and accuracy by the number of in-batch negatives."""
    figure, axes = pyplot.subplots(1, 3, figsize=(15, 5), layout="constrained")

    def bars(names: Sequence[str], measure: str, part: str) -> tuple[Any, Any]:
        means, lows, highs = 100 * np.transpose([measured(study, name, measure, part) for name in names])
        return means, np.clip([means - lows, highs - means], 0, None)

    for panel, kind in zip(axes, KINDS, strict=False):
        for name in (BASE, *list(VARIANTS)[:-1]):
            (x, x_error), (y, y_error) = (bars([name], measure, kind) for measure in (ORIGINAL, BRITTLE))
            panel.errorbar(x, y, xerr=x_error, yerr=y_error, fmt="*" if name == BASE else "o", capsize=2, label=name)
        panel.set(xlabel="original accuracy, %", ylabel="brittleness, % (lower is better)", title=kind.upper())
    for category in CATEGORIES:
        means, error = bars([*CURVE], ORIGINAL, category)
        axes[2].errorbar([*CURVE.values()], means, yerr=error, capsize=2, marker="o", label=category)
    axes[2].set(xscale="log", xlabel="captions that an image is told apart among", title="From nothing")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    axes[2].legend(frameon=False)
    figure.savefig(path)


def main() -> None:
    """Train and score all models, and print and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the models, study.md and study.png")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each model")
    parser.add_argument("--jobs", type=int, default=1, help="seeds trained at once, in processes")
    parser.add_argument("--quick", action="store_true", help="far too small to show anything")
    options = parser.parse_args()
    size = Size(seeds=options.seeds)
    if options.quick:
        size = Size(64, 12, 1, epochs=1, batch=16, warmup=1, curve_steps=2, curve_scenes=64)
    scores = {BASE: np.stack([train_and_score(BASE, 0, size, options.out)])}
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        for name in (*VARIANTS, *CURVE):
            arguments = zip(*((name, seed, size, options.out) for seed in range(size.seeds)), strict=True)
            found = map(train_and_score, *arguments) if options.jobs == 1 else pool.map(train_and_score, *arguments)
            scores[name] = np.stack(list(found))
    parts = report(Study(size, scores))
    print_tables(parts)
    title = "Hard negatives, hard positives and in-batch negatives, in miniature"
    (options.out / "study.md").write_text(to_markdown(parts, title, level=2), encoding="utf-8")
    plot(Study(size, scores), options.out / "study.png")


if __name__ == "__main__":
    main()
