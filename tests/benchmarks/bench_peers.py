"""Speed of the runner against `mteb`, `clip_benchmark` and the authors' one-by-one loop, as ratios measured in one run.

    python tests/benchmarks/bench_peers.py --sugarcrepe DIR [--pairs 300] [--rounds 3]

`DIR` holds the released annotations (``swap_obj.json`` …). It runs in an environment of its own, since both peers need
torchvision, of the same build as torch:

    pip install torch==2.14.1 torchvision==0.29.1 mteb clip_benchmark open_clip_torch "transformers>=5.18,<6"
    pip install --no-deps -e . && pip install "evaluate>=0.4.6,<0.5" "accelerate>=1.10,<2" rich typer scipy

Pairs and images are those of ``bench_runner.py``; every model is a ViT-B/32 CLIP with random weights in float32,
already in memory, and all have the same number of threads. A time goes from the built dataset on the disk to the
metrics (ours: to the predictions); of the rounds, which take turns, the quickest of each counts. Each peer has its own
defaults:

- `mteb`: ``mteb.evaluate`` of its task ``SugarCrepe`` by its ``CLIPModel``, with a local dataset in place of the Hub's;
  texts in batches of 32, images one at a time, no worker processes.
- `clip_benchmark`: its ``SugarCrepe`` dataset and ``image_caption_selection.evaluate`` with open_clip's
  ``ViT-B-32-quickgelu``, in batches of 64, four worker processes, in float32 (``--no_amp``). All pairs stand in one
  dataset: its command line would start seven times.
- The authors' loop: see ``bench_runner.py``.

Ratios are to our times in float32, and with ``--dtype auto``, whose decisions are those of float32 (a difference is an
error). Exits with 1 when one of the latter misses its goal.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import check_goals, least_in_turns, read_options, seconds_of, workplace

# isort: split
import datasets
import mteb
import open_clip
import torch
from bench_runner import Runner, authors_loop, lay_out, make_checkpoint, read_pairs, texts_of
from clip_benchmark.datasets.builder import image_captions_collate_fn
from clip_benchmark.datasets.sugar_crepe import SugarCrepe as TheirPairs
from clip_benchmark.metrics import image_caption_selection
from mteb.models.model_implementations.clip_models import CLIPModel as MtebClip
from mteb.tasks.image_text_pair_classification.eng.sugar_crepe import SugarCrepe as MtebTask

from vl_assay.model_wrappers import LoadOptions, load_model
from vl_assay.model_wrappers.engine.precision import AUTO, load_in_two

GOALS = {"mteb": 7.5, "clip_benchmark": 8.0, "the authors' loop": 15.0}  # to ours with --dtype auto
AUTOMATIC = "ours, --dtype auto"


class LocalTask(MtebTask):
    """mteb's SugarCrepe over a dataset that is already there."""

    local: datasets.Dataset

    def load_data(self, num_proc: int | None = None, **kwargs: Any) -> None:
        self.dataset: Any = datasets.DatasetDict({"test": self.local})
        self.data_loaded = True


def prepare_mteb(checkpoint: Path, pairs: list, images: Path, work: Path) -> Callable[[], float]:
    """mteb's model and dataset, the latter on the disk as the Hub's is after its download."""
    names = [str(images / record["filename"]) for _, record in pairs]
    columns = {key: [record[key] for _, record in pairs] for key in ("caption", "negative_caption")}
    made = datasets.Dataset.from_dict({"images": names, **columns}).cast_column("images", datasets.Image())
    made.to_parquet(work / "mteb" / "test.parquet")  # with the files' bytes
    LocalTask.local = datasets.load_dataset(
        "parquet", data_files=str(work / "mteb" / "test.parquet"), split="train", cache_dir=str(work / "datasets")
    )
    model: Any = MtebClip(str(checkpoint), revision="main", device="cpu")
    model.mteb_model_meta = mteb.get_model_meta("openai/clip-vit-base-patch32")
    return lambda: seconds_of(lambda: mteb.evaluate(model, LocalTask(), cache=None, show_progress_bar=False))


def prepare_clip_benchmark(pairs: list, images: Path, work: Path) -> Callable[[], float]:
    """clip_benchmark's dataset and evaluation, its data loader as its command line makes it."""
    annotations = work / "clip_benchmark.json"
    annotations.write_text(json.dumps({str(i): record for i, (_, record) in enumerate(pairs)}), encoding="utf-8")
    torch.manual_seed(0)
    model, _, transform = open_clip.create_model_and_transforms("ViT-B-32-quickgelu")
    model.eval()
    tokenizer = open_clip.get_tokenizer("ViT-B-32-quickgelu")

    def evaluate() -> None:
        dataset = TheirPairs(root=str(images), ann_file=str(annotations), transform=transform)
        loader = torch.utils.data.DataLoader(
            dataset, batch_size=64, shuffle=False, num_workers=4, collate_fn=image_captions_collate_fn
        )
        image_caption_selection.evaluate(model, loader, tokenizer, "cpu", amp=False)

    return lambda: seconds_of(evaluate)


def main() -> int:
    """Measure and print; the exit status."""
    arguments = read_options(__doc__, sugarcrepe=Path, pairs=300, rounds=3)
    with workplace() as work, contextlib.redirect_stderr(io.StringIO()):  # without the peers' progress bars
        pairs = read_pairs(arguments.sugarcrepe, arguments.pairs)
        folder = lay_out(pairs, work / "coco")
        images = folder / "val2017"
        checkpoint = make_checkpoint(texts_of(pairs), work / "vit-b-32")
        model = load_model(str(checkpoint), LoadOptions(dtype="float32"))
        automatic: Any = load_in_two(load_model, str(checkpoint), LoadOptions())
        ours, ours_automatic = (
            Runner(model, pairs, folder, work / "ours"),
            Runner(automatic, pairs, folder, work / AUTO),
        )
        ways = {
            "ours": ours,
            AUTOMATIC: ours_automatic,
            "mteb": prepare_mteb(checkpoint, pairs, images, work),
            "clip_benchmark": prepare_clip_benchmark(pairs, images, work),
            "the authors' loop": lambda: authors_loop(model, checkpoint, pairs, images),
        }
        seconds = least_in_turns(ways, arguments.rounds)
    for name, taken in seconds.items():
        print(f"{name}: {taken:.2f} s, {taken / seconds['ours']:.2f} of ours in float32")
    decisions, others = (runner.scores[::2] > runner.scores[1::2] for runner in (ours, ours_automatic))
    if (decisions != others).any():
        raise AssertionError("--dtype auto does not decide as float32")
    goals = [
        (f"{name}, over ours with --dtype auto", seconds[name] / seconds[AUTOMATIC], ">=", GOALS[name])
        for name in GOALS
    ]
    return check_goals(f"{len(pairs)} pairs, {torch.get_num_threads()} threads", goals)


if __name__ == "__main__":
    sys.exit(main())
