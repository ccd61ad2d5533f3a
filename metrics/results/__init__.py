"""From files of predictions to results, reports, comparisons and error analyses.

A report is made of one long table (``scores``), of which tables, overview, screen and profile are views. Significance
is decided in one place (``pairs``).
"""
