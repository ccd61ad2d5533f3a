"""What is trained: a dual encoder as one module that makes the embeddings of a batch, of any family that can."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from ....metrics.common.errors import ModelError
from ...engine.protocol import ModelInfo
from ...loading.torch_models import unit

Tokens = Sequence[int]
# CLIP's ceiling of the scale (Radford et al. 2021, section 2.5); a model that starts above it keeps its own.
_CEILING = 100.0


@runtime_checkable
class Trainable(Protocol):
    """A `DualEncoder` whose embeddings come with a graph too, and that can be saved as what it was loaded from."""

    info: ModelInfo
    max_tokens: int

    @property
    def module(self) -> Any:
        """The module with the parameters."""
        ...

    def holding(self, module: Any, info: ModelInfo) -> Trainable:
        """The same with another module."""
        ...

    def prepare_image(self, image: Image.Image) -> np.ndarray:
        """As a `DualEncoder`'s, like the next one."""
        ...

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """The token ids of each caption."""
        ...

    def embed_images(self, images: Sequence[np.ndarray]) -> Tensor:
        """What the model says of prepared images, (n, d), of any length."""
        ...

    def embed_captions(self, captions: Sequence[Tokens]) -> Tensor:
        """What the model says of prepared captions, (n, d), of any length."""
        ...

    def save(self, folder: Path) -> None:
        """Write a folder from which it can be loaded."""
        ...


