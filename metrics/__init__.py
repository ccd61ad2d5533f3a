"""Scores: arithmetic in plain NumPy, statistics, the `evaluate` modules, and the files that carry numbers.

Nothing here needs torch. A folder with ``spec.py`` and a module of its own name is an `evaluate` module. The others:

- `functional`: the arithmetic, by task, per example;
- `contract`: what a metric declares, its per-example scores, and how they are aggregated;
- `statistics`: cluster bootstrap, paired differences, permutation tests;
- `records`: predictions and results, with their schemas;
- `results`: from predictions to reports and comparisons;
- `modules`: finding, installing and describing `evaluate` modules, and the page of a Space;
- `common`: errors, atomic storage, the command line, serving.
"""
