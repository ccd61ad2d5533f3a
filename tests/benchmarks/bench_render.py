"""Time to draw 2,000 scenes of toy_scenes, from the random numbers to the PNG bytes.

    python tests/benchmarks/bench_render.py

Exits with 1 when it takes 20 seconds or more.
"""

from __future__ import annotations

import sys
import time

from vl_assay.hub_datasets.toy_scenes.render import to_png
from vl_assay.hub_datasets.toy_scenes.tasks import sample_episode

SCENES = 2000
GOAL = 20.0


def main() -> int:
    """Measure and print; the exit status."""
    start = time.perf_counter()
    size = sum(len(to_png(sample_episode(0, "train", index).scene)) for index in range(SCENES))
    seconds = time.perf_counter() - start
    print(f"{SCENES:,} scenes in {seconds:.1f} s ({SCENES / seconds:,.0f} a second), {size / SCENES:,.0f} bytes each")
    return 0 if seconds < GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
