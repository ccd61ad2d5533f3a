"""Copies of scores: found whatever part of the ids is changed and under noise; models trained apart are none."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.stats import spearmanr

from vl_assay.metrics.records.predictions import Predictions
from vl_assay.metrics.records.schema import DetectionRow, MatchingRow, RetrievalRow, VQARow
from vl_assay.space_app.submissions.copies import CopySource, find_copied, scores_hash, sketch

ABOUT = {"benchmark": {"name": "b", "task": "t"}, "model": {"name": "m"}}


def described(gaps):
    """What is recorded of predictions whose margins are `gaps`."""
    rows = [MatchingRow(f"{n:05d}", "c", "c", [f"i{n}"], [0], [[float(gap), 0.0]]) for n, gap in enumerate(gaps)]
    found = Predictions(rows, ABOUT)
    return {"benchmark": "b", "task": "t", "scores": scores_hash(found), "sketch": sketch(found)}


def flags(gaps, others):
    source = CopySource("another", *described(gaps).values())
    return [*find_copied(described(others), "a model", [source])]


def every(step, first=0):
    """Change every so manieth id, at one end of the scores."""
    return lambda gaps, rng: np.where((np.arange(len(gaps)) - first) % step, gaps, 5 + rng.random(len(gaps)))


def noise(size, changed=0.0):
    """Add noise of so many standard deviations, and draw a share of the scores anew."""

    def change(gaps, rng):
        others = rng.permutation(gaps)
        return np.where(rng.random(len(gaps)) < changed, others, gaps + size * gaps.std() * rng.normal(size=len(gaps)))

    return change


COPIES = {
    **{f"every {step} ids from {first}": every(step, first) for step, first in ((3, 1), (8, 0))},
    "noise": noise(0.25),
    "noise, and others for a sixth": noise(0.15, 1 / 6),
    "others for a quarter": noise(0, 0.25),
    "a block": lambda gaps, rng: np.where(np.arange(len(gaps)) < len(gaps) // 4, -gaps, gaps),
    "another scale": lambda gaps, rng: np.arctan(3 * gaps) + 0.1 * noise(0.1)(gaps, rng),
    "signs alone": lambda gaps, rng: np.sign(gaps),
    "a scale for each row": lambda gaps, rng: noise(0.1)(gaps, rng) * rng.lognormal(0, 2, len(gaps)),
}  # fmt: skip


@pytest.mark.parametrize("how", COPIES)
def test_copies_are_found_wherever_and_however_little_they_differ(how):
    rng = np.random.default_rng(0)
    gaps = rng.normal(0.5, 1, 1_200)
    assert flags(gaps, COPIES[how](gaps, rng))


@pytest.mark.parametrize("alike", [0, 0.8, 0.93])
@pytest.mark.parametrize("rows", [60, 600])
def test_models_trained_apart_are_no_copies_though_they_agree(alike, rows):
    rng = np.random.default_rng(0)
    for _ in range(2):
        gaps = rng.normal(0.5, 1, rows)
        others = alike * gaps + np.sqrt(1 - alike**2) * rng.normal(0, 1, rows) + (1 - alike) * 0.5
        assert flags(gaps, others) == []
        assert flags(np.sign(gaps), np.sign(others)) == []  # models that answer yes or no
        assert flags(np.round(gaps), np.round(others)) == []


def test_the_correlation_that_is_told_is_spearmans_of_the_most_similar():
    rng = np.random.default_rng(0)
    gaps = rng.integers(1, 13, 1_000).astype(float)  # few values, so that ranks are shared
    others = gaps + rng.choice([-1, 0, 1], 1_000, p=[0.05, 0.9, 0.05])
    far = np.flatnonzero((gaps < 4) | (gaps > 9))[:300]
    others[far] = 13 - gaps[far]
    expected = spearmanr(np.delete(gaps, far), np.delete(others, far)).statistic
    [flag] = flags(gaps, others)
    assert flag.endswith(f"their rank correlation is {expected:.4f} on the most similar 70 % of the examples.")


def test_a_sketch_is_of_all_ids_and_small():
    gaps = np.random.default_rng(0).normal(size=900)
    whole = described(gaps)["sketch"]
    assert len(whole) < 1_210
    assert all(whole != described(np.where(np.arange(900) == n, 9, gaps))["sketch"] for n in (0, 1, 899))


def task_types():
    common = ("a", "c", "x", ["i"])
    phrases = [{"text": "cat", "start": 0, "end": 3}]
    yield lambda s: VQARow(*common, "is it", True, s)
    yield lambda s: RetrievalRow(*common, [0], np.array([0.5, s], np.float32))
    yield lambda s: DetectionRow(*common, True, "p", phrases, [[]], [[[0.0, 0.0, 4.0, 4.0]]], [[s]])
    yield lambda s: DetectionRow(*common, True, "p", phrases, [[]], [[[0.0, 0.0, 4.0, s]]], [[0.5]])
    yield lambda s: MatchingRow(*common, [0], [[0.5, s]])


@pytest.mark.parametrize("make", task_types())
def test_equal_scores_have_one_hash_whatever_the_order_and_the_labels_and_others_another(make):
    rows = [dataclasses.replace(make(0.25 * n), id=f"{n}") for n in range(1, 5)]
    ours = scores_hash(Predictions(rows, ABOUT))
    renamed = [dataclasses.replace(row, category="y") for row in reversed(rows)]
    assert scores_hash(Predictions(renamed, ABOUT | {"model": {"name": "other"}})) == ours
    assert scores_hash(Predictions([dataclasses.replace(make(9.0), id="1"), *rows[1:]], ABOUT)) != ours
    assert scores_hash(Predictions(rows[1:], ABOUT)) != ours
