"""Evaluation: from predictions to results, reports and comparisons. It needs only the files of predictions."""

from ._comparison import Comparison, compare
from ._compute import (
    check_options,
    cluster_numbers,
    compute,
    declared_metrics,
    examples_of,
    metric_inputs,
    no_parts,
    scored_rows,
)
from ._correlate import correlate
from ._correlation import Correlation, ScoreName
from ._diagnosis import diagnose
from ._report import DEFAULT_FIGURES, FIGURES, PredictionFiles, Report, report
from ._scored import Scored, base_score, common, example_ids, is_costly, permutations
from ._suites import SuiteMean, suite_means
from ._tables import lines, tie_sentence, title, to_markdown

__all__ = [
    "DEFAULT_FIGURES",
    "FIGURES",
    "Comparison",
    "Correlation",
    "PredictionFiles",
    "Report",
    "ScoreName",
    "Scored",
    "SuiteMean",
    "base_score",
    "check_options",
    "cluster_numbers",
    "common",
    "compare",
    "compute",
    "correlate",
    "declared_metrics",
    "diagnose",
    "example_ids",
    "examples_of",
    "is_costly",
    "lines",
    "metric_inputs",
    "no_parts",
    "permutations",
    "report",
    "scored_rows",
    "suite_means",
    "tie_sentence",
    "title",
    "to_markdown",
]
