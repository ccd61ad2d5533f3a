"""What hard negatives, hard positives and in-batch negatives teach a small CLIP, on rendered scenes.

    python examples/hard_positives.py --out hard-positives

Repeats Tables 1 and 3 of *The Hard Positive Truth* (Kamath et al. 2024), SugarCrepe's test of artefacts (Hsieh et al.
2023, section 5.2) and ARO's hypothesis on in-batch negatives (Yuksekgonul et al. 2023, section 3) in miniature.
docs/study-hard-positives.md has the design and the results. All of it takes an hour on one core, and the same command
resumes; `--quick` only shows in seconds that it runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from matplotlib import pyplot
from numpy.typing import NDArray
from scipy.stats import t as student

from vl_assay.hub_datasets.toy_scenes import episodes, language, render, tasks
from vl_assay.metrics.common.documents import Part, Table, print_tables, simple_table, to_markdown
from vl_assay.metrics.common.formatting import percent, points, words
from vl_assay.metrics.estimation.bootstrap import cluster_bootstrap
from vl_assay.metrics.functional.hard_positives import augmented_accuracy, brittleness
from vl_assay.model_wrappers import load_model
from vl_assay.model_wrappers.demo_clip_web.captions import in_common_words, web_captions, with_synonym_of_difference
from vl_assay.model_wrappers.demo_clip_web.train import DemoClipWebRecipe, train
from vl_assay.model_wrappers.finetune.data.captions import Sample, SceneImages
from vl_assay.model_wrappers.finetune.data.hard_negatives import add_hard_captions
from vl_assay.model_wrappers.finetune.data.training_set import TrainingSet
from vl_assay.model_wrappers.finetune.train.recipes import get_recipe
from vl_assay.model_wrappers.finetune.train.training import TrainingConfig, finetune

Array = NDArray[np.float64]
BASE = "demo-clip-web"
STUDY = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
# Models trained from nothing by the number of captions that an image is compared with.
CURVE = {f"batch-{size}": size for size in (4, 8, 16, 32, 64)}
LABELS = {name: variant["label"] for name, variant in STUDY["variants"].items()}
KINDS = {"REPLACE": ("replace_att", "replace_rel"), "SWAP": ("swap",)}
CATEGORIES = {name: (f"replace_{name[:3]}",) for name in ("attributes", "objects", "relations")} | {"swap": ("swap",)}
SIDES = {"words": ("replace_att", "replace_obj"), "composition": ("replace_rel", "swap")}
PARTS = KINDS | CATEGORIES | SIDES | {"all": ("replace_att", "replace_obj", "replace_rel", "swap")}
MEASURES = ORIGINAL, AUGMENTED, BRITTLE = ("original_accuracy", "augmented_accuracy", "brittleness")
HEADS = {ORIGINAL: "original", AUGMENTED: "augmented", BRITTLE: "brittleness ↓", "with_period": "with a final period"}


@lru_cache(1)
def make_examples(scenes: int) -> tuple[list[str], list[list[str]]]:
    """Return the category and the texts of each test example, four examples a scene.

    The texts: a caption in common words; a hard positive (a rare synonym, or the phrases exchanged); a hard negative (a
    false word of toy_scenes, or attributes exchanged); the negative with a final period.
    """
    rows = [row for scene in range(scenes) for row in tasks.task_rows("hard_positives", 0, "test", scene)[1]]
    texts = []
    for row in rows:
        drawn, false = language.parse(row["caption"]), language.parse(row["negative_caption"])
        caption, negative = in_common_words(drawn), in_common_words(false)
        if row["category"] == "swap":
            positive = language.Statement(caption.phrases[::-1])
        else:
            positive = with_synonym_of_difference(caption, negative)
            phrases = [
                reduce(language.NounPhrase.with_word, {*new.adjectives, new.noun} - {*old.adjectives, old.noun}, common)
                for common, old, new in zip(caption.phrases, drawn.phrases, false.phrases, strict=True)
            ]
            relation = caption.relation if drawn.relation == false.relation else false.relation
            negative = language.Statement(tuple(phrases), relation)
        texts.append([caption.text, positive.text, negative.text, f"{negative.text}."])
    return [row["category"] for row in rows], texts


def score_examples(model: Any, scenes: int) -> Array:
    """Return the cosines of each example's texts with its scene, of shape (4 · scenes, 4), with 7 digits."""
    texts, scores = make_examples(scenes)[1], []
    for start in range(0, scenes, 32):
        batch = range(start, min(start + 32, scenes))
        worlds = [tasks.task_rows("hard_positives", 0, "test", scene)[1][0]["image"] for scene in batch]
        images = model.encode_images([model.prepare_image(render.render(world)) for world in worlds]).numpy()
        captions = [text for example in texts[4 * start : 4 * batch.stop] for text in example]
        embeddings = model.encode_captions(model.prepare_captions(captions)).numpy().astype(np.float64)
        scores.append(np.einsum("nd,nd->n", embeddings, np.repeat(images, 16, axis=0)))
    return np.concatenate(scores).reshape(-1, 4).round(7)


