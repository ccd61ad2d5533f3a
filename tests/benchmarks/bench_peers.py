"""Speed of the runner against `mteb`, `clip_benchmark` and the authors' one-by-one loop, as ratios measured in one run.

    python tests/benchmarks/bench_peers.py --sugarcrepe DIR [--pairs 300] [--rounds 3]

`DIR` holds the released annotations (``swap_obj.json`` …). It runs in an environment of its own, since both peers need
torchvision, of the same build as torch:

    pip install torch==2.14.1 torchvision==0.29.1 mteb clip_benchmark open_clip_torch "transformers>=5.18,<6"
    pip install --no-deps -e . && pip install "evaluate>=0.4.6,<0.5" "accelerate>=1.10,<2" rich typer scipy

Pairs and images are those of ``bench_runner.py``; every model is a ViT-B/32 CLIP with random weights and the tokenizer
of CLIP, already in memory, and all have the same number of threads. A time goes from the built dataset on the disk to
the metrics (ours: to the predictions); of the rounds, which take turns, the quickest of each counts. Each peer has its
own defaults:

- `mteb`: ``mteb.evaluate`` of its task ``SugarCrepe`` by its ``CLIPModel``, with a local dataset in place of the Hub's;
  texts in batches of 32, images one at a time, no worker processes.
- `clip_benchmark`: its ``SugarCrepe`` dataset and ``image_caption_selection.evaluate`` with open_clip's
  ``ViT-B-32-quickgelu``, in batches of 64, four worker processes, once in bfloat16 (its default) and once in float32
  (``--no_amp``). All pairs stand in one dataset: its command line would start seven times.
- The authors' loop: see ``bench_runner.py``.

Ratios are to our times in float32 and, of the seconds, with ``--dtype auto``, whose decisions are those of float32 (a
difference is an error). Exits with 1 when the last ratio misses its goal.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from harness import read_options, workplace

# isort: split
import datasets
import mteb
import open_clip
import torch
from bench_runner import CONTEXT, authors_loop, lay_out, read_pairs
from clip_benchmark.datasets.builder import image_captions_collate_fn
from clip_benchmark.datasets.sugar_crepe import SugarCrepe as TheirPairs
from clip_benchmark.metrics import image_caption_selection
from mteb.models.model_implementations.clip_models import CLIPModel as MtebClip
from mteb.tasks.image_text_pair_classification.eng.sugar_crepe import SugarCrepe as MtebTask
from rich.console import Console
from rich.table import Table
from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPTokenizer

from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import LoadOptions, load_model, predict
from vl_assay.model_wrappers.engine.precision import AUTO, load_in_two

MERGES = 49152 - 256 - 2  # what CLIP uses of the file that open_clip brings
GOALS = {"mteb": 7.5, "clip_benchmark --no_amp": 8.0, "the authors' loop": 15.0}  # to ours with --dtype auto


class Times(NamedTuple):
    """The seconds of one way through the pairs, and what it decided."""

    total: float
    accuracy: float = float("nan")
    decisions: tuple[bool, ...] = ()


def timed(function: Callable[[], Any]) -> tuple[Times, Any]:
    """The time that a function takes, without an accuracy, and what it returned."""
    start = time.perf_counter()
    found = function()
    return Times(time.perf_counter() - start), found


def make_checkpoint(folder: Path) -> Path:
    """A ViT-B/32 CLIP with random weights and CLIP's own tokenizer, which open_clip brings."""
    path = Path(str(open_clip.__file__)).parent / "bpe_simple_vocab_16e6.txt.gz"
    merges = gzip.decompress(path.read_bytes()).decode().split("\n")[1 : MERGES + 1]
    symbols = list(open_clip.tokenizer.bytes_to_unicode().values())
    tokens = [*symbols, *(f"{symbol}</w>" for symbol in symbols), *("".join(merge.split()) for merge in merges)]
    vocabulary = {token: i for i, token in enumerate([*tokens, "<|startoftext|>", "<|endoftext|>"])}
    pairs: Any = [tuple(merge.split()) for merge in merges]
    tokenizer = CLIPTokenizer(vocab=vocabulary, merges=pairs, model_max_length=CONTEXT)
    torch.manual_seed(0)
    end = vocabulary["<|endoftext|>"]
    CLIPModel(CLIPConfig(text_config={"bos_token_id": end - 1, "eos_token_id": end})).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    CLIPImageProcessor().save_pretrained(folder)
    return folder


class LocalTask(MtebTask):
    """mteb's SugarCrepe over a dataset that is already there."""

    local: datasets.Dataset

    def load_data(self, num_proc: int | None = None, **kwargs: Any) -> None:
        self.dataset: Any = datasets.DatasetDict({"test": self.local})
        self.data_loaded = True


def prepare_mteb(checkpoint: Path, pairs: list, images: Path, work: Path) -> Callable[[], Times]:
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

    def measure() -> Times:
        times, result = timed(lambda: mteb.evaluate(model, LocalTask(), cache=None, show_progress_bar=False))
        return times._replace(accuracy=result.task_results[0].get_score())

    return measure


