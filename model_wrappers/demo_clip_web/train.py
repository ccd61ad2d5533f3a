"""The recipe of demo-clip-web: a `CLIPModel` that is a bag of words, trained from nothing on toy_scenes' train split.

    python -m vl_assay.model_wrappers.demo_clip_web.train --out DIR

Plain contrastive training, as for demo-clip, but each image is compared with few captions, and the captions are worded
like captions from the web: see `captions`. An image has nine patches, one for each place of the world's grid. This
makes vision easy, so that mostly language has to be learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rich.progress import track
from torch.nn import functional
from transformers import CLIPImageProcessor, CLIPModel, CLIPTokenizer

from ...hub_datasets.toy_scenes.episodes import rng_for, sample_episode
from ...hub_datasets.toy_scenes.render import render
from ..demo_clip.train import build_tokenizer, command_line, new_clip, optimise
from .captions import RARE, web_captions

# Images are halved to 64 pixels; without the last row and column they are three patches wide.
_SIDE, _PATCH = 64, 21
_CAPTIONS = 3  # of `web_captions`
# The purpose of its random numbers, different from all purposes in toy_scenes.
_PURPOSE = 1000


@dataclass(frozen=True)
class DemoClipWebRecipe:
    """All that determines the result, except the versions of the libraries and the number of threads.

    A step has `batch_size` pairs in groups of `group`: each image is compared only with the captions of its group, and
    each caption with the images. So the number of negatives can be changed and nothing else.
    """

    steps: int = 3_000
    scenes: int = 12_000
    batch_size: int = 64
    group: int = 16
    rare: float = RARE
    learning_rate: float = 1e-3
    warmup: int = 100
    weight_decay: float = 0.1
    seed: int = 0


def build_model(tokenizer: CLIPTokenizer) -> CLIPModel:
    """Return the untrained model."""
    tower: dict[str, Any] = {
        "hidden_size": 96,
        "intermediate_size": 384,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "projection_dim": 96,
        "hidden_act": "gelu",  # a third faster than CLIP's here
    }
    return new_clip(tokenizer, tower, {**tower, "image_size": 3 * _PATCH, "patch_size": _PATCH})


def build_image_processor() -> CLIPImageProcessor:
    """Return the model's preprocessing."""
    crop = {"height": 3 * _PATCH, "width": 3 * _PATCH}
    return CLIPImageProcessor(size={"shortest_edge": _SIDE}, crop_size=crop, image_mean=[0.5] * 3, image_std=[0.5] * 3)


def load_scenes(recipe: DemoClipWebRecipe, *, quiet: bool = False) -> tuple[torch.Tensor, list[str]]:
    """Return prepared images (n, 3, 63, 63), 48 kB each, and their captions, `_CAPTIONS` of each in turn."""
    processor = build_image_processor()
    pixels, captions = [], []
    for index in track(range(recipe.scenes), "drawing scenes", disable=quiet):
        episode = sample_episode(recipe.seed, "train", index)
        pixels.append(processor(render(episode.scene), return_tensors="np")["pixel_values"][0])
        made = web_captions(episode, rng_for(recipe.seed, "train", index, _PURPOSE), recipe.rare)
        captions += [statement.text for statement in made]
    return torch.from_numpy(np.stack(pixels)), captions


def grouped_loss(images: torch.Tensor, captions: torch.Tensor, scale: torch.Tensor, group: int) -> torch.Tensor:
    """Return CLIP's loss within groups: each image is compared only with the captions of its group, and vice versa.

    Args:
        images, captions: normalised embeddings (n, d) of pairs, n a multiple of `group`.
        scale: the inverse temperature.
        group: how many pairs are compared with each other; 1 less is the number of negatives.

    Returns:
        The mean of both cross-entropies, in nats; if `group` is n, it equals the loss of `CLIPModel`.
    """
    logits = scale * images.unflatten(0, (-1, group)) @ captions.unflatten(0, (-1, group)).mT
    target = torch.arange(group, device=logits.device).repeat(len(logits))
    both = (functional.cross_entropy(direction.flatten(0, 1), target) for direction in (logits, logits.mT))
    return sum(both, start=torch.zeros(())) / 2


def train(recipe: DemoClipWebRecipe, *, quiet: bool = False) -> tuple[CLIPModel, CLIPTokenizer, CLIPImageProcessor]:
    """Train by the recipe; prints progress and loss unless `quiet`."""
    torch.manual_seed(recipe.seed)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer)
    rng = np.random.default_rng(recipe.seed)
    pixels, captions = load_scenes(recipe, quiet=quiet)
    tokens = tokenizer(captions, padding=True, return_tensors="pt")

    def loss_of(step: int) -> torch.Tensor:
        indices = rng.choice(recipe.scenes, size=recipe.batch_size, replace=False)
        rows = torch.from_numpy(_CAPTIONS * indices + rng.integers(_CAPTIONS, size=recipe.batch_size))
        mask = tokens["attention_mask"][rows]
        used = slice(int(mask.sum(dim=1).max()))
        output = model(
            input_ids=tokens["input_ids"][rows, used],
            attention_mask=mask[:, used],
            pixel_values=pixels[torch.from_numpy(indices)],
        )
        scale = model.logit_scale.exp()
        return grouped_loss(output.image_embeds, output.text_embeds, scale, recipe.group)

    optimise(model, recipe, recipe.steps, "training", loss_of, quiet=quiet)
    return model.eval(), tokenizer, build_image_processor()


if __name__ == "__main__":
    command_line(DemoClipWebRecipe, __doc__, train)
