"""The recipe of demo-owlvit: a small `OwlViTForObjectDetection`, trained on toy_scenes' train split.

    python tests/make_demo_owlvit.py --out DIR

As OWL-ViT starts from CLIP (Minderer et al., 2022), it starts from demo-clip; then image, text and box tower are
trained together with DETR's loss: things are matched one to one with patches, and a patch learns the box of its thing
and which phrases fit it. Seeded; a few minutes on a CPU core. The result is an ordinary checkpoint folder that
`OwlViTForObjectDetection.from_pretrained` opens.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from transformers import CLIPModel, CLIPTokenizer, OwlViTConfig, OwlViTForObjectDetection, OwlViTImageProcessor
from transformers.loss.loss_for_object_detection import generalized_box_iou, sigmoid_focal_loss

from vl_assay.hub_datasets.core.pretrained import load_part
from vl_assay.hub_datasets.toy_scenes.episodes import describe, sample_episode
from vl_assay.hub_datasets.toy_scenes.render import box, render
from vl_assay.hub_datasets.toy_scenes.world import ATTRIBUTES, CANVAS
from vl_assay.model_wrappers.demo_clip.train import build_tokenizer, command_line, optimise

_DEMO_CLIP = Path(__file__).parents[1] / "model_wrappers" / "demo_clip"
# The weights of DETR (Carion et al., 2020) for boxes, and the focal loss of OWL-ViT.
_L1, _GIOU, _CLASS = 5.0, 2.0, 2.0
_ALPHA, _GAMMA = 0.3, 2


@dataclass(frozen=True)
class Recipe:
    """All that determines the result, except demo-clip, the versions of the libraries and the number of threads."""

    steps: int = 600
    first_scene: int = 200_000
    batch_size: int = 32
    learning_rate: float = 5e-4
    warmup: int = 50
    weight_decay: float = 0.05
    seed: int = 0


@dataclass(frozen=True)
class Batch:
    """Pictures, their things, and one phrase for each thing; every phrase is asked of every picture.

    Args:
        pixels: (n, 3, `CANVAS`, `CANVAS`), from -1 to 1.
        boxes: for each picture (things, 4), the boxes of its things, x1, y1, x2, y2 as shares of the canvas.
        fits: for each picture (things, phrases), 1 where the phrase fits the thing and 0 elsewhere.
        phrases: the texts.
    """

    pixels: torch.Tensor
    boxes: list[torch.Tensor]
    fits: list[torch.Tensor]
    phrases: list[str]


def build_model() -> OwlViTForObjectDetection:
    """The model before training: the two towers of demo-clip, and new heads."""
    clip = load_part(CLIPModel, _DEMO_CLIP, dtype=torch.float32)
    kept = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "hidden_act")
    texts = (*kept, "vocab_size", "max_position_embeddings", "bos_token_id", "eos_token_id", "pad_token_id")
    text = {name: getattr(clip.config.text_config, name) for name in texts}
    vision = {name: getattr(clip.config.vision_config, name) for name in (*kept, "image_size", "patch_size")}
    config = OwlViTConfig(text_config=text, vision_config=vision, projection_dim=clip.config.projection_dim or 0)
    model = OwlViTForObjectDetection(config)
    weights = {name.replace("pre_layrnorm", "pre_layernorm"): value for name, value in clip.state_dict().items()}
    model.owlvit.load_state_dict(weights)
    # The class starts its heads at a hundred times an ordinary size.
    heads = (model.class_head, model.box_head)
    for layer in (layer for head in heads for layer in head.modules() if isinstance(layer, torch.nn.Linear)):
        layer.reset_parameters()
    # At first each patch draws its own square, and no phrase fits: a logit is (cosine + shift) × (scale + 1).
    starts = ((model.box_head.dense2, 0.0), (model.class_head.logit_shift, -0.6), (model.class_head.logit_scale, 9.0))
    for layer, bias in starts:
        torch.nn.init.zeros_(layer.weight)
        torch.nn.init.constant_(layer.bias, bias)
    return model


def build_image_processor() -> OwlViTImageProcessor:
    """The model's preprocessing: any picture becomes `CANVAS` × `CANVAS` pixels."""
    size = {"height": CANVAS, "width": CANVAS}
    return OwlViTImageProcessor(size=size, image_mean=[0.5] * 3, image_std=[0.5] * 3)


