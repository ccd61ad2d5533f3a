"""Look-ups in a large cache of embeddings: milliseconds each, and the memory that they take beside their result.

    python tests/benchmarks/bench_cache.py [--rows 2000000] [--width 512]

The cache gets `--rows` embeddings in shards of 100,000, and then a run asks for every fourth of them at once, and for
as many that are not there. Memory is the peak of the process less that before, as a share of the rows found. Exits with
1 when a goal is missed.
"""

from __future__ import annotations

import hashlib
import resource
import sys
import time
from pathlib import Path

import numpy as np
from harness import check_goals, read_options, workplace

from vl_assay.model_wrappers.engine.cache import open_cache
from vl_assay.model_wrappers.engine.chunks import ChunkStore
from vl_assay.model_wrappers.engine.distributed import Processes
from vl_assay.model_wrappers.engine.protocol import ModelInfo

SHARD = 100_000


def keys_of(first: int, last: int, step: int = 1) -> list[str]:
    """Content keys, as of captions."""
    return [hashlib.sha256(str(number).encode()).hexdigest()[:32] for number in range(first, last, step)]


def peak() -> int:
    """The peak memory of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> int:
    """Measure, print, and return the exit status."""
    options = read_options(__doc__, rows=2_000_000, width=512)
    rng = np.random.default_rng(0)

    def new_run(folder: Path) -> object:
        return open_cache(ModelInfo("m"), "cpu", {}, ChunkStore(folder), Processes(), keep=True)

    with workplace() as folder:
        for first in range(0, options.rows, SHARD):
            rows = rng.normal(size=(SHARD, options.width)).astype(np.float32)
            keys = keys_of(first, first + SHARD)
            new_run(folder / f"fill-{first}").embed("captions", keys, lambda left, _, rows=rows: rows[list(left)])
        wanted = [*keys_of(0, options.rows, 4), *keys_of(options.rows, options.rows + options.rows // 4)]
        before, start, asked = peak(), time.perf_counter(), []

        def encode(left: object, _: str) -> np.ndarray:
            asked.append((time.perf_counter() - start, peak()))
            return np.zeros((len(left), options.width), np.float32)

        new_run(folder / "run").embed("captions", wanted, encode)
    [(seconds, most)] = asked
    found = options.rows // 4 * options.width * 4
    print(f"{options.rows:,} embeddings: {len(wanted):,} keys looked up in {seconds:.1f} s")
    return check_goals(
        "cache of embeddings",
        [
            ("milliseconds for each key", 1000 * seconds / len(wanted), "<=", 1),
            ("memory / that of the rows found", (most - before) / found, "<=", 4),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
