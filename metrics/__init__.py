"""The metrics: their arithmetic in plain NumPy, estimation, `evaluate` modules, and the files that hold scores.

Nothing here needs torch. A folder with ``spec.py`` and a module of the folder's name is an `evaluate` module. The other
folders, each of which imports only the folders before it:

- `common`: errors, atomic storage, the command line, serving;
- `estimation`: averages, intervals, differences and tests, computed from per-example scores;
- `functional`: the arithmetic of the metrics, by task, per example;
- `modules`: discovery, installation and description of `evaluate` modules, and the page of a Space;
- `records`: predictions and results, with their schemas;
- `results`: evaluation of predictions: reports and comparisons.
"""
