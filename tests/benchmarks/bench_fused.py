"""Speed of the runner on a fused model, and its total time over the bare forwards, as ratios measured in one run.

    python tests/benchmarks/bench_fused.py --sugarcrepe DIR [--pairs 48] [--dual-pairs 300]

`DIR` holds the released annotations (``swap_obj.json`` …). The fused model is BLIP with its image-text matching head,
of the base size, at 384 pixels, with random weights; pairs and images are those of ``bench_runner.py``, with 4.8 pairs
to an image, so 9.6 captions. Its rival is the loop of the model's own documentation: one forward of image and caption
for each caption. Total times, from the built dataset to the predictions, are compared with the forwards alone over the
different images and captions, batched, inputs ready in memory: for BLIP and for ``bench_runner.py``'s ViT-B/32 CLIP.
Of the rounds, which take turns, the quickest of each counts. Exits with 1 when a ratio misses its goal.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench_runner import Runner, bare_forwards, lay_out, make_checkpoint, read_pairs, texts_of
from harness import check_goals, read_options, workplace
from PIL import Image
from transformers import AutoTokenizer, BertTokenizer, BlipConfig, BlipForImageTextRetrieval, BlipImageProcessor

from vl_assay.model_wrappers import load_model

BATCH = 32  # the runner's own on a CPU


def make_blip(texts: list[str], folder: Path) -> Path:
    """BLIP-ITM of the base size with random weights and a vocabulary of the captions' words."""
    words = sorted({word for text in texts for word in re.findall(r"\w+|[^\w\s]", text.lower())})
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    tokenizer = BertTokenizer(vocab={token: i for i, token in enumerate(tokens)}, model_max_length=512)
    torch.manual_seed(0)
    text = {"num_attention_heads": 12, "encoder_hidden_size": 768, "pad_token_id": 0, "sep_token_id": 3}
    BlipForImageTextRetrieval(BlipConfig(text_config=text)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    BlipImageProcessor(size={"height": 384, "width": 384}).save_pretrained(folder)
    return folder


def wanted(pairs: list) -> dict[str, list[str]]:
    """The different captions of each image."""
    captions: dict[str, list[str]] = {}
    for _, record in pairs:
        known = captions.setdefault(record["filename"], [])
        known += [text for text in (record["caption"], record["negative_caption"]) if text not in known]
    return captions


@torch.inference_mode()
def loop(model: Any, checkpoint: Path, pairs: list, images: Path) -> tuple[float, np.ndarray]:
    """Seconds of one forward for each caption of each pair, and the log-odds of a match."""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    start, found = time.perf_counter(), []
    for _, record in pairs:
        for caption in (record["caption"], record["negative_caption"]):
            pixels = torch.from_numpy(model.prepare_image(Image.open(images / record["filename"])))[None]
            tokens = tokenizer(caption, return_tensors="pt")
            logits = model.module(
                pixel_values=pixels, input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]
            ).itm_score
            found.append(float(logits[0, 1] - logits[0, 0]))
    return time.perf_counter() - start, np.array(found)


def bare_blip(model: Any, pairs: list, images: Path) -> float:
    """Seconds of the family's forwards over the different images and their different captions, like lengths together.

    They share the keys and values of an image among its captions, as in the runner; transformers' own would not.
    """
    captions = wanted(pairs)
    pixels = [model.prepare_image(Image.open(images / name)) for name in captions]
    tokens = [model.prepare_captions(texts) for texts in captions.values()]
    start = time.perf_counter()
    for first in range(0, len(pixels), BATCH):
        features = model.encode_images(pixels[first : first + BATCH])
        batch = [(i, ids) for i, rows in enumerate(tokens[first : first + BATCH]) for ids in rows]
        batch.sort(key=lambda pair: len(pair[1]))
        for some in (batch[i : i + 4 * BATCH] for i in range(0, len(batch), 4 * BATCH)):
            model.match(features, [i for i, _ in some], [ids for _, ids in some])
    return time.perf_counter() - start


def main() -> int:
    """Measure and print; the exit status."""
    arguments = read_options(__doc__, sugarcrepe=Path, pairs=48, dual_pairs=300, rounds=2)
    with workplace() as work:
        pairs, dual_pairs = (read_pairs(arguments.sugarcrepe, n) for n in (arguments.pairs, arguments.dual_pairs))
        texts = texts_of(read_pairs(arguments.sugarcrepe, sys.maxsize))
        blip = load_model(str(make_blip(texts, work / "blip")))
        clip = load_model(str(make_checkpoint(texts, work / "vit-b-32")))
        folder, dual_folder = lay_out(pairs, work / "fused"), lay_out(dual_pairs, work / "dual")
        runner = Runner(blip, pairs, folder, work / "out")
        dual_runner = Runner(clip, dual_pairs, dual_folder, work / "out-dual")
        ways: dict[str, Callable[[], float]] = {
            "BLIP runner": runner,
            "BLIP bare": lambda: bare_blip(blip, pairs, folder / "val2017"),
            "CLIP runner": dual_runner,
            "CLIP bare": lambda: bare_forwards(clip, dual_pairs, dual_folder / "val2017", BATCH),
        }
        # One time through each beforehand: the first forwards of a process are slower.
        loop(blip, work / "blip", pairs[:1], folder / "val2017")
        bare_forwards(clip, dual_pairs[:20], dual_folder / "val2017", BATCH)
        seconds: dict[str, float] = {}
        for _ in range(arguments.rounds):
            for name, measure in ways.items():
                seconds[name] = min(measure(), seconds.get(name, np.inf))
        seconds["BLIP loop"], theirs = loop(blip, work / "blip", pairs, folder / "val2017")
        difference = np.abs(runner.scores - theirs).max()
    print({name: round(value, 2) for name, value in seconds.items()})
    for name, facts in (("BLIP", runner.facts), ("CLIP", dual_runner.facts)):
        print(f"{name}: re-checked pairs {facts['rechecked_pairs']}, {facts['seconds']}, {facts['stages']}")
    goals = [
        ("BLIP: speed-up over a forward for each caption", seconds["BLIP loop"] / seconds["BLIP runner"], ">=", 3.0),
        ("BLIP: total over the bare forwards", seconds["BLIP runner"] / seconds["BLIP bare"], "<=", 1.2),
        ("CLIP: total over the bare forwards", seconds["CLIP runner"] / seconds["CLIP bare"], "<=", 1.2),
        ("BLIP: largest difference to the loop's log-odds", difference, "<=", 1e-5),
    ]
    captions = wanted(pairs)
    title = f"BLIP: {len(pairs)} pairs, {len(captions)} images, {sum(map(len, captions.values()))} different captions"
    return check_goals(f"{title}; {torch.get_num_threads()} threads", goals)


if __name__ == "__main__":
    sys.exit(main())