@dataclass(frozen=True)
class Batch:
    """Prepared examples, row by row; None for an example without a negative or positive."""

    images: Sequence[np.ndarray]
    captions: Sequence[Tokens]
    negatives: Sequence[Tokens | None]
    positives: Sequence[Tokens | None]

    def __len__(self) -> int:
        return len(self.images)

    def chunks(self, count: int) -> list[Batch]:
        """That many parts of sizes as equal as can be, in order."""
        edges = [len(self) * number // count for number in range(count + 1)]
        return [
            Batch(self.images[a:b], self.captions[a:b], self.negatives[a:b], self.positives[a:b])
            for a, b in itertools.pairwise(edges)
        ]


class Towers(nn.Module):
    """A dual encoder as a module whose forward makes all embeddings of a batch and the scale.

    Args:
        encoder: any dual encoder with a graph.
        negatives, positives: whether these captions of a batch are embedded.
        groups: into how many parts a batch's texts are sorted by their length, so that there is less padding; 1 with
            FSDP, whose processes gather weights together for each part, and may have too few texts for as many.
    """

    def __init__(self, encoder: Trainable, *, negatives: bool, positives: bool, groups: int = 4) -> None:
        super().__init__()
        self.encoder = encoder
        self.model = encoder.module
        self._kinds = {"negatives": negatives, "positives": positives}
        self._groups = groups
        self._name = "temperature" if hasattr(self.model, "temperature") else "logit_scale"
        if not isinstance(getattr(self.model, self._name, None), nn.Parameter):
            raise ModelError(f"{encoder.info.name} has no logit_scale, the temperature that contrastive losses need")
        self._ceiling = max(_CEILING, self.scale().item())

    def scale(self) -> Tensor:
        """The inverse temperature, a scalar."""
        value = getattr(self.model, self._name)
        return (1 / value if self._name == "temperature" else value.exp()).reshape(())

    @torch.no_grad()
    def clip_scale(self) -> None:
        """Keep the scale at 100 at most, as CLIP's training does."""
        value = getattr(self.model, self._name)
        if self._name == "temperature":
            value.clamp_(min=1 / self._ceiling)
        else:
            value.clamp_(max=math.log(self._ceiling))

    def widen_scale(self) -> None:
        """Make the parameter of the scale a vector of one number: FSDP shards no scalars."""
        value = getattr(self.model, self._name)
        setattr(self.model, self._name, nn.Parameter(value.detach().reshape(1), requires_grad=value.requires_grad))

    def train(self, mode: bool = True) -> Towers:
        """Batch normalisation keeps the statistics of pre-training: chunks of a batch would give it others."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
        return self

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Unit embeddings and masks by the names of `losses.Embeddings`, and the ``scale``."""
        texts = list(batch.captions)
        places = {}
        for name, wanted in self._kinds.items():
            if wanted:
                rows = getattr(batch, name)
                places[name] = [number for number, row in enumerate(rows) if row is not None]
                texts += [row for row in rows if row is not None]
        images = unit(self.encoder.embed_images(batch.images))
        captions, *others = unit(self._embed_texts(texts)).split(
            [len(batch), *(len(place) for place in places.values())]
        )
        found = {"images": images, "captions": captions, "scale": self.scale()}
        for (name, place), rows in zip(places.items(), others, strict=True):
            index = torch.tensor(place, dtype=torch.long, device=rows.device)
            found[name] = torch.zeros_like(captions).index_copy(0, index, rows)
            mask = torch.zeros(len(batch), dtype=torch.bool, device=rows.device)
            found[f"has_{name[:-1]}"] = mask.index_fill(0, index, True)
        return found

    def _embed_texts(self, texts: Sequence[Tokens]) -> Tensor:
        """Texts of like length together."""
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        count = min(self._groups, len(texts))
        edges = [len(texts) * number // count for number in range(count + 1)]
        groups = [[texts[place] for place in order[a:b]] for a, b in itertools.pairwise(edges)]
        embedded = torch.cat([self.encoder.embed_captions(group) for group in groups])
        return embedded[torch.tensor(order, device=embedded.device).argsort()]


def trainable(model: Any) -> Trainable:
    """The model, if it can be trained.

    Raises:
        ModelError: it is no dual encoder of a family that gives gradients.
    """
    if not isinstance(model, Trainable):
        name = getattr(getattr(model, "info", None), "name", type(model).__name__)
        raise ModelError(
            f"{name} cannot be fine-tuned: it is no dual encoder with gradients and a temperature; those of the "
            "families clip, siglip, flava (its contrastive head) and open_clip are"
        )
    return model


def freeze_unused(towers: Towers, batch: Batch) -> int:
    """Freeze the parameters on which no embedding depends, such as heads for other tasks; returns how many numbers.

    Else several processes would wait for their gradients, and weight decay would shrink them.
    """
    with torch.random.fork_rng():
        outputs = towers(batch)
        (outputs["images"].sum() + outputs["captions"].sum() + outputs["scale"]).backward()
    unused = [p for p in towers.parameters() if p.requires_grad and p.grad is None]
    for parameter in unused:
        parameter.requires_grad_(False)
    towers.zero_grad(set_to_none=True)
    return sum(parameter.numel() for parameter in unused)


def use_checkpointing(module: Any, name: str) -> None:
    """Keep fewer activations, and compute the others again in the backward pass.

    Raises:
        ModelError: the model does not know how.
    """
    try:
        if hasattr(module, "set_grad_checkpointing"):  # open_clip's
            module.set_grad_checkpointing(True)
        else:
            module.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    except (ValueError, AttributeError) as error:
        raise ModelError(
            f"{name} has no gradient checkpointing ({error}); leave it out, and take a smaller --micro-batch"
        ) from error


def add_lora(encoder: Trainable, rank: int) -> Any:
    """Put LoRA adapters into all linear layers of the encoder, in place; all else but the scale is frozen.

    Returns:
        peft's model around the encoder's module, for `merged`.

    Raises:
        ModelError: peft is not installed, or cannot adapt this model.
    """
    try:
        from peft import LoraConfig, get_peft_model  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ModelError(f"LoRA needs the library peft ({error}): pip install 'vl-assay[finetune]'") from error
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")
    try:
        adapted = get_peft_model(encoder.module, config)
    except ValueError as error:
        raise ModelError(f"{encoder.info.name} cannot be adapted by LoRA ({error}); leave out lora_rank") from error
    for name in ("logit_scale", "temperature"):
        if isinstance(getattr(encoder.module, name, None), nn.Parameter):
            getattr(encoder.module, name).requires_grad_(True)
    return adapted


def merged(adapted: Any) -> Any:
    """A copy of an adapted model with the adapters added to its weights: a module of the original class."""
    return copy.deepcopy(adapted).merge_and_unload()


def parameter_groups(towers: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """AdamW's groups, as in open_clip: what has fewer than two dimensions (gains, biases, the scale) does not decay."""
    trained = [parameter for parameter in towers.parameters() if parameter.requires_grad]
    return [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
