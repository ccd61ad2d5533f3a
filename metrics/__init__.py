"""The metrics: their arithmetic in plain NumPy, estimation, `evaluate` modules, and the files that hold scores.

Nothing here needs torch. A folder with ``spec.py`` and a module of its own name is an `evaluate` module. The others,
each of which imports only those before it:

- `common`: errors, atomic storage, the command line, serving;
- `estimation`: from per-example scores to averages, intervals, differences and tests;
- `functional`: the arithmetic of the metrics, by task, per example;
- `modules`: finding, installing and describing `evaluate` modules, and the page of a Space;
- `records`: predictions and results, with their schemas;
- `results`: from predictions to reports and comparisons.
"""
