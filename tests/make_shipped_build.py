"""Make the built data that come with toy_scenes: ``python tests/make_shipped_build.py``."""

from __future__ import annotations

from pathlib import Path

from vl_assay.hub_datasets import build, get_benchmark

NAME = "toy_scenes"
FOLDER = Path(__file__).parents[1] / "hub_datasets" / NAME / "built"


def make(folder: Path) -> None:
    """Build the split that is scored, of the configurations that the first run scores."""
    benchmark = get_benchmark(NAME)
    configs = [each for task, configs in benchmark.select(NAME, None, ("matching",)) for each in configs]
    build(NAME, folder, configs=configs, options=benchmark.scoring_options, splits=(benchmark.split,))


if __name__ == "__main__":
    make(FOLDER)
