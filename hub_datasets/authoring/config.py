"""The settings that few runs need, in the YAML files of ``--config``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated


@dataclass(frozen=True)
class GenerationConfig:
    """The settings that `generate` and `new-benchmark` share."""

    key_variable: Annotated[str, "environment variable with the endpoint's API key"] = "VL_ASSAY_API_KEY"
    each: Annotated[int, "at most so many candidates of each kind for a caption", 1] = 1
    concurrency: Annotated[int, "requests under way at once", 1] = 8
    requests_per_minute: Annotated[float | None, "at most so many requests a minute", 0.1] = None
    split: Annotated[str | None, "split of a dataset on the Hub; none for test"] = None


@dataclass(frozen=True)
class GenerateConfig(GenerationConfig):
    """The settings of ``generate --config``."""

    images: Annotated[bool, "copy the images to OUT/images for `vl-assay review`"] = True


@dataclass(frozen=True)
class BenchmarkConfig(GenerationConfig):
    """The settings of ``new-benchmark --config``."""

    column: Annotated[list[str] | None, "OURS=THEIRS, a file's column of caption, image or id"] = None
    data_dir: Annotated[Path | None, "your own copy of a benchmark's sources"] = None
    seed: Annotated[int, "seed of all random choices", 0] = 0
    scorer: Annotated[list[str] | None, "words or characters: also refine on a language model of these"] = None
    learned: Annotated[int, "rounds of learned probes to refine on", 0] = 3
    grid: Annotated[int, "cells for each scorer over [-1, 1]", 1] = 100
    max_blind_accuracy: Annotated[float, "if the final audit finds more, nothing is built"] = 0.55
    copy_images: Annotated[bool, "include the images in the result"] = False
