"""Aggregate per-example scores into numbers with error bars: specifications, averages, intervals, and tests.

Everything is computed from the `Examples` of a metric, as functions of example weights.
"""