def draw_batch(recipe: Recipe, number: int) -> Batch:
    """Batch number `number`, of scenes that no other batch has."""
    rng = np.random.default_rng([recipe.seed, number])
    first = recipe.first_scene + number * recipe.batch_size
    scenes = [sample_episode(recipe.seed, "train", first + i).scene for i in range(recipe.batch_size)]
    pixels = np.stack([np.asarray(render(scene)) for scene in scenes])
    # Each fits its thing and names its shape and any of its attributes.
    things = [thing for scene in scenes for thing in scene.things]
    phrases = [describe(rng, thing, tuple(kind for kind in ATTRIBUTES if rng.integers(2))) for thing in things]
    return Batch(
        pixels=torch.from_numpy(pixels).permute(0, 3, 1, 2).float().div_(127.5).sub_(1),
        boxes=[torch.tensor([box(thing) for thing in scene.things]) / CANVAS for scene in scenes],
        fits=[torch.tensor([[p.fits(t) for p in phrases] for t in scene.things]).float() for scene in scenes],
        phrases=[phrase.text for phrase in phrases],
    )


def loss_of(model: Any, tokenizer: CLIPTokenizer, batch: Batch) -> torch.Tensor:
    """The loss of a batch: for each thing, that of its box and that of the phrases' logits at all patches."""
    tokens = tokenizer(batch.phrases, padding=True, return_tensors="pt")
    queries = model.owlvit.get_text_features(**tokens).pooler_output
    grid, _ = model.image_embedder(pixel_values=batch.pixels)
    patches = grid.flatten(1, 2)
    logits, _ = model.class_predictor(patches, queries.expand(len(patches), -1, -1))
    centred = model.box_predictor(patches, grid)
    boxes = torch.cat([centred[..., :2] - centred[..., 2:] / 2, centred[..., :2] + centred[..., 2:] / 2], dim=-1)

    wanted = torch.zeros_like(logits)
    found, truths = [], []
    for i, (things, fits) in enumerate(zip(batch.boxes, batch.fits, strict=True)):
        chosen = match(logits[i].detach(), boxes[i].detach(), things, fits)
        wanted[i, chosen] = fits
        found.append(boxes[i, chosen])
        truths.append(things)
    predicted, truth = torch.cat(found), torch.cat(truths)
    distance = (predicted - truth).abs().sum(-1).mean()
    overlap = (1 - generalized_box_iou(predicted, truth).diagonal()).mean()
    classes = sigmoid_focal_loss(logits.reshape(-1, 1), wanted.reshape(-1, 1), wanted.sum(), _ALPHA, _GAMMA)
    return _CLASS * classes + _L1 * distance + _GIOU * overlap


def match(logits: torch.Tensor, boxes: torch.Tensor, things: torch.Tensor, fits: torch.Tensor) -> torch.Tensor:
    """For each thing the number of a distinct patch, with the least total cost.

    Args:
        logits, boxes: of all patches, (patches, phrases) and (patches, 4).
        things, fits: of the picture's things, (things, 4) and (things, phrases).
    """
    sure = fits @ logits.sigmoid().T / fits.sum(1, keepdim=True)
    distance = torch.cdist(things, boxes, p=1)
    cost = _L1 * distance - _GIOU * generalized_box_iou(things, boxes) - _CLASS * sure
    return torch.from_numpy(linear_sum_assignment(cost.numpy())[1])


def train(recipe: Recipe) -> tuple[OwlViTForObjectDetection, CLIPTokenizer]:
    """Train by the recipe and print the loss now and then; the result is in half precision."""
    torch.manual_seed(recipe.seed)
    tokenizer, model = build_tokenizer(), build_model().train()
    optimise(model, recipe, recipe.steps, "training", lambda step: loss_of(model, tokenizer, draw_batch(recipe, step)))
    return model.eval().half(), tokenizer


if __name__ == "__main__":
    command_line(Recipe, __doc__, lambda recipe: (*train(recipe), build_image_processor()))
