"""Refinement on chosen probes, and a probe of trees, which is of another kind than those."""

import numpy as np
import pytest
from audit_support import leaking_pairs

from vl_assay.hub_datasets.authoring.audit.probes import PROBES, TREES, group_pairs, run_probes
from vl_assay.hub_datasets.authoring.data.pairs import Pair
from vl_assay.hub_datasets.authoring.refine.refine import refine
from vl_assay.metrics.common.errors import UnknownNameError


def accuracy(pairs, probe, seed=0):
    [(_, scores, _)] = run_probes(pairs, group_pairs(pairs), seed, only=(probe,))
    gaps = scores[:, 0] - scores[:, 1]
    return np.where(gaps == 0, 0.5, gaps > 0).mean()


def joint_pairs(n=600):
    """The true caption has a comma in two of three pairs; in the others the false one, and one of them a hyphen."""
    rng = np.random.default_rng(0)
    pairs = []
    for row in range(n):
        word = "".join(rng.choice(list("bdfgklmn"), 6))
        if row % 3:
            true, false = f"a dog, {word}", f"a dog {word}"
        else:
            first, second = rng.permutation(["-", ""])
            true, false = f"a dog {word}{first}a", f"a dog, {word}{second}a"
        pairs.append(Pair(str(row), f"{row}.jpg", true, false, "swap"))
    return pairs


def test_trees_see_what_features_tell_together_and_a_linear_probe_does_not():
    # A comma alone is right in two of three pairs; where exactly one caption has a hyphen, it is wrong.
    pairs = joint_pairs()
    assert accuracy(pairs, TREES) > 0.97
    assert accuracy(pairs, "formatting") < 0.75


def test_rounds_refine_on_the_probes_that_are_named_until_none_of_them_is_better_than_chance():
    pairs = leaking_pairs("characters", 400, 0.6, seed=2)
    found = refine(pairs, learned=10, refining=PROBES)
    told = found.record["learned"]
    assert (told["refining"], told["watching"]) == (PROBES, ())
    assert told["ended"] == "no probe that refines is better than chance"
    first = told["rounds"][0]
    strongest = max(PROBES, key=lambda name: first["probes"][name]["accuracy"])
    assert first["refined_on"] == [f"probe {strongest}"]
    assert all(each["accuracy_interval"][0] <= 0.5 for each in told["rounds"][-1]["probes"].values())
    assert accuracy(pairs, "characters", seed=9) > 0.7
    assert accuracy(found.kept, "characters", seed=9) < 0.6
    with pytest.raises(UnknownNameError, match="probe 'vibes'"):
        refine(pairs, learned=1, refining=["vibes"])
