"""A study in miniature: what hard negatives and hard positives do to a model, on toy_scenes with demo-clip.

After *The Hard Positive Truth* (Kamath et al. 2024, sections 5.2 and 5.3, Tables 1 and 3) and SugarCrepe (Hsieh et al.
2023, section 5.2). Only the losses and the texts that they look at differ between the variants: the captions, their
order, the number of steps and the learning rate are the same. The hard negatives and hard positives are exact, from
the scenes; NegCLIP's loss is taken without its neighbouring images, so that it sees no more images than the others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...hub_datasets.toy_scenes.render import render
from ...hub_datasets.toy_scenes.tasks import task_rows
from ...metrics._storage import write_text
from ...metrics.errors import ScoresError
from .._families import load_model
from .._processes import default_device
from .._progress import Progress
from .._protocol import DualEncoder, LoadOptions
from .data import TrainingSet, read_training_set
from .losses import Weights
from .recipes import Recipe, get_recipe
from .training import Running, finetune

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BASE", "FULL", "QUICK", "VARIANTS", "Example", "Size", "Study", "Variant", "run_study"]

MODEL = BASE = "demo-clip"
_TEST_WORLD = 0
_ITM = ("replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
_IMAGES_AT_ONCE, _CAPTIONS_AT_ONCE = 64, 512


@dataclass(frozen=True)
class Variant:
    """One way to fine-tune.

    Args:
        name: of its folder.
        label: its row in the tables.
        recipe: the recipe that it follows in all that is not said here.
        weights: what each loss counts.
        kinds: of hard negatives and hard positives, of ``"swap"`` and ``"replace"``.
        artefact: whether the negatives have the planted artefact (see `with_wrong_article`).
    """

    name: str
    label: str
    recipe: str
    weights: Weights
    kinds: tuple[str, ...] = ("swap", "replace")
    artefact: bool = False


_NEGCLIP, _HN, _BOTH = Weights(contrastive=0, negclip=1), Weights(hard_negative=1), Weights(1, 0, 1, 1)
VARIANTS = (
    Variant("plain", "plain fine-tuning", "coco", Weights()),
    Variant("negclip-swap", "NegCLIP's loss, swap", "negclip", _NEGCLIP, ("swap",)),
    Variant("negclip-replace", "NegCLIP's loss, replace", "negclip", _NEGCLIP, ("replace",)),
    Variant("hn", "HN", "hn", _HN),
    Variant("hp+hn", "HP+HN", "hp+hn", _BOTH),
    Variant("swap-only", "HP+HN, swap only", "swap-only", _BOTH, ("swap",)),
    Variant("replace-only", "HP+HN, replace only", "replace-only", _BOTH, ("replace",)),
    *(
        Variant(f"hn-weight-{weight:g}", f"HP + {weight:.2f} HN", "hp+hn", _BOTH._replace(hard_negative=weight))
        for weight in (0, 0.25, 0.5, 0.75)
    ),
    Variant("hn-artefact", "HN, negatives with the artefact", "hn", _HN, artefact=True),
)


@dataclass(frozen=True)
class Size:
    """How large a study is.

    Args:
        captions: that each variant is trained on, five for a scene; others for each seed.
        epochs, batch_size, learning_rate, warmup_steps: of each training. demo-clip was trained at 1e-3 on batches of
            128.
        scenes: of the test split that are tested on, at most 1,000.
        seeds: how many trainings each variant has.
    """

    captions: int
    scenes: int
    seeds: int = 3
    epochs: int = 1
    batch_size: int = 64
    learning_rate: float = 5e-4
    warmup_steps: int = 10

    def __post_init__(self) -> None:
        limits = {"captions": (2, 10**6), "scenes": (2, 1000), "seeds": (1, 100)}
        for name, (low, high) in limits.items():
            if not low <= getattr(self, name) <= high:
                raise ScoresError(f"{name} is {getattr(self, name)}; it must be from {low} to {high}")


FULL = Size(captions=4000, scenes=1000)
QUICK = Size(captions=640, scenes=250, seeds=1)


class Example(NamedTuple):
    """A scene of the test split and captions to rank.

    Attributes:
        task: ``"hard_positives"``: the caption, its hard positive and its hard negative; or ``"itm"``: the caption, its
            hard negative, and the same negative with the planted artefact.
        category: of that task in toy_scenes.
        scene: its number in the test split.
        captions: three.
    """

    task: str
    category: str
    scene: int
    captions: tuple[str, str, str]


@dataclass(frozen=True)
class Study:
    """What came of a study.

    Args:
        size: how large it was.
        examples: what the models were tested on, m of them.
        scores: by variant, `BASE` among them, cosines of shape (seeds, m, 3); the base has a single row.
        variants: those that were trained.
    """

    size: Size
    examples: Sequence[Example]
    scores: Mapping[str, NDArray[np.float64]]
    variants: Sequence[Variant]


def run_study(
    out: str | Path, size: Size = FULL, *, variants: Sequence[Variant] = VARIANTS, progress: bool = True
) -> Study:
    """Train each variant with each seed, score all models, and write the report (`_study_report.write_study`).

    A variant is a model folder, ``out/seed-0/hn``, that `finetune` wrote; those that are finished are not trained or
    scored again, and one that was killed goes on.

    Args:
        out: the study's folder.
        size: how large it is.
        variants: what to train; findings and rows of tables that need another are left out.
        progress: whether to show progress.

    Raises:
        VLAssayError: ``out`` holds a study of another size, or something else.
        StorageError: no space is left; what is finished stays.
    """
    from ._study_report import write_study

    out = Path(out)
    examples = make_examples(size.scenes)
    found: dict[str, list[NDArray[np.float64]]] = {variant.name: [] for variant in variants}
    bars = Progress(show=progress)
    trainings = len(variants) * size.seeds
    bars.say(f"{trainings} trainings on {size.captions:,} captions each; tested on {size.scenes:,} scenes")
    with bars.bar("models", 1 + trainings) as advance:
        base = _scored(out / "base.json", {"model": MODEL, "scenes": size.scenes}, MODEL, examples)
        advance(1)
        for seed in range(size.seeds):
            sets: dict[tuple[Any, ...], TrainingSet] = {}
            for variant in variants:
                found[variant.name].append(_trained(variant, size, seed, out, sets, examples))
                advance(1)
    scores = {BASE: base[None], **{name: np.stack(rows) for name, rows in found.items()}}
    study = Study(size, examples, scores, variants)
    write_study(study, out)
    return study


def with_wrong_article(caption: str) -> str:
    """The planted artefact: a caption with the wrong one of "a" and "an" before its first phrase.

    As a rule leaves it that puts another word in without a look at the article; here each negative has it.

    >>> with_wrong_article("a red circle above an azure square")
    'an red circle above an azure square'
    """
    article, rest = caption.split(" ", 1)
    return f"{'an' if article == 'a' else 'a'} {rest}"


def make_examples(scenes: int) -> list[Example]:
    """The examples of the first scenes of the test split, of ``hard_positives`` first."""
    found = [
        Example("hard_positives", row["category"], number, tuple(row[f"{name}caption"] for name in _TRIPLE))
        for number in range(scenes)
        for row in task_rows("hard_positives", _TEST_WORLD, "test", number)[1]
    ]
    for number in range(scenes):
        for row in task_rows("itm", _TEST_WORLD, "test", number)[1]:
            if row["category"] in _ITM:
                negative = row["negative_caption"]
                captions = (row["caption"], negative, with_wrong_article(negative))
                found.append(Example("itm", row["category"], number, captions))
    return found


_TRIPLE = ("", "positive_", "negative_")


def make_recipe(variant: Variant, size: Size, seed: int) -> Recipe:
    """The recipe of a variant in a study of that size."""
    kinds = tuple(f"scene:{kind}" for kind in variant.kinds)
    return replace(
        get_recipe(variant.recipe),
        name=variant.name,
        gaps="In miniature: data, length and learning rate are those of `vl-assay study hard-positives`.",
        weights=variant.weights,
        negatives=kinds,
        positives=kinds,
        neighbours=0,
        epochs=size.epochs,
        batch_size=size.batch_size,
        learning_rate=size.learning_rate,
        warmup_steps=size.warmup_steps,
        seed=seed,
    )


def _trained(
    variant: Variant,
    size: Size,
    seed: int,
    out: Path,
    sets: dict[tuple[Any, ...], TrainingSet],
    examples: Sequence[Example],
) -> NDArray[np.float64]:
    """The scores of a variant, trained first where it is not there yet; `sets` keeps what is read for a seed."""
    recipe, folder = make_recipe(variant, size, seed), out / f"seed-{seed}" / variant.name
    facts = {"recipe": recipe.as_json(), "artefact": variant.artefact, "captions": size.captions, "scenes": size.scenes}
    scores = _read_scores(folder / "training" / "study.json", facts)
    if scores is not None:
        return scores
    key = (recipe.negatives, variant.artefact)
    if key not in sets:
        sets[key] = _read_training_set(recipe, size, artefact=variant.artefact)
    running = Running(micro_batch=size.batch_size)
    finetune(MODEL, sets[key], folder, recipe, running=running, progress=False)
    return _scored(folder / "training" / "study.json", facts, str(folder), examples)


def _read_training_set(recipe: Recipe, size: Size, *, artefact: bool) -> TrainingSet:
    # demo-clip has learned from the train split of world 0.
    found = read_training_set(
        "toy_scenes",
        negatives=recipe.negatives,
        positives=recipe.positives,
        limit=size.captions,
        seed=recipe.seed,
        options={"seed": 1 + recipe.seed},
    )
    if not artefact:
        return found
    samples = [
        sample._replace(negatives=tuple(with_wrong_article(text) for text in sample.negatives))
        for sample in found.samples
    ]
    return replace(found, samples=samples)


def _scored(file: Path, facts: Mapping[str, Any], model: str, examples: Sequence[Example]) -> NDArray[np.float64]:
    """A model's scores from its file, or computed and written there."""
    scores = _read_scores(file, facts)
    if scores is None:
        scores = score_examples(load_model(model, LoadOptions(default_device(0))), examples)
        content = {"facts": facts, "scores": [[round(value, 7) for value in row] for row in scores.tolist()]}
        write_text(file, json.dumps(content) + "\n")
        scores = np.array(content["scores"])
    return scores


