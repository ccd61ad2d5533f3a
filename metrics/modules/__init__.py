"""The `evaluate` modules of the metrics: discovery, base class, and the page of a Space."""
