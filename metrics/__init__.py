"""Scores: kernels in plain NumPy, statistics, the `evaluate` modules, and the artefacts that carry numbers.

Nothing here needs torch. Import what you need from the modules: `kernels`, `stats`, `matching`, `sheets`, `results`,
`report`, `modules`, `errors`.
"""
