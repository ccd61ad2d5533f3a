"""Scaling of the runner over processes: the same work on one and on two, one thread each.

    python tests/benchmarks/bench_scaling.py --sugarcrepe DIR [--pairs 2400] [--rounds 1]

`DIR` holds the released annotations (``swap_obj.json`` …). The model is a ViT-B/32 CLIP with random weights; pairs and
images are those of ``bench_runner.py``. The processes are started by ``torchrun``; the time is that of the phase
``scores`` in the predictions, so starting, loading the model and opening the data are not in it. Exits with 1 when two
processes take more than 0.6 of the time of one.

A process decodes images in threads beside the one that computes, so one process alone keeps more than one core busy.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench_runner import lay_out, make_checkpoint, read_pairs, texts_of
from harness import read_options, workplace
from rich.console import Console
from rich.table import Table

from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import predict

GOAL = 0.6
NO_CACHE = Path(__file__).parents[1] / "support" / "no_cache.yaml"


def run(processes: int, benchmarks: list[str], checkpoint: Path, folder: Path, out: Path) -> dict[str, Any]:
    """What the predictions say of a run with that many processes."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(processes)]
    command += ["-m", "vl_assay.metrics.common.command_line", "predict", str(checkpoint), *benchmarks]
    command += ["--data-dir", str(folder), "--out", str(out), "-o", "verify=false", "--config", str(NO_CACHE)]
    done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    facts = read_predictions(min(out.glob("*.parquet"))).metadata["run"]
    if (facts["processes"], facts["threads"]) != (processes, 1):
        raise SystemExit(f"ran {facts['processes']} processes of {facts['threads']} threads, not {processes} of 1")
    stages = {name: stage["total"] for name, stage in facts["stages"].items()}
    rechecked = facts["rechecked_pairs"]
    print(f"{processes} processes: {facts['seconds']}, stages {stages}, re-checked {rechecked}", flush=True)
    return facts


def main() -> int:
    """Measure and print; the exit status."""
    arguments = read_options(__doc__, sugarcrepe=Path, pairs=2400, rounds=1)
    best: dict[int, dict[str, Any]] = {}
    with workplace() as work:
        pairs = read_pairs(arguments.sugarcrepe, arguments.pairs)
        folder = lay_out(pairs, work / "coco")
        checkpoint = make_checkpoint(texts_of(pairs), work / "vit-b-32")
        benchmarks = [f"sugarcrepe/{category}" for category in sorted({category for category, _ in pairs})]
        options = {"verify": False}
        predict("mock:constant", benchmarks, out=work / "warm", data_dir=folder, options=options, progress=False)
        for number in range(arguments.rounds):
            for processes in (1, 2):
                facts = run(processes, benchmarks, checkpoint, folder, work / f"{processes}-{number}")
                known = best.setdefault(processes, facts)
                best[processes] = min(facts, known, key=lambda facts: facts["seconds"]["scores"])
    one, two = (best[processes]["seconds"]["scores"] for processes in (1, 2))
    title = f"{len(pairs)} pairs, {best[1]['images']} images, {best[1]['captions']} captions; {os.cpu_count()} cores"
    table = Table("stage", "1 process, s", "2 processes, s", "ratio", "goal", title=title)
    for name in best[1]["stages"]:
        seconds = [best[processes]["stages"][name]["total"] for processes in (1, 2)]
        table.add_row(name, *(f"{value:.2f}" for value in seconds), f"{seconds[1] / max(seconds[0], 1e-9):.3f}", "")
    table.add_row("scores, all", f"{one:.2f}", f"{two:.2f}", f"{two / one:.3f}", f"<= {GOAL}")
    Console(width=120).print(table)
    return 0 if two / one <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
