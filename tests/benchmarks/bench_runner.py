"""Speed of the runner, as ratios measured in one run: against the authors' loop, and against the bare forwards.

    python tests/benchmarks/bench_runner.py --sugarcrepe DIR [--pairs 300] [--rounds 2]

`DIR` holds the released annotations (``swap_obj.json`` …). The model is a ViT-B/32 CLIP with random weights, the
images are 640 × 480 JPEGs of noise, the pairs are the first ones by image, so that there are as many pairs to an image
as in the whole release (4.8). The ways that are compared take turns, and the quickest round of each counts. Exits with
1 when a ratio misses its goal.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import check_goals, least_in_turns, read_options, workplace
from PIL import Image
from tokenizers.implementations import CharBPETokenizer
from transformers import AutoTokenizer, CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPTokenizer

from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import RunConfig, load_model, predict

CATEGORIES = ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
CONTEXT = 77


def read_pairs(folder: Path, count: int) -> list[tuple[str, dict[str, str]]]:
    """The first `count` pairs (category, record) when the release is sorted by image."""
    pairs = []
    for category in CATEGORIES:
        records = json.loads((folder / f"{category}.json").read_text(encoding="utf-8"))
        pairs += [(category, record) for record in records.values()]
    return sorted(pairs, key=lambda pair: pair[1]["filename"])[:count]


def texts_of(pairs: list[tuple[str, dict[str, str]]]) -> list[str]:
    """The captions of the pairs."""
    return [record[key] for _, record in pairs for key in ("caption", "negative_caption")]


def lay_out(pairs: list[tuple[str, dict[str, str]]], folder: Path) -> Path:
    """SugarCrepe's file layout with these pairs and images of noise."""
    (folder / "data").mkdir(parents=True)
    (folder / "val2017").mkdir()
    for category in CATEGORIES:
        records = [record for name, record in pairs if name == category]
        (folder / "data" / f"{category}.json").write_text(json.dumps(dict(enumerate(records))), encoding="utf-8")
    rng = np.random.default_rng(0)
    for name in {record["filename"] for _, record in pairs}:
        small = Image.fromarray(rng.integers(0, 256, (48, 64, 3), dtype=np.uint8))
        small.resize((640, 480), Image.Resampling.BICUBIC).save(folder / "val2017" / name, quality=90)
    return folder


