"""Predictions of zero-shot classification on the leaderboard: taken, recomputed and shown; changed ones refused."""

from __future__ import annotations

import pytest
from submission_support import MemoryStorage, changed

from vl_assay.hub_datasets import report
from vl_assay.metrics.common.errors import PredictionsError
from vl_assay.model_wrappers import score
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.submissions.submissions import OPTIONS, submit
from vl_assay.space_app.submissions.uploads import check_upload

MODEL = {"name": "", "family": "mock", "parameters": "1.5M", "training_data": "none", "link": ""}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Predictions of a mock on the images that are drawn."""
    [path] = score("mock:shuffled", "zero_shot/shapes", out=tmp_path_factory.mktemp("shapes"), progress=False)
    return path


def test_a_submission_is_recomputed_and_stands_on_the_board(path):
    storage = MemoryStorage()
    receipt = submit(storage, [path.read_bytes()], MODEL, "someone")
    assert (receipt.status, receipt.flags) == ("accepted", ())
    [ours], [received] = report(path, **OPTIONS), receipt.results
    assert received.scores == ours.scores
    entries = Catalogue(storage).board.of_model("mock:shuffled")
    shown = {entry.score: entry.value for entry in entries if entry.benchmark == "zero_shot" and not entry.category}
    assert shown == {name: ours.scores[name] for name in ("acc_at_1", "acc_at_5", "macro_acc_at_1", "macro_acc_at_5")}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[0].update(correct=[5]), r"its correct is \[5\]"),
        (lambda rows: [row["scores"].append(0.0) for row in rows], "65 scores; the set has 64"),
        (lambda rows: rows[0].update(correct=[0, 1]), r"its correct is \[0, 1\]"),
        (lambda rows: rows[0]["scores"].__setitem__(3, float("nan")), "NaN, infinite or missing"),
    ],
)
def test_another_class_or_other_candidates_are_refused(path, change, message):
    with pytest.raises(PredictionsError, match=message):
        check_upload(changed(path.read_bytes(), rows=change))


def test_prompts_of_the_submitters_own_are_another_version_of_the_data(tmp_path):
    one = {"templates": "one {}"}
    [path] = score("mock:constant", "zero_shot/shapes", out=tmp_path, options=one, progress=False)
    with pytest.raises(PredictionsError, match="other data or metrics: its fingerprint"):
        check_upload(path.read_bytes())
