"""Scores on a GPU beside a plain `DataLoader` loop: seconds, and decisions that change with the precision.

    python tests/benchmarks/bench_gpu.py --sugarcrepe DIR [--pairs 7511]

`DIR` holds the released annotations (``swap_obj.json`` …). The model is a ViT-B/32 CLIP with random weights; the images
are noise, 640 × 480. For float32, bfloat16 and auto it prints the seconds after loading, pairs a second, how many
decisions differ from float32, and the seconds over those of a plain loop: distinct images by a `DataLoader` with all
CPUs but one, distinct captions by length, batches of 256, in float32 or bfloat16 (for auto, too). Without a GPU it runs
on the CPU, and says so.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench_runner import lay_out, make_checkpoint, read_pairs, texts_of
from harness import read_options, seconds_of, workplace
from PIL import Image
from rich.console import Console
from rich.table import Table
from transformers import AutoTokenizer, CLIPImageProcessor, CLIPModel

from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import predict

BATCH = 256


class Images(torch.utils.data.Dataset):
    """The images of a folder as pixel values."""

    def __init__(self, paths: list[Path], processor: Any) -> None:
        self._paths, self._processor = paths, processor

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        """Return pixel values (3, 224, 224)."""
        image = Image.open(self._paths[index]).convert("RGB")
        return self._processor(image, return_tensors="pt")["pixel_values"][0]


@torch.inference_mode()
def plain_loop(model: Any, folder: Path, pairs: list, data: Path) -> torch.Tensor:
    """Return the score margins (n,) of pairs as a good engineer would compute them."""
    device, dtype = model.device.type, model.dtype
    tokenizer = AutoTokenizer.from_pretrained(folder)
    names = list(dict.fromkeys(record["filename"] for _, record in pairs))
    images = Images([data / "val2017" / name for name in names], CLIPImageProcessor.from_pretrained(folder))
    workers = max(len(os.sched_getaffinity(0)) - 1, 0)
    loader = torch.utils.data.DataLoader(images, BATCH, num_workers=workers, pin_memory=device == "cuda")
    seen = [model.get_image_features(batch.to(device, dtype, non_blocking=True)).pooler_output for batch in loader]
    texts = sorted(texts_of(pairs), key=len)
    read = []
    for start in range(0, len(texts), BATCH):
        batch = tokenizer(texts[start : start + BATCH], padding=True, truncation=True, return_tensors="pt").to(device)
        read.append(model.get_text_features(**batch).pooler_output)
    vision, text = (torch.nn.functional.normalize(torch.cat(rows).float(), dim=-1) for rows in (seen, read))
    image_at, text_at = ({name: i for i, name in enumerate(each)} for each in (names, texts))
    rows = vision[[image_at[record["filename"]] for _, record in pairs]]
    good, bad = (text[[text_at[record[side]] for _, record in pairs]] for side in ("caption", "negative_caption"))
    return ((good - bad) * rows).sum(-1).cpu()


def main() -> int:
    """Measure and print."""
    options = read_options(__doc__, sugarcrepe=Path, pairs=7511)
    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU: this is the CPU"
    table = Table("dtype", "seconds", "pairs / s", "decisions changed", "plain loop", "ours / plain", title=device)
    with workplace() as folder:
        pairs = read_pairs(options.sugarcrepe, options.pairs)
        data = lay_out(pairs, folder / "release")
        make_checkpoint(texts_of(pairs), folder / "model")
        name, decided = str(folder / "model"), {}
        plain_device = "cuda" if torch.cuda.is_available() else "cpu"
        for dtype in ("float32", "bfloat16", "auto"):
            config = {"data_dir": data, "options": {"verify": False}, "cache": False}
            files = predict(name, "sugarcrepe", out=folder / dtype, dtype=dtype, progress=False, **config)
            found = read_predictions(files[0])
            seconds = found.metadata["run"]["seconds"]["scores"]
            decided[dtype] = [int(np.argmax(row.scores)) for row in found.rows]
            changed = sum(one != other for one, other in zip(decided[dtype], decided["float32"], strict=True))
            plain_dtype = torch.float32 if dtype == "float32" else torch.bfloat16
            model = CLIPModel.from_pretrained(name).to(plain_device, plain_dtype).eval()
            plain = seconds_of(partial(plain_loop, model, folder / "model", pairs, data))
            figures = (seconds, len(pairs) / seconds, changed, plain, seconds / plain)
            table.add_row(
                dtype, *(f"{figure:.{digits}f}" for figure, digits in zip(figures, (1, 0, 0, 1, 2), strict=True))
            )
    Console(width=100).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
