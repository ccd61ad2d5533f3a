"""Recipes of fine-tuning: losses, captions and schedule, each with its source and what the source leaves open.

``negclip`` and ``coco`` follow ARO (Yuksekgonul et al. 2023, section 4 and appendix C); ``hn``, ``hp+hn``,
``swap-only`` and ``replace-only`` *Hard Positives* (Kamath et al. 2024, section 5 and appendix D.1); ``svlc`` the
released code of SVLC, and ``sugarcrepe-negclip`` SugarCrepe (Hsieh et al. 2023, appendix A.3). `adapt` changes values
of a recipe.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ....metrics.common.errors import UnknownNameError, VLAssayError, check_known
from .losses import LossWeights


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the result, except the model, the data and the versions of libraries.

    Args:
        name: the recipe's name.
        source: paper and section.
        gaps: what the source leaves open or this recipe does differently, in sentences.
        weights: of the losses.
        negatives: kinds of hard negatives (see `read_training_set`); each step has one for a caption.
        positives: kinds of hard positives, likewise.
        needs_negative: whether captions without a hard negative are left out.
        frozen: whether each caption keeps one negative and one positive for the whole run, drawn by the seed; otherwise
            each epoch draws anew.
        neighbours: each image is joined by one drawn from so many nearest images, with its caption and negative; 0
            for none. The batch that the loss sees is then up to twice `batch_size`.
        epochs: how often every caption is seen, at most.
        batch_size: how many captions the loss sees together, over all processes.
        learning_rate: the highest, after `warmup_steps` of linear rise; it falls to 0 by a cosine.
        warmup_steps: at most half of all steps are warm-up.
        weight_decay, betas, epsilon: of AdamW; gains, biases and the scale are not decayed, as in open_clip.
        max_gradient_norm: gradients are scaled down to this norm; None for no limit.
        lora_rank: of LoRA adapters (see `lora.add_lora`), which are merged when saved; 0 for training all weights.
        random_start: whether the model's weights are drawn anew by the seed before training, and batch normalisation is
            trained; the model then gives the architecture, tokenizer and preprocessing.
        seed: of the order of the data, what is drawn of it, and dropout.
    """

    name: str
    source: str
    gaps: str
    weights: LossWeights
    negatives: tuple[str, ...] = ()
    positives: tuple[str, ...] = ()
    needs_negative: bool = False
    frozen: bool = False
    neighbours: int = 0
    epochs: int = 5
    batch_size: int = 1024
    learning_rate: float = 1e-5
    warmup_steps: int = 50
    weight_decay: float = 0.2
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-6
    max_gradient_norm: float | None = None
    lora_rank: int = 0
    random_start: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        norm = self.max_gradient_norm
        allowed = {
            "epochs": (self.epochs >= 1, "1 or more"),
            "batch_size": (self.batch_size >= 2, "2 or more"),
            "learning_rate": (0 < self.learning_rate < math.inf, "above 0"),
            "warmup_steps": (self.warmup_steps >= 0, "0 or more"),
            "weight_decay": (0 <= self.weight_decay < math.inf, "0 or more"),
            "betas": (all(0 <= beta < 1 for beta in self.betas), "two numbers from 0 to below 1"),
            "epsilon": (0 < self.epsilon < math.inf, "above 0"),
            "max_gradient_norm": (norm is None or norm > 0, "above 0, or none"),
            "lora_rank": (self.lora_rank >= 0, "0 or more"),
            "random_start": (not (self.random_start and self.lora_rank), "false where adapters are trained"),
            "neighbours": (self.neighbours >= 0, "0 or more"),
            "seed": (0 <= self.seed < 2**32, "from 0 to 4294967295"),
            "weights": (all(map(math.isfinite, self.weights)) and any(self.weights), "finite, and one of them not 0"),
        }
        for name, (is_allowed, rule) in allowed.items():
            if not is_allowed:
                raise VLAssayError(f"{name}={getattr(self, name)!r} is out of range; allowed: {rule}")

    @property
    def uses_negatives(self) -> bool:
        """Return whether a loss uses hard negatives."""
        return bool(self.weights.negclip or self.weights.hard_negative)

    @property
    def uses_positives(self) -> bool:
        """Return whether a loss uses hard positives."""
        return bool(self.weights.hard_positive)

    def as_json(self) -> dict[str, Any]:
        """The recipe for files."""
        return {**asdict(self), "weights": self.weights._asdict(), "betas": list(self.betas)}


def _read_recipes() -> dict[str, Recipe]:
    """Read ``recipes.toml``. A recipe that is ``like`` one before it has the values of that one but for its own."""
    recipes: dict[str, Recipe] = {}
    for name, values in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items():
        base = recipes[values.pop("like")] if "like" in values else Recipe(name, "", "", LossWeights())
        gaps = f"{values.pop('gaps', base.gaps)} {values.pop('more_gaps', '')}".strip()
        weights = LossWeights(**values.pop("weights")) if "weights" in values else base.weights
        changes = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
        recipes[name] = replace(base, **changes, name=name, gaps=gaps, weights=weights)
    return recipes


RECIPES = _read_recipes()


def get_recipe(name: str) -> Recipe:
    """Return a recipe by name; `UnknownNameError` lists the known ones."""
    check_known("recipe", [name], RECIPES)
    return RECIPES[name]


def adapt(recipe: Recipe, settings: Mapping[str, str]) -> Recipe:
    """A recipe with other values, such as ``{"epochs": "1", "hard_negative": "0.5", "negatives": "swap,replace"}``.

    Args:
        recipe: the one to start from.
        settings: names of its fields or weights, and values as texts; ``none`` where a field may be None.

    Raises:
        UnknownNameError: no such field.
        VLAssayError: a value of another type, or outside its range.
    """
    known = {field.name: str(field.type) for field in fields(Recipe)}
    known = {name: kind for name, kind in known.items() if name not in ("name", "source", "gaps", "weights")}
    weights, changes = recipe.weights, {}
    for name, text in settings.items():
        if name in LossWeights._fields:
            weights = weights._replace(**{name: _parse(name, text, "float")})
        elif name in known:
            changes[name] = _parse(name, text, known[name])
        else:
            raise UnknownNameError("setting of a recipe", name, (*known, *LossWeights._fields))
    return replace(recipe, weights=weights, **changes)


def _parse(name: str, text: str, kind: str) -> Any:
    """A value from its text and the type of its field."""
    try:
        if text.lower() == "none" and kind.endswith("None"):
            return None
        if kind == "bool":
            return {"true": True, "false": False}[text.lower()]
        if kind.startswith("tuple[str"):
            return tuple(item.strip() for item in text.split(",") if item.strip())
        if kind.startswith("tuple[float"):
            first, second = map(float, text.split(","))
            return first, second
        return int(text) if kind == "int" else float(text)
    except (ValueError, KeyError):
        raise VLAssayError(f"expected {name} as {kind}, not {text!r}; for example epochs=5, negatives=swap") from None
