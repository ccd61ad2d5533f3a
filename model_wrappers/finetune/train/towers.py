"""The trained module: a dual encoder of any family that maps a batch to its embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ....metrics.common.errors import ModelError
from ...loading.torch_models import DualEncoderMixin, unit
from ..data.batches import Tokens, TrainingBatch, split

# CLIP's upper bound of the scale (Radford et al. 2021, section 2.5); a model that starts above it keeps its own.
_CEILING = 100.0
_TEXT_GROUPS = 4


class Towers(nn.Module):
    """A dual encoder as a module whose forward returns all embeddings of a batch and the scale.

    Args:
        encoder: the dual encoder.
        negatives, positives: whether these captions of a batch are embedded.
        trains_norms: whether batch normalisation is trained, as a model from random weights needs; otherwise it keeps
            its statistics. Trained, it normalises by each process's share of the batch.
    """

    def __init__(self, encoder: Any, *, negatives: bool, positives: bool, trains_norms: bool = False) -> None:
        super().__init__()
        self.encoder = encoder
        self.model = encoder.module
        self._kinds = {"negatives": negatives, "positives": positives}
        self._norms = [norm for norm in self.modules() if isinstance(norm, nn.modules.batchnorm._BatchNorm)]
        self._trains_norms = trains_norms
        self._name = "temperature" if hasattr(self.model, "temperature") else "logit_scale"
        value = getattr(self.model, self._name, None)
        if not isinstance(value, nn.Parameter):
            raise ModelError(f"{encoder.info.name} has no logit_scale, which contrastive losses need")
        self._ceiling = max(_CEILING, self.scale().item())

    def scale(self) -> Tensor:
        """The inverse temperature, a scalar."""
        value = getattr(self.model, self._name)
        return (1 / value if self._name == "temperature" else value.exp()).reshape(())

    @torch.no_grad()
    def clip_scale(self) -> None:
        """Clip the scale to 100, as CLIP's training does."""
        value = getattr(self.model, self._name)
        if self._name == "temperature":
            value.clamp_(min=1 / self._ceiling)
        else:
            value.clamp_(max=math.log(self._ceiling))

    def train(self, mode: bool = True) -> Towers:
        """Set the mode; unless it is trained, batch normalisation keeps its statistics."""
        super().train(mode)
        for norm in self._norms:
            norm.train(mode and self._trains_norms)
        return self

    def forward(self, batch: TrainingBatch) -> dict[str, Tensor]:
        """Unit embeddings and masks by the names of `losses.BatchEmbeddings`, and the ``scale``."""
        texts = list(batch.captions)
        indices = {}
        for name in (name for name, is_embedded in self._kinds.items() if is_embedded):
            rows = getattr(batch, name)
            indices[name] = [number for number, row in enumerate(rows) if row is not None]
            texts += [row for row in rows if row is not None]
        images = unit(self.encoder.embed_images(batch.images))
        captions, *negatives = unit(self._embed_texts(texts)).split([len(batch), *map(len, indices.values())])
        outputs = {"images": images, "captions": captions, "scale": self.scale()}
        for (name, positions), rows in zip(indices.items(), negatives, strict=True):
            index = torch.tensor(positions, dtype=torch.long, device=rows.device)
            outputs[name] = torch.zeros_like(captions).index_copy(0, index, rows)
            mask = torch.zeros(len(batch), dtype=torch.bool, device=rows.device)
            outputs[f"has_{name[:-1]}"] = mask.index_fill(0, index, True)
        return outputs

    def _embed_texts(self, texts: Sequence[Tokens]) -> Tensor:
        """Embed texts in groups of similar length, which reduces padding."""
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        groups = [order[piece] for piece in split(len(texts), min(_TEXT_GROUPS, len(texts)))]
        embedded = torch.cat([self.encoder.embed_captions([texts[index] for index in group]) for group in groups])
        return embedded[torch.tensor(order, device=embedded.device).argsort()]


def trainable(model: Any) -> Any:
    """Check that a model can be trained.

    Raises:
        ModelError: it is not a dual encoder of a family that gives gradients.
    """
    if not (isinstance(model, DualEncoderMixin) and hasattr(model, "save")):
        name = getattr(getattr(model, "info", None), "name", type(model).__name__)
        raise ModelError(
            f"{name} cannot be fine-tuned; the families clip, siglip, flava (its contrastive head) and open_clip, dual "
            "encoders with gradients and a temperature, can"
        )
    return model


def restarted(encoder: Any, seed: int) -> Any:
    """The encoder with random weights that the seed determines, as its library initialises them."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = encoder.fresh()
    device = next(encoder.module.parameters()).device
    return encoder.holding(module.to(device, torch.float32).eval(), encoder.info)


def freeze_unused(towers: Towers, batch: TrainingBatch) -> int:
    """Freeze the parameters on which no embedding depends, such as heads for other tasks; returns their number.

    Otherwise several processes would wait for their gradients, and weight decay would shrink them.
    """
    with torch.random.fork_rng():
        outputs = towers.eval()(batch)  # trained batch normalisation would count this batch
        (outputs["images"].sum() + outputs["captions"].sum() + outputs["scale"]).backward()
    unused = [p for p in towers.parameters() if p.requires_grad and p.grad is None]
    for parameter in unused:
        parameter.requires_grad_(False)
    towers.zero_grad(set_to_none=True)
    return sum(parameter.numel() for parameter in unused)


def parameter_groups(towers: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """AdamW's groups, as in open_clip: parameters of less than two dimensions (gains, biases, scale) do not decay."""
    trained = [parameter for parameter in towers.parameters() if parameter.requires_grad]
    return [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
