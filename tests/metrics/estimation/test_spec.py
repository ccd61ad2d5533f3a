"""The contract of a metric: its specification, and examples that are selected without losing their categories."""

import pytest

from vl_assay.metrics.estimation.spec import MetricSpec, ScoreSpec
from vl_assay.metrics.functional.matching import matching_accuracy

SCORES = (ScoreSpec("accuracy"), ScoreSpec("recall_at_*"), ScoreSpec("gap", higher_is_better=False, in_tables=False))


def spec(**changes):
    return MetricSpec(**{"function": matching_accuracy, "task_type": "matching", "scores": SCORES} | changes)


def test_scores_are_found_by_name_by_pattern_and_as_macro_averages():
    found = spec()
    names = ["accuracy", "recall_at_5", "macro_recall_at_5", "macro_gap", "n", "recall", "accuracy_interval"]
    known = [found.score(name) and found.score(name).name for name in names]
    assert known == ["accuracy", "recall_at_*", "recall_at_*", "gap", None, None, None]
    assert found.main_score == "accuracy"
    shown = found.table_scores(["n", "gap", "recall_at_5", "accuracy", "recall_at_1"])
    assert shown == ["accuracy", "recall_at_5", "recall_at_1"]
    assert [found.is_higher_better(name) for name in ("macro_gap", "recall_at_1")] == [False, True]
    with pytest.raises(ValueError, match="'n' is not a score"):
        found.is_higher_better("n")


@pytest.mark.parametrize("changes", [{"task_type": "match"}, {"main_score": "f1"}])
def test_a_specification_that_cannot_be_is_refused(changes):
    with pytest.raises(ValueError, match=r"it is one of matching|is not among the scores"):
        spec(**changes)