def make_training_set(kinds: tuple[str, ...], seed: int, captions: int, stop: bool) -> TrainingSet:
    """Return captions in common words with hard captions of some kinds; with `stop`, negatives end in a period."""
    scenes, samples = {}, {}
    while len(samples) < captions:
        number = len(scenes)
        episode, image = episodes.sample_episode(1 + seed, "train", number), f"train-{number:06d}.png"
        scenes[image] = episode.scene
        for statement in web_captions(episode, episodes.rng_for(1 + seed, "train", number, 1001), rare=0):
            samples[image, statement.text] = Sample(image, statement.text, id=f"{image}#{len(samples)}")
    rows, _ = add_hard_captions([*samples.values()][:captions], SceneImages(scenes), kinds, kinds, (), seed)
    if stop:
        rows = [row._replace(negatives=tuple(f"{text}." for text in row.negatives)) for row in rows]
    return TrainingSet("toy_scenes in common words", rows, SceneImages(scenes))


def train_and_score(name: str, seed: int, out: Path, captions: int, scenes: int, curve_steps: int) -> Array:
    """Train a model, unless it is finished, and return its scores of the examples of the test scenes."""
    folder = out / f"seed-{seed}" / name
    if name in STUDY["variants"]:
        _, base, kinds, weight = STUDY["variants"][name].values()
        data = make_training_set(tuple(kinds), seed, captions, name == "hn-stop")
        recipe = replace(
            get_recipe(base), name=name, gaps="In miniature.", negatives=tuple(kinds), positives=tuple(kinds),
            weights=get_recipe(base).weights._replace(hard_negative=weight), neighbours=0, frozen=False, epochs=2,
            batch_size=32, learning_rate=1e-3, warmup_steps=10, seed=seed,
        )  # fmt: skip
        finetune(BASE, data, folder, recipe, config=TrainingConfig(workers=1), progress=False)
    elif name in CURVE and not (folder / "model.safetensors").exists():
        # The seed is also that of the scenes; no other model is trained on these.
        warmup = min(DemoClipWebRecipe.warmup, curve_steps // 2)
        recipe = DemoClipWebRecipe(
            curve_steps, max(64, 6 * curve_steps), group=CURVE[name], warmup=warmup, seed=100 + seed
        )
        for part in reversed(train(recipe, quiet=True)):  # the weights last: they show that the training ended
            part.save_pretrained(folder)
    return score_examples(load_model(BASE if name == BASE else str(folder)), scenes)


def per_scene(scores: Array, measure: str, part: str) -> Array:
    """Return the mean of a measure over the examples of each scene, of shape (seeds, scenes)."""
    categories = make_examples(scores.shape[1] // 4)[0]
    chosen = scores[:, [row for row, category in enumerate(categories) if category in PARTS[part]]]
    triples = chosen[..., :3].reshape(-1, 3)
    values = {**augmented_accuracy.per_example(triples).values, **brittleness.per_example(triples).values}
    values["with_period"] = (chosen[..., 0] > chosen[..., 3]).ravel()
    values["gain_by_period"] = values["with_period"] - values[ORIGINAL]
    return values[measure].reshape(len(scores), scores.shape[1] // 4, -1).mean(axis=-1)


def estimate(values: Array, low: float = 0.0, high: float = 1.0) -> tuple[float, float, float]:
    """Return the mean of values in [`low`, `high`] of shape (seeds, scenes), and its 95 % interval over scenes."""
    scaled = (values.mean(axis=0) - low) / (high - low)
    bounds = cluster_bootstrap(scaled, range(len(scaled)), resamples=2000).micro
    return float(values.mean()), *(low + (high - low) * bound for bound in bounds)


def finding(claim: str, compared: str, values: Array) -> list[str]:
    """Return the row of a claim that values in [-2, 2], of shape (seeds, scenes), are above 0 on average."""
    mean, low, high = estimate(values, -2, 2)
    by_seed, bounds, over_seeds = values.mean(axis=1).tolist(), [(low, high)], "–"
    if len(by_seed) > 1:
        half = student.ppf(0.975, len(by_seed) - 1) * np.std(by_seed, ddof=1) / np.sqrt(len(by_seed))
        bounds.append((mean - half, mean + half))
        over_seeds = "[{}, {}]".format(*map(points, bounds[1]))
    verdict = "shown" if min(bounds)[0] > 0 else "refuted" if max(high for _, high in bounds) < 0 else "not shown"
    over_scenes = "{} [{}, {}]".format(*map(points, (mean, low, high)))
    return [claim, compared, over_scenes, ", ".join(map(points, by_seed)), over_seeds, verdict]


def findings(scores: dict[str, Array]) -> list[list[str]]:
    """Return the rows of the papers' findings."""
    rows = []
    for claim, measure, name, others, parts in STUDY["findings"]:
        for other, part in product(others, parts):
            values = per_scene(scores[name], measure, part) - per_scene(scores[other], measure, part)
            rows.append(finding(claim, f"{part.upper()}, {words(measure)}: {name} − {other}", values))
    word, composition = (per_scene(scores["batch-4"], ORIGINAL, side) for side in SIDES)
    claim, compared = "Few in-batch negatives teach words, not composition", "batch-4: words − composition"
    return [*rows, finding(claim, compared, word - composition)]


def table(scores: dict[str, Array], title: str, names: Any, columns: Any, corner: str = "", note: str = "") -> Table:
    """Return a table with a row for each model, None for a line, and a column for each measure of a part."""
    form = "{0}" if len(columns) > 6 else "{} [{}, {}]"
    rows: list[Any] = []
    for name in names:
        cells = [form.format(*map(percent, estimate(per_scene(scores[name], *each)))) for each in columns if name]
        rows.append(name and [LABELS.get(name, name.removeprefix("batch-")), *cells])
    heads = (f"{'' if part == 'all' else part} {HEADS[measure]}".strip() for measure, part in columns)
    return simple_table([corner, *heads], rows, title=title, note=note)


def report(scores: dict[str, Array], size: Sequence[int]) -> list[Part]:
    """Return the paragraphs and tables of the report."""
    captions, scenes, steps = size
    parts: list[Part] = [
        f"Fine-tuning: {captions:,} captions, {2 * (captions // 32):,} steps of 32. Curve: {steps:,} steps of 64. Each "
        f"model was trained {len(scores['hn'])} times and tested on {scenes:,} scenes. Intervals: 95 %, over scenes, "
        "and Student's over seeds. A finding is shown if both lie above 0, and refuted if both lie below."
    ]
    note = "Random choice: original accuracy 50.0, augmented accuracy 33.3, brittleness 33.3."
    for key, names in STUDY["tables"].items():
        title = f"Table {key} of The Hard Positive Truth, for the toy world (%)"
        parts.append(table(scores, title, names, [*product(MEASURES, KINDS)], note=note))
    columns = [pair[::-1] for pair in product(CATEGORIES, MEASURES)]
    parts.append(table(scores, "By category (%)", (BASE, "plain", "hn", "hp+hn"), columns))
    title = "SugarCrepe's point: negatives with an artefact, in training and test (%)"
    columns = [(ORIGINAL, "all"), ("with_period", "all")]
    parts.append(table(scores, title, (BASE, "plain", "hn", "hn-stop"), columns, "accuracy on all negatives"))
    title = "ARO's hypothesis: composition by the number of in-batch negatives (%)"
    columns = [*product([ORIGINAL], CATEGORIES), *product([BRITTLE], KINDS)]
    parts.append(table(scores, title, CURVE, columns, "captions that an image is told apart among"))
    head = ["finding", "compared", "difference, points", "by seed", "over seeds", "here"]
    return [*parts, simple_table(head, findings(scores), title="Findings of the papers")]


def plot(scores: dict[str, Array], path: Path) -> None:
    """Draw original accuracy against brittleness of each variant, and accuracy by the number of in-batch negatives."""
    figure, axes = pyplot.subplots(1, 3, figsize=(15, 5), layout="constrained")

    def bars(names: Iterable[str], measure: str, part: str) -> tuple[Array, Array]:
        means, lows, highs = 100 * np.transpose([estimate(per_scene(scores[name], measure, part)) for name in names])
        return means, np.clip([means - lows, highs - means], 0, None)

    for panel, kind in zip(axes, KINDS, strict=False):
        for name in (BASE, *list(STUDY["variants"])[:-1]):
            (x, x_error), (y, y_error) = (bars([name], measure, kind) for measure in (ORIGINAL, BRITTLE))
            panel.errorbar(x, y, xerr=x_error, yerr=y_error, fmt="*" if name == BASE else "o", capsize=2, label=name)
        panel.set(xlabel="original accuracy, %", ylabel="brittleness, % (lower is better)", title=kind)
    for category in CATEGORIES:
        means, error = bars(CURVE, ORIGINAL, category)
        axes[2].errorbar([*CURVE.values()], means, yerr=error, capsize=2, marker="o", label=category)
    axes[2].set(xscale="log", xlabel="captions that an image is told apart among", title="From nothing")
    axes[2].legend(frameon=False)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(path)


def main() -> None:
    """Train and score all models, and print and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the models, study.md and study.png")
    parser.add_argument("--quick", action="store_true", help="one seed, far too small to show anything")
    options = parser.parse_args()
    torch.set_num_threads(1)  # so that numbers do not depend on the machine
    seeds, size = (1, (32, 12, 2)) if options.quick else (3, (6000, 1000, 1000))
    scores = {BASE: train_and_score(BASE, 0, options.out, *size)[None]}
    for name in (*STUDY["variants"], *CURVE):
        scores[name] = np.stack([train_and_score(name, seed, options.out, *size) for seed in range(seeds)])
    parts = report(scores, size)
    print_tables(parts)
    title = "Hard negatives, hard positives and in-batch negatives, in miniature"
    (options.out / "study.md").write_text(to_markdown(parts, title, level=2), encoding="utf-8")
    plot(scores, options.out / "study.png")


if __name__ == "__main__":
    main()
