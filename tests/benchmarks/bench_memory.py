"""Peak memory of `predict` with ten times the images: it should not grow.

    python tests/benchmarks/bench_memory.py [--images 1000 10000]

The model is a tiny CLIP, the images are small JPEGs (about 1 kB), each with one pair of captions of its own, so that
what the runner holds for an image and its texts would show. The datasets are built beforehand; each size is scored by
a process of its own, whose peak of resident memory (``getrusage``) counts: what Python holds, torch's buffers, and
those pages of the dataset's file that were mapped. Exits with 1 when the peak of the larger exceeds that of the smaller
by more than 15 % and by more than 60 MB.

Beside it stand what the process had in private memory before `predict` began and at the most after (looked at every
10 ms), and from another run, under `tracemalloc`, what Python had allocated at its peak, and by file what it still
held when the predictions file was about to be written.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
from harness import workplace

RATIO, MEGABYTES = 1.15, 60.0
# Files that hold less than so many megabytes are not shown.
_SHOWN = 0.3


def lay_out(count: int, folder: Path) -> Path:
    """SugarCrepe's file layout with that many images of noise, each with a pair of captions of its own."""
    from PIL import Image

    (folder / "data").mkdir(parents=True)
    (folder / "val2017").mkdir()
    rng = np.random.default_rng(0)
    records = {}
    for number in range(count):
        name = f"{number:012d}.jpg"
        Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8)).save(folder / "val2017" / name)
        caption = f"a red cat number {number} beside a big blue dog number {count - number} in front of a small house"
        negative = caption.replace("cat", "box").replace("dog", "cat")
        records[str(number)] = {"filename": name, "caption": caption, "negative_caption": negative}
    (folder / "data" / "swap_obj.json").write_text(json.dumps(records), encoding="utf-8")
    return folder


class Watch(threading.Thread):
    """The most private memory of this process, looked at every 10 ms, in megabytes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.before = self.peak = private_memory()
        self._stop_asked = threading.Event()

    def run(self) -> None:
        while not self._stop_asked.wait(0.01):
            self.peak = max(self.peak, private_memory())

    def stop(self) -> None:
        self._stop_asked.set()
        self.join()


def private_memory() -> float:
    """Megabytes of this process that no file on the disk stands behind; 0 where the system does not tell."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("RssAnon")), 0.0)


def child(arguments: argparse.Namespace) -> None:
    """Score in this process and print what it took, as JSON."""
    from vl_assay.model_wrappers import load_model, predict

    settings: dict[str, Any] = {"data_dir": arguments.data, "options": {"verify": False}, "progress": False}
    if arguments.what == "build":
        predict("mock:constant", "sugarcrepe/swap_obj", out=arguments.out, **settings)
        return
    model = load_model(str(arguments.model))
    held: dict[str, float] = {}
    if arguments.what == "trace":
        _look_before_writing(held)
        tracemalloc.start()
    watch = Watch()
    watch.start()
    predict(model, "sugarcrepe/swap_obj", out=arguments.out, cache=False, **settings)
    watch.stop()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)
    found: dict[str, Any] = {"peak": peak, "private before": watch.before, "private peak": watch.peak}
    if arguments.what == "trace":
        found = {"python peak": tracemalloc.get_traced_memory()[1] / 1e6, **held}
    print(json.dumps(found))


def _look_before_writing(held: dict[str, float]) -> None:
    """Put the megabytes of Python objects that are alive just before predictions are written into `held`."""
    from vl_assay.model_wrappers.engine import output

    write = output.write_predictions

    def look_and_write(*args: Any) -> None:
        statistics = tracemalloc.take_snapshot().statistics("filename")
        found = {"/".join(Path(one.traceback[0].filename).parts[-2:]): one.size / 1e6 for one in statistics}
        held.update({f"held: {name}": size for name, size in found.items() if size >= _SHOWN})
        write(*args)

    output.write_predictions = look_and_write


def measure(what: str, data: Path, out: Path, model: Path) -> dict[str, Any]:
    """What a process of its own prints."""
    command = [sys.executable, __file__, "--what", what, "--data", str(data), "--out", str(out), "--model", str(model)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1]) if what != "build" else {}


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, nargs=2, default=[1000, 10000])
    parser.add_argument("--what", choices=("build", "score", "trace"), help=argparse.SUPPRESS)
    for name in ("--data", "--out", "--model"):
        parser.add_argument(name, type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.what:
        child(arguments)
        return 0
    from rich.console import Console
    from rich.table import Table
    from tiny_models.dual_encoders import tiny_clip

    found = []
    with workplace() as work:
        model = tiny_clip(work / "tiny-clip", positions=77)
        for count in arguments.images:
            data = lay_out(count, work / f"coco-{count}")
            measure("build", data, work / f"built-{count}", model)
            figures = measure("score", data, work / f"predictions-{count}", model)
            found.append(figures | measure("trace", data, work / f"traced-{count}", model))
    small, large = found
    table = Table("MB", *(f"{count:,} images" for count in arguments.images), "difference", "ratio")
    for name in large:
        a, b = small.get(name, 0.0), large[name]
        table.add_row(name, f"{a:.1f}", f"{b:.1f}", f"{b - a:+.1f}", f"{b / a if a else 0:.3f}")
    Console(width=120).print(table, f"goal: peak at most {RATIO} times, or {MEGABYTES:g} MB more")
    grown = large["peak"] - small["peak"]
    return 0 if grown <= max(MEGABYTES, (RATIO - 1) * small["peak"]) else 1


if __name__ == "__main__":
    sys.exit(main())
