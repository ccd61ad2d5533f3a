"""Refinement on chosen probes."""

import numpy as np
import pytest
from audit_support import leaking_pairs

from vl_assay.hub_datasets.authoring.audit.probes import PROBES, group_pairs, run_probes
from vl_assay.hub_datasets.authoring.refine.refine import refine
from vl_assay.metrics.common.errors import UnknownNameError


def accuracy(pairs, probe, seed=0):
    [(_, scores, _)] = run_probes(pairs, group_pairs(pairs), seed, only=(probe,))
    gaps = scores[:, 0] - scores[:, 1]
    return np.where(gaps == 0, 0.5, gaps > 0).mean()


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
