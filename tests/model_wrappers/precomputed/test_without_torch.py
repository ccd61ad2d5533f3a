"""Predictions that were computed elsewhere need no torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from vl_assay.hub_datasets import load_examples


@pytest.mark.slow
def test_predictions_are_read_and_evaluated_without_torch(toy, tmp_path):
    [task] = load_examples("toy_scenes/itm", limit=5)
    rows = [{"id": example.id, "scores": [[1.0, 0.0]]} for example in task.examples]
    (tmp_path / "scores.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    for library in ("torch", "transformers", "accelerate"):
        (tmp_path / f"{library}.py").write_text("raise ModuleNotFoundError('it is not installed')", encoding="utf-8")
    command = ["run", f"precomputed:{tmp_path / 'scores.jsonl'}", "toy_scenes/itm", "--limit", "5", "--out", "out"]
    done = subprocess.run(
        [sys.executable, "-c", "from vl_assay.metrics.common.command_line import main; main()", *command],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "scores: main scores" in done.stdout
    assert "100.0 %" in done.stdout
    assert (tmp_path / "out" / "results.json").is_file()