def prepare_clip_benchmark(pairs: list, images: Path, work: Path, *, amp: bool) -> Callable[[], Times]:
    """clip_benchmark's dataset and evaluation, its data loader as its command line makes it."""
    annotations = work / "clip_benchmark.json"
    annotations.write_text(json.dumps({str(i): record for i, (_, record) in enumerate(pairs)}), encoding="utf-8")
    torch.manual_seed(0)
    model, _, transform = open_clip.create_model_and_transforms("ViT-B-32-quickgelu")
    model.eval()
    tokenizer = open_clip.get_tokenizer("ViT-B-32-quickgelu")

    def evaluate() -> dict[str, float]:
        dataset = TheirPairs(root=str(images), ann_file=str(annotations), transform=transform)
        loader = torch.utils.data.DataLoader(
            dataset, batch_size=64, shuffle=False, num_workers=4, collate_fn=image_captions_collate_fn
        )
        return image_caption_selection.evaluate(model, loader, tokenizer, "cpu", amp=amp)

    def measure() -> Times:
        times, found = timed(evaluate)
        return times._replace(accuracy=found["text_acc"])

    return measure


def prepare_authors_loop(checkpoint: Path, pairs: list, images: Path) -> Callable[[], Times]:
    """The loop of ``bench_runner.py``."""
    model = load_model(str(checkpoint))
    return lambda: timed(lambda: authors_loop(model, checkpoint, pairs, images))[0]


def prepare_ours(checkpoint: Path, pairs: list, folder: Path, work: Path, dtype: str) -> Callable[[], Times]:
    """The runner, over datasets built beforehand, without the cache of embeddings."""
    options = {"verify": False}
    benchmarks = [f"sugarcrepe/{category}" for category in sorted({category for category, _ in pairs})]
    predict("mock:constant", benchmarks, out=work / f"warm-{dtype}", data_dir=folder, options=options, progress=False)
    model: Any
    if dtype == AUTO:
        model = load_in_two(load_model, str(checkpoint), LoadOptions())
    else:
        model = load_model(str(checkpoint), LoadOptions(dtype=dtype))
    rounds = iter(range(1000))

    def measure() -> Times:
        out = work / f"predictions-{dtype}-{next(rounds)}"
        times, paths = timed(
            lambda: predict(model, benchmarks, out=out, data_dir=folder, options=options, progress=False)
        )
        scores = [row.scores[0] for path in paths for row in read_predictions(path).rows]
        rechecked = read_predictions(paths[0]).metadata["run"]["rechecked_pairs"]
        if rechecked:
            print(f"{rechecked} near-ties were re-checked in float64, which no peer does", flush=True)
        decisions = tuple(true > false for true, false in scores)
        return times._replace(accuracy=sum(decisions) / len(decisions), decisions=decisions)

    return measure


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the peers' progress bars."""
    with contextlib.redirect_stderr(io.StringIO()):
        yield


def report(best: dict[str, Times], count: int, images: int) -> bool:
    """Print the table; whether all goals are met."""
    ours, auto = best["ours"], best["ours, --dtype auto"]
    libraries = ", ".join(f"{name} {version(name)}" for name in ("mteb", "clip_benchmark", "open_clip_torch", "torch"))
    table = Table(title=f"{count} pairs over {images} images, {torch.get_num_threads()} threads; {libraries}")
    for column in ("", "seconds", "pairs/s", "accuracy", "ratio", "to auto", "goal"):
        table.add_column(column, justify="right" if column else "left")
    for name, times in best.items():
        goal = f">= {GOALS[name]:g}" if name in GOALS else ""
        figures = (f"{times.total:.2f}", f"{count / times.total:.1f}", f"{times.accuracy:.3f}")
        table.add_row(name, *figures, f"{times.total / ours.total:.2f}", f"{times.total / auto.total:.2f}", goal)
    half = best["clip_benchmark"].total / best["ours in bfloat16"].total
    Console(width=120).print(table, f"clip_benchmark against ours, both in bfloat16: {half:.2f}")
    if auto.decisions != ours.decisions:
        raise AssertionError("--dtype auto does not decide as float32")
    return all(best[name].total / auto.total >= goal for name, goal in GOALS.items())


def main() -> int:
    """Measure and print; the exit status."""
    arguments = read_options(__doc__, sugarcrepe=Path, pairs=300, rounds=3)
    with workplace() as work:
        pairs = read_pairs(arguments.sugarcrepe, arguments.pairs)
        folder = lay_out(pairs, work / "coco")
        images = folder / "val2017"
        checkpoint = make_checkpoint(work / "vit-b-32")
        ways = {
            "ours": prepare_ours(checkpoint, pairs, folder, work, "float32"),
            "ours, --dtype auto": prepare_ours(checkpoint, pairs, folder, work, AUTO),
            "ours in bfloat16": prepare_ours(checkpoint, pairs, folder, work, "bfloat16"),
            "mteb": prepare_mteb(checkpoint, pairs, images, work),
            "clip_benchmark": prepare_clip_benchmark(pairs, images, work, amp=True),
            "clip_benchmark --no_amp": prepare_clip_benchmark(pairs, images, work, amp=False),
            "the authors' loop": prepare_authors_loop(checkpoint, pairs, images),
        }
        best: dict[str, Times] = {}
        for number in range(arguments.rounds):
            for name, measure in ways.items():
                with _quiet():
                    times = measure()
                print(f"round {number + 1}: {name} {times.total:.2f} s", flush=True)
                best[name] = min(times, best.get(name, times))
    return 0 if report(best, len(pairs), len({record["filename"] for _, record in pairs})) else 1


if __name__ == "__main__":
    sys.exit(main())
