"""Evaluation: from predictions to results, reports and comparisons. It needs nothing but the predictions."""

from ..common.formatting import distinct_labels, interval, p_value, percent, points, words
from ._compare import compare
from ._comparison import Comparison, Difference
from ._compute import (
    Declared,
    check_options,
    cluster_numbers,
    compute,
    declared_metrics,
    examples_of,
    metric_inputs,
    scored_rows,
    tie_policy,
)
from ._diagnose import diagnose
from ._diagnosis import Diagnosis
from ._files import PredictionFiles
from ._reports import Captions, Report, report, write_report
from ._tables import Line, lines, tie_sentence, title, to_markdown

__all__ = [
    "Captions",
    "Comparison",
    "Declared",
    "Diagnosis",
    "Difference",
    "Line",
    "PredictionFiles",
    "Report",
    "check_options",
    "cluster_numbers",
    "compare",
    "compute",
    "declared_metrics",
    "diagnose",
    "distinct_labels",
    "examples_of",
    "interval",
    "lines",
    "metric_inputs",
    "p_value",
    "percent",
    "points",
    "report",
    "scored_rows",
    "tie_policy",
    "tie_sentence",
    "title",
    "to_markdown",
    "words",
    "write_report",
]
