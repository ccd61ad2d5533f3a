"""The steps over a training set: captions a second on one core, memory as rows grow, and the speed of two processes.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_corpus.py --sugarcrepe data --most-rows 10000000

Captions are made of halves of SugarCrepe's. Each run is a process of its own. Exits with 1 unless peak memory grows by
at most 10 % from `--rows` to `--most-rows`, and two processes are 1.8 times as fast as one, which needs two idle cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from harness import check_goals, read_options, workplace

SHARD_ROWS = 50_000

# Arguments: the step, folder of the shards, their number, processes, folder of the outputs, SugarCrepe's folder.
RUN = """
import resource, sys, time
from pathlib import Path
from vl_assay.hub_datasets import load_examples
from vl_assay.hub_datasets.corpora import candidates, contamination, shards
if __name__ == "__main__":
    name, folder, count, workers, out, sugarcrepe = sys.argv[1:]
    data = load_examples("sugarcrepe", data_dir=sugarcrepe, needs_images=False)
    step = {
        "generate": lambda: candidates.candidate_step(("swap_att",), "caption"),
        "contamination": lambda: contamination.search_step(data, 0.7, "caption", None),
    }[name]()
    found = dict(list(shards.find_shards([folder]).items())[: int(count)])
    start = time.perf_counter()
    outcomes = list(shards.run(found, step, Path(out), workers=int(workers)))
    seconds = time.perf_counter() - start
    assert not any(outcome.problem for outcome in outcomes), outcomes[0].problem
    if name == "contamination":
        contamination.summarise(data, outcomes)
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(seconds, peak / 1024)
"""


def main() -> int:
    options = read_options(__doc__, sugarcrepe=Path, rows=100_000, most_rows=2_000_000, steps="contamination,generate")
    goals = []
    with workplace() as folder:
        script = folder / "run.py"  # spawned processes import it
        script.write_text(RUN)
        write_captions(folder / "captions", options.sugarcrepe, options.most_rows // SHARD_ROWS)

        def measure(name: str, rows: int, workers: int) -> list[float]:
            """Seconds, and the peak memory of the largest process in MiB."""
            out = folder / f"{name}-{rows}-{workers}"
            words = [name, folder / "captions", rows // SHARD_ROWS, workers, out, options.sugarcrepe]
            done = subprocess.run(
                [sys.executable, script, *map(str, words)], capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise SystemExit(done.stderr)
            print(f"{name}, {rows:,} rows, {workers} processes: {done.stdout.strip()} (load {os.getloadavg()[0]:.1f})")
            return [float(text) for text in done.stdout.split()]

        for name in options.steps.split(","):
            seconds, peak = measure(name, options.rows, 1)
            print(f"{name}: {options.rows / seconds:,.0f} captions/s")
            one, most = measure(name, options.most_rows, 1)
            two, _ = measure(name, options.most_rows, 2)
            goals.append((f"{name}: memory, {options.most_rows:,} / {options.rows:,} rows", most / peak, "<=", 1.1))
            goals.append((f"{name}: speed, 2 processes / 1", one / two, ">=", 1.8))
    return check_goals("corpora", goals)


def write_captions(folder: Path, sugarcrepe: Path, count: int) -> None:
    """Write shards of captions, each the beginning of one and the end of another."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = sorted(sugarcrepe.rglob("data/*.json"))
    rows = [row for file in files for row in json.loads(file.read_text(encoding="utf-8")).values()]
    words = [row[name].split() for row in rows for name in ("caption", "negative_caption")]
    halves = [(each[: len(each) // 2], each[len(each) // 2 :]) for each in words]
    rng = np.random.default_rng(0)
    folder.mkdir()
    for number in range(count):
        first, second = rng.integers(len(halves), size=(2, SHARD_ROWS)).tolist()
        captions = [" ".join(halves[a][0] + halves[b][1]) for a, b in zip(first, second, strict=True)]
        pq.write_table(pa.table({"caption": captions}), folder / f"{number:05d}.parquet")


if __name__ == "__main__":
    sys.exit(main())
