"""Error analysis: what models get wrong, example by example, what goes with it, and a page to look at it."""

from .analysis import ErrorAnalysis, errors
from .cards import cards_html, gallery_html, styles
from .outcomes import FILTERS, ExampleData, Outcomes, Picture, TaskErrors, matching_margin, task_errors

__all__ = [
    "FILTERS",
    "ErrorAnalysis",
    "ExampleData",
    "Outcomes",
    "Picture",
    "TaskErrors",
    "cards_html",
    "errors",
    "gallery_html",
    "matching_margin",
    "styles",
    "task_errors",
]
