"""The recipe of demo-clip: a small `CLIPModel`, trained from nothing on toy_scenes' train split.

    python -m vl_assay.model_wrappers.demo_clip.train --out DIR

Plain contrastive training (in-batch negatives only, no hard negatives), seeded; well under an hour on two CPU cores.
The result is an ordinary checkpoint folder that `CLIPModel.from_pretrained` opens.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import track
from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPTokenizer

from ...hub_datasets.toy_scenes import language, tasks
from ...hub_datasets.toy_scenes.render import render
from ...hub_datasets.toy_scenes.world import CANVAS

BOS, EOS = "<|startoftext|>", "<|endoftext|>"
MAX_TOKENS = 48


@dataclass(frozen=True)
class DemoClipRecipe:
    """All that determines the result, except the versions of the libraries and the number of threads.

    Each number of `steps` is a round, with `scenes` new scenes and its own schedule of the learning rate.
    """

    steps: tuple[int, ...] = (3_600, 2_600)
    scenes: int = 40_000
    batch_size: int = 128
    learning_rate: float = 1e-3
    warmup: int = 200
    weight_decay: float = 0.1
    seed: int = 0


def build_tokenizer() -> CLIPTokenizer:
    """Return a CLIP tokenizer whose merges spell the words of toy_scenes in one to three tokens.

    Any other text still has tokens, about one a character. The end token has the highest id: `CLIPTextModel` with the
    historic ``eos_token_id == 2`` pools at the highest id of a row, and newer configurations at the end token.
    """
    letters = [chr(c) for c in range(33, 127)]
    tokens = [*letters, *(letter + "</w>" for letter in letters)]
    merges: list[tuple[str, str]] = []
    words = {w for words in language.SYNONYMS.values() for text in words for w in text.split()}
    for word in sorted(words | language.FUNCTION_WORDS):
        symbols = [*word[:-1], word[-1] + "</w>"]
        while len(symbols) > 1:
            pair = (symbols[0], symbols[1])
            if pair not in merges:
                merges.append(pair)
                tokens.append("".join(pair))
            symbols[:2] = ["".join(pair)]
    ranked: Any = merges
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys([*tokens, BOS, EOS]))}
    return CLIPTokenizer(
        vocab=vocabulary,
        merges=ranked,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=EOS,
        unk_token=EOS,
        model_max_length=MAX_TOKENS,
    )


def build_model(tokenizer: CLIPTokenizer) -> CLIPModel:
    """Return the untrained model."""
    tower = {"hidden_size": 128, "intermediate_size": 512, "num_attention_heads": 4, "projection_dim": 128}
    vision = {**tower, "num_hidden_layers": 4, "image_size": CANVAS, "patch_size": 16}
    return new_clip(tokenizer, {**tower, "num_hidden_layers": 3}, vision)


def new_clip(tokenizer: CLIPTokenizer, text: dict[str, Any], vision: dict[str, Any]) -> CLIPModel:
    """Return a CLIP with random weights for a tokenizer; the values set its towers' configurations."""
    tokens = ("bos_token_id", "eos_token_id", "pad_token_id")
    text = {**text, "vocab_size": len(tokenizer), "max_position_embeddings": MAX_TOKENS}
    text |= {name: getattr(tokenizer, name) for name in tokens}
    return CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=text["projection_dim"]))


def build_image_processor() -> CLIPImageProcessor:
    """Return the model's preprocessing, for images of `CANVAS` pixels."""
    size = {"height": CANVAS, "width": CANVAS}
    return CLIPImageProcessor(size={"shortest_edge": CANVAS}, crop_size=size, image_mean=[0.5] * 3, image_std=[0.5] * 3)


def load_scenes(recipe: DemoClipRecipe, number: int) -> tuple[torch.Tensor, list[list[str]]]:
    """Return images (n, 3, `CANVAS`, `CANVAS`) of a round as bytes, 49 kB each, and the captions of each."""
    pixels = np.empty((recipe.scenes, CANVAS, CANVAS, 3), np.uint8)
    captions = []
    for index in track(range(recipe.scenes), f"drawing scenes of round {number + 1}"):
        index_of_scene = number * recipe.scenes + index
        episode, [row] = tasks.task_rows("captions", recipe.seed, "train", index_of_scene)
        pixels[index] = np.asarray(render(episode.scene))
        captions.append(row["captions"])
    return torch.from_numpy(pixels).permute(0, 3, 1, 2), captions


def train(recipe: DemoClipRecipe) -> tuple[CLIPModel, CLIPTokenizer]:
    """Train by the recipe; prints the loss now and then."""
    torch.manual_seed(recipe.seed)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer)
    for number in range(len(recipe.steps)):
        train_round(model, tokenizer, recipe, number)
    return model.eval(), tokenizer


def train_round(model: CLIPModel, tokenizer: CLIPTokenizer, recipe: DemoClipRecipe, number: int) -> None:
    """Train one round, counted from 0, in place; deterministic in the model's weights, the recipe and the round."""
    rng = np.random.default_rng(recipe.seed + number)
    pixels, captions = load_scenes(recipe, number)

    def loss_of(step: int) -> torch.Tensor:
        indices = rng.choice(recipe.scenes, size=recipe.batch_size, replace=False)
        texts = [captions[i][int(rng.integers(len(captions[i])))] for i in indices]
        tokens = tokenizer(texts, padding=True, return_tensors="pt")
        images = pixels[torch.from_numpy(indices)].float().div_(127.5).sub_(1)
        return model(**tokens, pixel_values=images, return_loss=True).loss

    optimise(model, recipe, recipe.steps[number], f"training, round {number + 1}", loss_of)


def optimise(
    model: Any, recipe: Any, steps: int, title: str, loss_of: Callable[[int], torch.Tensor], *, quiet: bool = False
) -> None:
    """Take the steps with AdamW; the learning rate has a linear warm-up, then a half cosine to 0.

    Args:
        model: trained in place.
        recipe: has ``learning_rate``, ``weight_decay`` and ``warmup``.
        steps: how many.
        title: of the progress and the losses that are printed.
        loss_of: the loss of a step, by its number.
        quiet: whether nothing is printed.
    """

    def rate(step: int) -> float:
        if step < recipe.warmup:
            return (step + 1) / recipe.warmup
        return 0.5 * (1 + math.cos(math.pi * (step - recipe.warmup) / (steps - recipe.warmup)))

    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay, betas=(0.9, 0.98)
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    for step in track(range(steps), title, disable=quiet):
        loss = loss_of(step)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if not quiet and (step % 100 == 0 or step == steps - 1):
            print(f"{title}  step {step:5d}  loss {loss.item():.3f}", flush=True)


def command_line(recipe: Any, description: str | None, train: Callable[[Any], tuple[Any, ...]]) -> None:
    """Train by a recipe and save from the command line.

    Args:
        recipe: the dataclass of the recipe.
        description: text of ``--help``.
        train: returns what is saved: model, tokenizer and image processor.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the new checkpoint")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for part in train(recipe()):
        part.save_pretrained(out)


if __name__ == "__main__":
    command_line(DemoClipRecipe, __doc__, lambda recipe: (*train(recipe), build_image_processor()))
