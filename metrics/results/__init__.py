"""Evaluate files of predictions: results, reports, comparisons and error analyses.

A report has one long table (``scores``); tables, overview, screen and profile are views of it. Only ``pairs`` decides
on significance.
"""
