"""The contract of a metric: its specification, its per-example scores, and how they are aggregated."""
