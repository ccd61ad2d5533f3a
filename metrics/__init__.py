"""Scores: arithmetic in plain NumPy, statistics, the `evaluate` modules, and the artefacts that carry numbers.

Nothing here needs torch. Each folder is an `evaluate` module; beside the folders:

- what a module calls, by subject: `matching` and `aro` (one image, several captions), `hard_positives` (a caption, its
  hard positive and negative), `groups` (two images, two captions), `retrieval`, `cpd` and `grounding` (phrases and
  boxes), `answers` (yes or no), `symmetry` (text-only scores), `comparison` (two models);
- what those share: `kernels`, `boxes`, `detection` and `ranking` row by row, `summary`, `stats` and `paired` over rows;
- what carries numbers: `sheets`, `results`, `report`, `storage`;
- and `modules` (finding and installing), `inputs` (what comes through `evaluate`), `page` (a module's Space),
  `citations`, `errors`, `console`.
"""
