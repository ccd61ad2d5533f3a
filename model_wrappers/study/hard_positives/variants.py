"""The models of the study, and how large it is.

The design was fixed before the run whose results are in ``docs/study-hard-positives.md``:

- The start is demo-clip-web, which tells captions apart by their words, as CLIP does. Captions are in common words, as
  a small set of captions has fewer words than the web. Hard negatives come from elsewhere: the words that they replace
  are common and rare alike. Hard positives have the rare synonyms of true words, or another order.
- Only losses and texts differ between fine-tuned variants, and only the number of in-batch negatives between the models
  of the curve: scenes, order, number of steps and learning rate are the same.
- A finding is shown if its difference is above 0 by its intervals over test scenes and over seeds, refuted if below 0
  by both, and otherwise not shown (`findings.claims`, `findings.verdict`).

Length and learning rate were chosen by cost, in trials with another seed on the first 600 test scenes: HN with 3,000
captions at 5e-4 and 1e-3, HN and HP+HN with 12,000 at 1e-3, swap-only with 12,000 at 1e-3 and 3e-3. They showed the
effects on REPLACE, and little on SWAP.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....metrics.common.errors import ScoresError
from ...demo_clip_web.train import Recipe as WebRecipe
from ...finetune.train.losses import Weights
from ...finetune.train.recipes import Recipe, get_recipe

BASE = "demo-clip-web"


@dataclass(frozen=True)
class Variant:
    """A model to fine-tune.

    Args:
        name: of its folder.
        label: of its row in the tables.
        recipe: the recipe that provides everything else.
        weights: of the losses.
        kinds: of hard negatives and hard positives, of ``"swap"`` and ``"replace"``.
        stop: whether its negatives end in a period.
    """

    name: str
    label: str
    recipe: str
    weights: Weights
    kinds: tuple[str, ...] = ("swap", "replace")
    stop: bool = False


_HN, _BOTH = Weights(hard_negative=1), Weights(1, 0, 1, 1)
VARIANTS = (
    Variant("plain", "plain fine-tuning", "coco", Weights()),
    Variant("hn", "HN", "hn", _HN),
    Variant("hp+hn", "HP+HN", "hp+hn", _BOTH),
    Variant("swap-only", "HP+HN, swap only", "swap-only", _BOTH, ("swap",)),
    Variant("replace-only", "HP+HN, replace only", "replace-only", _BOTH, ("replace",)),
    *(
        Variant(f"hn-weight-{weight:g}", f"HP + {weight:.2f} HN", "hp+hn", _BOTH._replace(hard_negative=weight))
        for weight in (0, 0.25, 0.5)
    ),
    Variant("hn-stop", "HN, negatives with a final period", "hn", _HN, stop=True),
)


@dataclass(frozen=True)
class Group:
    """A model trained from nothing, with `size` - 1 negatives for each image and caption."""

    size: int

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"batch-{self.size}"

    @property
    def label(self) -> str:
        """The label of its row."""
        return str(self.size)


GROUPS = tuple(map(Group, (4, 8, 16, 32, 64)))


@dataclass(frozen=True)
class Size:
    """How large a study is.

    Args:
        captions: of the training set of each variant, three for a scene; each seed has others.
        scenes: of the test split, at most 1,000.
        seeds: how often each model is trained.
        epochs, batch_size, learning_rate, warmup_steps: of each fine-tuning.
        curve_steps, curve_scenes: of each training of a model of the curve, with 64 pairs a step.
    """

    captions: int
    scenes: int
    seeds: int = 3
    epochs: int = 2
    batch_size: int = 32
    learning_rate: float = 1e-3
    warmup_steps: int = 10
    curve_steps: int = 1000
    curve_scenes: int = 6000

    def __post_init__(self) -> None:
        limits = {"captions": (2, 10**6), "scenes": (2, 1000), "seeds": (1, 100)}
        for name, (low, high) in limits.items():
            if not low <= getattr(self, name) <= high:
                raise ScoresError(f"{name} is {getattr(self, name)}; it must be from {low} to {high}")


FULL = Size(captions=6000, scenes=1000)
QUICK = Size(captions=2400, scenes=200, seeds=1, curve_steps=200, curve_scenes=1000)


def make_recipe(variant: Variant, size: Size, seed: int) -> Recipe:
    """The recipe of a fine-tuned variant in a study of that size."""
    kinds = tuple(f"scene:{kind}" for kind in variant.kinds)
    return replace(
        get_recipe(variant.recipe),
        name=variant.name,
        gaps="In miniature: data, length and learning rate are those of `vl-assay study hard-positives`.",
        weights=variant.weights,
        negatives=kinds,
        positives=kinds,
        neighbours=0,
        frozen=False,
        epochs=size.epochs,
        batch_size=size.batch_size,
        learning_rate=size.learning_rate,
        warmup_steps=size.warmup_steps,
        seed=seed,
    )


def make_web_recipe(group: Group, size: Size, seed: int) -> WebRecipe:
    """The recipe of a model of the curve: demo-clip-web's, shorter, with another number of negatives."""
    # The seed is also that of the scenes: demo-clip-web has those of 0, and the fine-tuned variants the next.
    return WebRecipe(
        steps=size.curve_steps,
        scenes=size.curve_scenes,
        group=group.size,
        warmup=min(WebRecipe.warmup, size.curve_steps // 2),
        seed=100 + seed,
    )
