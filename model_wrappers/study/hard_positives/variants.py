"""The variants of the study, and how large it is.

Only the losses and their texts differ between variants: captions, order, number of steps and learning rate are the
same. NegCLIP's loss is used without neighbouring images, so that it sees no more images than the others.

Length and learning rate were chosen before the study was run, by cost and training loss alone. Three seeds take less
than forty minutes of two CPU cores. Of the learning rates 5e-5, 1e-4, 2e-4 and 4e-4 the chosen one has the lowest loss
over the last 100 of 300 steps on new captions (HN, another seed: 0.462, 0.452, 0.449, 0.461; at 4e-4 the loss rises
first).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....metrics.common.errors import ScoresError
from ...finetune.train.losses import Weights
from ...finetune.train.recipes import Recipe, get_recipe

BASE = "demo-clip"


@dataclass(frozen=True)
class Variant:
    """A model to fine-tune.

    Args:
        name: of its folder.
        label: of its row in the tables.
        recipe: the recipe that provides everything else.
        weights: of the losses.
        kinds: of hard negatives and hard positives, of ``"swap"`` and ``"replace"``.
        artefact: the one of `ARTEFACTS` that all its negatives have.
    """

    name: str
    label: str
    recipe: str
    weights: Weights
    kinds: tuple[str, ...] = ("swap", "replace")
    artefact: str | None = None


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
    Variant("hn-article", "HN, negatives with a wrong article", "hn", _HN, artefact="article"),
    Variant("hn-stop", "HN, negatives with a final stop", "hn", _HN, artefact="stop"),
)


@dataclass(frozen=True)
class Size:
    """How large a study is.

    Args:
        captions: of the training set of each variant, five for a scene; each seed has others.
        scenes: of the test split, at most 1,000.
        seeds: how often each variant is trained.
        epochs, batch_size, learning_rate, warmup_steps: of each training. demo-clip was trained at 1e-3, for 6,200
            steps of 128 captions.
    """

    captions: int
    scenes: int
    seeds: int = 3
    epochs: int = 2
    batch_size: int = 32
    learning_rate: float = 2e-4
    warmup_steps: int = 10

    def __post_init__(self) -> None:
        limits = {"captions": (2, 10**6), "scenes": (2, 1000), "seeds": (1, 100)}
        for name, (low, high) in limits.items():
            if not low <= getattr(self, name) <= high:
                raise ScoresError(f"{name} is {getattr(self, name)}; it must be from {low} to {high}")


FULL = Size(captions=5000, scenes=1000)
QUICK = Size(captions=320, scenes=150, seeds=1)


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
