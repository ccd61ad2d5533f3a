"""Adversarial refinement: laws of cells, an independent count of what may be kept, scaling, 50 % by construction."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from vl_assay.hub_datasets.authoring.data.pairs import Pair
from vl_assay.hub_datasets.authoring.refine.cells import balance, find_cells, rank_gaps
from vl_assay.hub_datasets.authoring.refine.refine import refine
from vl_assay.metrics.common.errors import DataError, ScoresError

# Edges of all grids below, the ends and the middle among them, and anything between.
EDGES = sorted({Fraction(part, grid) for grid in (4, 5, 10, 20, 100) for part in range(-grid, grid + 1)})
GAP = st.sampled_from([float(edge) for edge in EDGES]) | st.floats(-1, 1)
GRIDS = st.sampled_from([1, 2, 3, 4, 5, 10, 100])


@st.composite
def matrices(draw):
    shape = draw(st.integers(1, 60)), draw(st.integers(1, 3))
    return draw(hnp.arrays(np.float64, shape, elements=GAP))


def cell_of(row, grid):
    """A row's cell, number by number, signed, counted outwards from 0, in exact arithmetic."""
    width, first = Fraction(2, grid), Fraction(2, grid) if grid % 2 == 0 else Fraction(1, grid)
    edges = [float(first + part * width) for part in range(grid + 10) if first + part * width < 1]
    numbers = [math.copysign(sum(abs(gap) > edge for edge in edges) + 1, gap) if gap else 0 for gap in row]
    return tuple(map(int, numbers))


def mirrored(cell):
    return tuple(-number for number in cell)


def make_pairs(n, categories=("swap", "add"), images=50):
    return [
        Pair(f"p/{k}", f"{k % images}.jpg", f"true {k}", f"false {k}", categories[k % len(categories)])
        for k in range(n)
    ]


def make_scorers(n, columns=2, tie_share=0.1, seed=0):
    rng = np.random.default_rng(seed)
    gaps = np.clip(rng.normal(0.15, 0.3, (n, columns)), -1, 1) * (rng.random((n, columns)) > tie_share)
    return {f"scorer {number}": np.column_stack([gap, np.zeros(n)]) for number, gap in enumerate(gaps.T)}


@settings(max_examples=25)
@given(matrices(), GRIDS, st.integers(0, 5), st.integers(1, 3))
def test_every_cell_keeps_as_many_as_its_mirror_image_and_the_smaller_is_whole(gaps, grid, seed, groups):
    cells = [cell_of(row, grid) for row in gaps.tolist()]
    assert [tuple(row) for row in find_cells(gaps, grid).tolist()] == cells
    group = [number % groups for number in range(len(gaps))]
    kept = balance(gaps, groups=group, grid=grid, seed=seed)
    names = [(part, *cell) for part, cell in zip(group, cells, strict=True)]
    before, after = Counter(names), Counter(name for name, keep in zip(names, kept, strict=True) if keep)
    for name, number in before.items():
        image = name[0], *mirrored(name[1:])
        assert after[name] == (number if image == name else min(number, before[image]))
    for column in gaps[kept].T:
        assert (column > 0).sum() == (column < 0).sum()


def test_another_seed_keeps_another_subset_and_every_row_has_its_chance():
    gaps = np.array([[0.5]] * 9 + [[-0.5]])
    chosen = np.array([balance(gaps, seed=seed) for seed in range(900)])
    assert (chosen.sum(axis=1) == 2).all()
    assert chosen[:, 9].all()
    # 900 draws of 1 in 9: 100 each, standard deviation 9.4
    assert chosen[:, :9].sum(axis=0) == pytest.approx(np.full(9, 100), abs=40)


@pytest.mark.parametrize(
    ("gaps", "options", "message"),
    [
        ([], {}, "shape"),
        ([[1.5]], {}, r"outside \[-1, 1\].*row 0"),
        ([[math.nan]], {}, "NaN"),
        ([[0.5]], {"grid": 0}, "grid is 0"),
        ([[0.5]], {"grid": 10**7}, "at most 1,000,000"),
        ([[0.5], [0.5]], {"ids": ["a", "a"]}, "1 different ids came for 2 rows"),
    ],
)
def test_what_cannot_be_balanced_is_refused(gaps, options, message):
    with pytest.raises(ScoresError, match=message):
        balance(gaps, **options)


@given(hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e300, 1e300)))
def test_ranks_keep_signs_and_the_order_of_sizes_within_the_range(gaps):
    ranked = rank_gaps(gaps)
    np.testing.assert_array_equal(np.sign(ranked), np.sign(gaps))
    np.testing.assert_array_equal(rank_gaps(-gaps), -ranked)
    assert (np.abs(ranked) <= 1).all()
    assert (np.diff(np.abs(ranked)[np.argsort(np.abs(gaps), kind="stable")]) >= 0).all()


def test_probabilities_are_used_as_they_are_and_log_likelihoods_divided_by_the_largest_gap():
    # Of the four cells in [-1, 1], 0.1 and -0.4 are in mirrored ones; divided by 0.4 they are not.
    pairs, scores = make_pairs(2, ["x"]), np.array([[0.1, 0], [0, 0.4]])
    assert refine(pairs, {"vera": scores}, grid=4)[0] == pairs
    for name, log_likelihoods in (("words", scores), ("language model", 10 * scores)):
        with pytest.raises(DataError, match="none of 2 pairs has a counterpart"):
            refine(pairs, {name: log_likelihoods}, grid=4)
    with pytest.raises(ScoresError, match="NaN in row 1 "):
        refine(pairs, {"language model": np.array([[9, 1], [np.nan, 0]])})


@pytest.mark.parametrize(("columns", "grid"), [(1, 2), (2, 9)])
def test_refining_scorers_are_at_half_in_each_category(columns, grid):
    kept, record = refine(make_pairs(1000), make_scorers(1000, columns), grid=grid)
    for figures in record["scorers"].values():
        assert figures["before"]["accuracy"] > 0.6
        assert figures["after"]["accuracy"] == 0.5
        assert {part["accuracy"] for part in figures["after"]["per_category"].values()} == {0.5}
        low, high = figures["after"]["accuracy_interval"]
        assert low < 0.5 < high
    assert sum(part["kept"] for part in record["categories"].values()) == len(kept) == record["kept"]


def test_pairs_come_back_in_their_order_and_any_order_keeps_the_same():
    pairs, scorers = make_pairs(500), make_scorers(500)
    kept, _ = refine(pairs, scorers, seed=3)
    assert kept == [pair for pair in pairs if pair in kept]
    order = np.random.default_rng(0).permutation(500)
    turned = {name: scores[order] for name, scores in scorers.items()}
    assert set(refine([pairs[k] for k in order], turned, seed=3)[0]) == set(kept)
    assert set(refine(pairs, scorers, seed=4)[0]) != set(kept)


def test_what_cannot_be_refined_is_refused():
    pairs, scores = make_pairs(4), np.tile([1.0, 0.5], (4, 1))
    for scorers, options, error, message in (
        ({}, {}, ScoresError, "nothing came to refine on"),
        ({"a": scores}, {}, DataError, "none of 4 pairs has a counterpart"),
        ({"a": scores}, {"learned": -1}, ScoresError, "learned is -1"),
    ):
        with pytest.raises(error, match=message):
            refine(pairs, scorers, **options)