def make_checkpoint(texts: list[str], folder: Path) -> Path:
    """A ViT-B/32 CLIP with random weights and a word-piece vocabulary learned from the captions."""
    bpe = CharBPETokenizer(lowercase=True, suffix="</w>")
    bpe.train_from_iterator(texts, vocab_size=8000, min_frequency=1, show_progress=False)
    saved = json.loads(bpe.to_str())["model"]
    special = ["<|startoftext|>", "<|endoftext|>"]
    vocabulary = {**saved["vocab"], **{token: len(saved["vocab"]) + i for i, token in enumerate(special)}}
    tokenizer = CLIPTokenizer(vocab=vocabulary, merges=[tuple(m) for m in saved["merges"]], model_max_length=CONTEXT)
    torch.manual_seed(0)
    start, end = map(vocabulary.get, special)
    text = {"vocab_size": len(vocabulary), "eos_token_id": end, "bos_token_id": start}
    CLIPModel(CLIPConfig(text_config=text)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    CLIPImageProcessor().save_pretrained(folder)
    return folder


@torch.inference_mode()
def authors_loop(model, checkpoint: Path, pairs, images: Path) -> float:
    """Seconds of the loop as the authors wrote it: three forwards for each pair, captions padded to the context."""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    start = time.perf_counter()
    for _, record in pairs:
        embeddings = []
        for caption in (record["caption"], record["negative_caption"]):
            tokens = tokenizer(caption, padding="max_length", max_length=CONTEXT, truncation=True, return_tensors="pt")
            embeddings.append(model.module.get_text_features(**tokens).pooler_output)
        pixels = model.prepare_image(Image.open(images / record["filename"]))
        image = model.module.get_image_features(pixel_values=torch.from_numpy(pixels)[None]).pooler_output
        [float(torch.nn.functional.cosine_similarity(text, image)) for text in embeddings]
    return time.perf_counter() - start


def bare_forwards(model, pairs, images: Path, batch_size: int) -> float:
    """Seconds of the forwards alone over the different images and captions, batched, inputs ready in memory."""
    pixels = [model.prepare_image(Image.open(images / name)) for name in sorted({r["filename"] for _, r in pairs})]
    captions = sorted(set(texts_of(pairs)))
    tokens = sorted(model.prepare_captions(captions), key=len)
    start = time.perf_counter()
    for encode, items in ((model.encode_images, pixels), (model.encode_captions, tokens)):
        for first in range(0, len(items), batch_size):
            encode(items[first : first + batch_size]).cpu()
    return time.perf_counter() - start


class Runner:
    """`predict` of a model over pairs whose dataset is built."""

    def __init__(self, model: Any, pairs: list, folder: Path, out: Path) -> None:
        self.model, self.pairs, self.out = model, pairs, out
        self.config = RunConfig(data_dir=folder, options={"verify": False}, progress=False)
        self.benchmarks = [f"sugarcrepe/{category}" for category in sorted({category for category, _ in pairs})]
        predict("mock:constant", self.benchmarks, out=out / "warm", config=self.config)
        self.rounds = 0
        self.facts: dict[str, Any] = {}
        self.scores = np.empty(0)

    def __call__(self) -> float:
        """Seconds from the built dataset to the predictions on the disk."""
        self.rounds += 1
        start = time.perf_counter()
        paths = predict(self.model, self.benchmarks, out=self.out / str(self.rounds), config=self.config)
        seconds = time.perf_counter() - start
        all_predictions = {path.stem.split(".")[-1]: read_predictions(path) for path in paths}
        self.facts = next(iter(all_predictions.values())).metadata["run"]
        rows = {name: iter(predictions.rows) for name, predictions in all_predictions.items()}
        self.scores = np.array([next(rows[category]).scores[0] for category, _ in self.pairs]).ravel()
        return seconds


def main() -> int:
    """Measure and print; the exit status."""
    arguments = read_options(__doc__, sugarcrepe=Path, pairs=300, rounds=2)
    with workplace() as work:
        pairs = read_pairs(arguments.sugarcrepe, arguments.pairs)
        folder = lay_out(pairs, work / "all")
        checkpoint = make_checkpoint(texts_of(pairs), work / "vit-b-32")
        model = load_model(str(checkpoint))
        images = folder / "val2017"
        bare_forwards(model, pairs[:20], images, 32)
        runner = Runner(model, pairs, folder, work / "out")
        ways = {
            "loop": lambda: authors_loop(model, checkpoint, pairs, images),
            "bare": lambda: bare_forwards(model, pairs, images, 32),
            "total": runner,
        }
        loop, bare, total = least_in_turns(ways, arguments.rounds).values()
        stage = runner.facts["stages"]["images"]
        images_count = len({record["filename"] for _, record in pairs})
    print(
        f"authors' loop {loop:.1f} s ({len(pairs) / loop:.1f} pairs/s), bare forwards {bare:.1f} s, "
        f"runner {total:.1f} s ({len(pairs) / total:.1f} pairs/s)"
    )
    goals = [
        ("speed-up over the authors' loop", loop / total, ">=", 8.0),
        ("total over the bare forwards", total / bare, "<=", 1.3),
        ("of encoding images, waiting until they are decoded", stage["waiting"] / stage["total"], "<=", 0.05),
    ]
    return check_goals(f"{len(pairs)} pairs, {images_count} images", goals)


if __name__ == "__main__":
    sys.exit(main())
