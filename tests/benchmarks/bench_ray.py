"""What a lost node costs a run on Ray: three nodes on this machine, one of them killed in the middle.

    python tests/benchmarks/bench_ray.py [--rows 640] [--wait 0.08]

Needs ``pip install 'vl-assay[ray]'``. The model waits `wait` seconds for each image, a quarter for each caption, and
computes nothing, so three nodes do three times as much as one however many cores there are. The time that a run with a
loss should take is that of one without, and what two nodes need longer than three for the work that was left. Exits
with 1 when it takes more than 1.2 times as long, or when a prediction is another than that of one process.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import check_goals, read_options, workplace
from ray_support import ENVIRONMENT, NODES, joined_nodes
from sources_sugarcrepe import make_sugarcrepe
from support import REFERENCES, UNVERIFIED, Recorder

from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import RunConfig
from vl_assay.model_wrappers.engine.ray_engine import predict_on_ray
from vl_assay.model_wrappers.engine.runner import predict_part

# An image has four captions here, so a chunk of either costs the same.
WAITS = {"images": 1.0, "captions": 0.25}


class Waiting(Recorder):
    """A dual encoder that waits for each item."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def __str__(self) -> str:
        return "waiting"

    def _embed(self, rows: Any, kind: str, exact: bool) -> Any:
        time.sleep(self.seconds * WAITS[kind] * len(rows))
        return super()._embed(rows, kind, exact)


def waiting_part(model: str, *arguments: Any, **options: Any) -> Any:
    """`predict_part` of the model that waits so many seconds."""
    return predict_part(Waiting(float(model)), *arguments, **options)


def run(out: Path, wait: float, config: RunConfig, kill_at: float = float("inf")) -> tuple[float, list[int], list[Any]]:
    """A run on three nodes, of which one is killed when so many chunks are finished.

    Returns:
        The seconds from the first finished chunk on, as starting takes its time; how many chunks were finished at each
        look; and the rows of the predictions.
    """
    finished, start = [0], 0.0

    def is_due() -> bool:
        nonlocal start
        finished.append(len(list(out.rglob("*.npy"))))
        start = start or (time.monotonic() if finished[-1] else 0.0)
        return finished[-1] >= kill_at

    with joined_nodes(is_due):
        chosen = {"model": str(wait), "benchmarks": REFERENCES, "seeds": [], "config": config}
        files = predict_on_ray(waiting_part, out=out, **chosen)
        seconds = time.monotonic() - start
    return seconds, finished, [read_predictions(file).rows for file in files]


def main() -> int:
    """Measure and print; the exit status."""
    arguments = read_options(__doc__, rows=640, wait=0.08)
    os.environ |= ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(sys.path)}  # nodes import what the benchmarks share
    with workplace() as work:
        coco = make_sugarcrepe(work / "coco", arguments.rows, arguments.rows)
        config = RunConfig(data_dir=coco, options=UNVERIFIED, progress=False)
        alone = predict_part(Waiting(0), REFERENCES, work / "alone", (), config)
        expected = [read_predictions(file).rows for file in alone]
        facts = read_predictions(alone[0]).metadata["run"]
        waits = arguments.wait * sum(facts[kind] * weight for kind, weight in WAITS.items())
        on_ray = replace(config, engine="ray")
        whole, counts, rows = run(work / "whole", arguments.wait, on_ray)
        taken, until_kill, others = run(work / "killed", arguments.wait, on_ray, max(counts) / 2)
    if until_kill[-1] < max(counts) / 2:
        raise SystemExit("the run ended before a node was killed; give more --rows")
    left = 1 - until_kill[-1] / max(counts)
    share = whole + left * waits * (1 / (NODES - 1) - 1 / NODES)
    print(f"without loss {whole:.1f} s; a node killed with {left:.0%} left: {taken:.1f} s, its share {share:.1f} s")
    different = sum(found != expected for found in (rows, others))
    goals = [
        ("time over its share", taken / share, "<=", 1.2),
        ("runs that differ from one process", different, "<=", 0),
    ]
    return check_goals(f"{NODES} nodes, {max(counts)} chunks, {waits:.0f} s of waiting for one node", goals)


if __name__ == "__main__":
    sys.exit(main())
