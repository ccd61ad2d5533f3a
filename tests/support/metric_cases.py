"""Inputs for every metric module: random, constant and broken, for the tests that run over all metrics.

A new metric adds an entry to `CASES`; a test fails while it has none.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from vl_assay.metrics.modules.discovery import load_metric, metric_names

NAMES = metric_names()
EVERY = pytest.mark.parametrize("name", NAMES)

Inputs = dict[str, Any]
Rng = np.random.Generator

_PAIRED = ("left", "right", "on", "under")
FORMS = ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att")


@dataclass(frozen=True)
class Case:
    """The inputs of one module.

    Args:
        random: inputs of about n rows whose scores say nothing about what is right; lists of one entry per row.
        as_constant: makes such inputs those of one score for everything.
        scores: the paths to the scores within a row: "predictions" itself, or ("predictions", "scores").
        settings: arguments that are not one per row.
        depends_on_scale: results that a monotone rescaling of scores may change.
        counts: results that double when every row is repeated.
        twice: the inputs with every row repeated; None if that is another set.
    """

    random: Callable[[Rng, int], Inputs]
    as_constant: Callable[[Inputs], Inputs] = lambda inputs: (
        inputs | {"predictions": (np.asarray(inputs["predictions"]) * 0).tolist()}
    )
    scores: tuple[str, ...] = ("predictions",)
    settings: Inputs = field(default_factory=dict)
    depends_on_scale: tuple[str, ...] = ()
    counts: tuple[str, ...] = ("n",)
    twice: Callable[[Inputs], Inputs] | None = lambda inputs: {name: rows + rows for name, rows in inputs.items()}

    def constant(self, rng: Rng, n: int) -> Inputs:
        """Inputs as `random` makes them, with one score for everything."""
        return self.as_constant(self.random(rng, n))

    def with_scores(self, inputs: Inputs, change: Callable[[float], float]) -> Inputs:
        """A copy of the inputs with every score changed."""

        def changed(value: Any) -> Any:
            return [changed(part) for part in value] if isinstance(value, list) else change(value)

        inputs = copy.deepcopy(inputs)
        top, *below = self.scores
        for row, value in enumerate(inputs[top]):
            if below:
                value[below[0]] = changed(value[below[0]])
            else:
                inputs[top][row] = changed(value)
        return inputs


def _matching(captions: int, categories: tuple[str, ...] = (), **options: Any) -> Case:
    def random(rng: Rng, n: int) -> Inputs:
        inputs = {"predictions": rng.normal(size=(n, captions)).tolist(), "references": rng.integers(captions, size=n)}
        inputs["references"] = inputs["references"].tolist()
        return inputs | ({"categories": [categories[i % len(categories)] for i in range(n)]} if categories else {})

    return Case(random, **options)


def _sets(rng: Rng, n: int) -> Inputs:
    """Sets of four images with four captions, each of another of them."""
    rows = range(n - n % 4 or 4)
    return {
        "predictions": rng.normal(size=(len(rows), 4)).tolist(),
        "references": [row % 4 for row in rows],
        "sets": [f"set {row // 4}" for row in rows],
        "categories": [_PAIRED[row % 4] for row in rows],
    }


def _twice_with_other(column: str) -> Callable[[Inputs], Inputs]:
    """The inputs with every row repeated, of which the copies have other names in a column."""
    return lambda inputs: {
        name: rows + ([f"{row} again" for row in rows] if name == column else rows) for name, rows in inputs.items()
    }


def _triples(rng: Rng, n: int) -> Inputs:
    return {"predictions": rng.normal(size=(n, 3)).tolist(), "categories": rng.choice(["swap", "replace"], n).tolist()}


def _groups(rng: Rng, n: int) -> Inputs:
    return {"predictions": rng.normal(size=(n, 2, 2)).tolist(), "categories": [[i % 3, "any"] for i in range(n)]}


def _questions(rng: Rng, n: int) -> Inputs:
    return {"predictions": rng.normal(size=(n, 2, 4)).tolist(), "categories": [f"type {i % 2}" for i in range(n)]}


def _answers(rng: Rng, n: int) -> Inputs:
    answers = {"predictions": rng.integers(2, size=n).tolist(), "references": [i % 2 for i in range(n)]}
    return answers | {"categories": [f"split {i // 2 % 2}" for i in range(n)]}


def _boxes(rng: Rng, n: int) -> Inputs:
    """Pairs of rows, a positive and its distractor, each with two phrases; some abstain."""
    predictions, references = [], []
    for row in range(n):
        corners = rng.integers(0, 6, size=(2, 2))
        truth = np.hstack([corners, rng.integers(2, 5, size=(2, 2))]).tolist() if row % 2 == 0 else []
        references.append({"boxes": truth, "phrase_ids": [0, 1][: len(truth)]})
        count = int(rng.integers(0, 6))
        corners = rng.integers(0, 6, size=(count, 2))
        predictions.append(
            {
                "boxes": np.hstack([corners, corners + rng.integers(2, 5, size=(count, 2))]).tolist(),
                "scores": rng.random(count).tolist(),
                "phrase_ids": rng.integers(0, 2, size=count).tolist(),
            }
        )
    return {"predictions": predictions, "references": references, "categories": [f"s{i // 2 % 2}" for i in range(n)]}


def _constant_boxes(inputs: Inputs) -> Inputs:
    """For each phrase the right box and a wrong one, all equally confident; nothing on the distractors."""
    for row, (reference, prediction) in enumerate(zip(inputs["references"], inputs["predictions"], strict=True)):
        right = [[x, y, x + width, y + height] for x, y, width, height in reference["boxes"]]
        wrong = [[row % 7 + 50, 50, 60, 60] for _ in right]
        phrases = reference["phrase_ids"] * 2
        prediction |= {"boxes": right + wrong, "scores": [0.5] * len(phrases), "phrase_ids": phrases}
    return inputs


def _paired_boxes(rng: Rng, n: int) -> Inputs:
    inputs = _boxes(rng, n + n % 2)
    rows = range(len(inputs["predictions"]))
    return inputs | {"pair_ids": [row // 2 for row in rows], "positive": [row % 2 == 0 for row in rows]}


def _retrieval(rng: Rng, n: int) -> Inputs:
    images, each = max(n // 10, 2), 3
    return {
        "predictions": rng.normal(size=(images, each * images)).tolist(),
        "references": [list(range(each * image, each * (image + 1))) for image in range(images)],
    }


def _two_models(rng: Rng, n: int) -> Inputs:
    return {
        "predictions1": rng.normal(size=(n, 2)).tolist(),
        "predictions2": rng.normal(size=(n, 2)).tolist(),
        "references": rng.integers(2, size=n).tolist(),
        "categories": rng.choice(["a", "b"], n).tolist(),
    }


_BOXES: Inputs = {"as_constant": _constant_boxes, "scores": ("predictions", "scores")}
CASES: dict[str, Case] = {
    "aro_itm": _matching(5, ("on", "under", "eating", "feeding")),
    "artifact_gap": _matching(2, ("swap", "add"), depends_on_scale=("mean_gap", "median_gap", "asymmetry")),
    "augmented_accuracy": Case(_triples),
    "brittleness": Case(_triples, depends_on_scale=("mean_scores",)),
    "cpd_ap": Case(_boxes, settings={"subsamples": 0}, counts=("n", "n_boxes", "n_positive"), **_BOXES),
    "grounding_recall": Case(_boxes, counts=("n", "n_positive", "n_abstained"), **_BOXES),
    "group_match": Case(_groups),
    "group_recall_at_1": Case(
        _paired_boxes, counts=("n", "n_pairs", "n_abstained"), twice=_twice_with_other("pair_ids"), **_BOXES
    ),
    "paired_difference": Case(
        _two_models,
        lambda inputs: (
            inputs | dict.fromkeys(("predictions1", "predictions2"), [[0.5, 0.5]] * len(inputs["references"]))
        ),
        scores=("predictions1",),
        settings={"resamples": 200, "permutations": 200},
        counts=("n", "wins", "losses"),
    ),
    "paired_question_accuracy": Case(_questions),
    "itm_accuracy": _matching(4, ("negation", "count", "spatial")),
    # An image that is there twice competes with its copy.
    "retrieval_recall": Case(_retrieval, counts=("n", "n_images", "n_captions"), twice=None),
    "set_accuracy": Case(
        _sets,
        settings={"pairs": [list(_PAIRED[:2]), list(_PAIRED[2:])]},
        counts=("n", "n_pairs", "n_sets"),
        twice=_twice_with_other("sets"),
    ),
    "sugarcrepe_itm": _matching(2, FORMS),
    "yes_no_f1": Case(
        _answers,
        lambda inputs: inputs | {"predictions": [1] * len(inputs["references"])},
        counts=("n", "false_positives", "false_negatives"),
    ),
    "zero_shot_accuracy": _matching(10, ("cat", "dog", "car")),
}


def input_names(name: str) -> list[str]:
    """The columns of a module's features."""
    features = load_metric(name).features
    return list(features[0] if isinstance(features, list) else features)


def compute(name: str, inputs: Inputs, **options: Any) -> dict[str, Any]:
    """The result of the module of that name, with the settings of its case."""
    return load_metric(name).compute(**CASES[name].settings | inputs | options)


def rows_of(name: str, seed: int = 0, n: int = 60) -> Inputs:
    """Random inputs, three rows of which share an image."""
    inputs = CASES[name].random(np.random.default_rng(seed), n)
    return inputs | {"clusters": [row // 3 for row in range(len(next(iter(inputs.values()))))]}