def _read_scores(file: Path, facts: Mapping[str, Any]) -> NDArray[np.float64] | None:
    if not file.exists():
        return None
    content = json.loads(file.read_text("utf-8"))
    return np.array(content["scores"]) if content["facts"] == json.loads(json.dumps(facts)) else None


def score_examples(model: Any, examples: Sequence[Example]) -> NDArray[np.float64]:
    """Cosines of each example's captions with its scene: float64 of shape (m, 3), higher is a better match.

    Raises:
        ScoresError: the model is no dual encoder.
    """
    if not isinstance(model, DualEncoder):
        raise ScoresError(f"{model.info.name} gives no embeddings; take a dual encoder")
    texts = sorted({text for example in examples for text in example.captions}, key=lambda text: (len(text), text))
    places = {text: place for place, text in enumerate(texts)}
    scenes = sorted({example.scene for example in examples})
    rows = {scene: row for row, scene in enumerate(scenes)}
    captions = np.concatenate(
        [model.encode_captions(model.prepare_captions(part)) for part in _parts(texts, _CAPTIONS_AT_ONCE)]
    )
    images = np.concatenate(
        [
            model.encode_images([model.prepare_image(_picture(scene)) for scene in part])
            for part in _parts(scenes, _IMAGES_AT_ONCE)
        ]
    )
    mine = images[[rows[example.scene] for example in examples]].astype(np.float64)
    theirs = captions[[[places[text] for text in example.captions] for example in examples]].astype(np.float64)
    return np.einsum("md,mcd->mc", mine, theirs)


def _picture(scene: int) -> Any:
    [row, *_] = task_rows("captions", _TEST_WORLD, "test", scene)[1]
    return render(row["image"])


def _parts(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
