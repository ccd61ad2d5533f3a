"""Conversion of a file of weights of `open_clip` or OpenAI to a folder that `transformers` loads as a `CLIPModel`.

The weights must have the layout of OpenAI's vision transformers. All sizes follow from the shapes, since every head is
64 wide. The shapes do not determine the activation; it comes from the published checkpoint or the named model.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel

from ...metrics.common.documents import Part, simple_table, to_markdown
from ...metrics.common.errors import ModelError, UnknownNameError
from ...metrics.common.storage import check_writable, new_folder, write_text
from ...metrics.records.predictions import file_hash
from ...metrics.records.results import code_version
from ..engine.protocol import LoadOptions
from .checkpoints import CheckpointFiles, loading_errors
from .published import QUICK, Published, find_published, published_checkpoints
from .released import translated
from .weight_files import Weights, cut_positions, mean_with, read_weights

# OpenAI's ViT-B/32, for its tokenizer, which all of these models have; and for CLoVe's mean.
BASE = "openai/clip-vit-base-patch32"
_BASE_REVISION = "3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268"
_RECORD = "conversion.json"
# OpenAI's models up to ViT-L; open_clip's models from ViT-H on have heads of other widths.
_HEAD, _WIDEST = 64, 1024
_MODEL = re.compile(r"ViT-[SMBL]-[\w-]+")
_POSITIONS = "text_model.embeddings.position_embedding.weight"
_TRANSPOSED = ("visual.proj", "text_projection")
_HEADER = """---
license: {}
library_name: transformers
pipeline_tag: zero-shot-image-classification
tags:
- vl-assay
- compositionality
---"""
# The names of weights in open_clip, and in `CLIPModel`.
_NAMES = (
    (r"^visual\.class_embedding", "vision_model.embeddings.class_embedding"),
    (r"^visual\.conv1\.weight", "vision_model.embeddings.patch_embedding.weight"),
    (r"^visual\.positional_embedding", "vision_model.embeddings.position_embedding.weight"),
    (r"^visual\.ln_pre\.", "vision_model.pre_layrnorm."),  # the misspelling is the library's
    (r"^visual\.ln_post\.", "vision_model.post_layernorm."),
    (r"^visual\.transformer\.resblocks\.", "vision_model.encoder.layers."),
    (r"^visual\.proj$", "visual_projection.weight"),
    (r"^transformer\.resblocks\.", "text_model.encoder.layers."),
    (r"^token_embedding\.", "text_model.embeddings.token_embedding."),
    (r"^positional_embedding", "text_model.embeddings.position_embedding.weight"),
    (r"^ln_final\.", "text_model.final_layer_norm."),
    (r"^text_projection$", "text_projection.weight"),
    (r"\.attn\.out_proj\.", ".self_attn.out_proj."),
    (r"\.ln_([12])\.", r".layer_norm\1."),
    (r"\.mlp\.c_fc\.", ".mlp.fc1."),
    (r"\.mlp\.c_proj\.", ".mlp.fc2."),
)


def convert_checkpoint(checkpoint: Path, out: Path, *, model: str | None = None, base: str = BASE) -> bool:
    """Write a file of weights as a folder of safetensors that the family `clip` loads, with a card.

    Args:
        checkpoint: the file; see `weight_files.read_weights`.
        out: the folder; if it holds this conversion already, it is not changed.
        model: a published checkpoint, or a model of `open_clip` such as ``ViT-B-32-quickgelu``; by default the
            published checkpoint of this file name.
        base: a CLIP checkpoint, for its tokenizer and for CLoVe's mean.

    Returns:
        True if the folder was written, False if it was there.

    Raises:
        ModelError: no such file, an activation that is not known, weights of another architecture, or another content
            of `out`.
        UnknownNameError: no such `model`.
        StorageError: `out` cannot be written.
    """
    if not checkpoint.is_file():
        raise ModelError(f"there is no file {checkpoint}; name a file of weights that you downloaded")
    check_writable(out, "folder")
    published = published_checkpoints().get(model or "")
    row = published or find_published(checkpoint)
    record = {
        "file": checkpoint.name,
        "sha256": file_hash(checkpoint),
        "activation": _activation(checkpoint, row, None if published else model),
        "published": row.name if row else "",
        "base": Path(base).resolve().name if Path(base).is_dir() else base,
    }
    if out.exists() and any(out.iterdir()):
        with suppress(OSError, ValueError):
            if json.loads((out / _RECORD).read_text(encoding="utf-8")) == record:
                return False
        raise ModelError(f"{out} holds something else; name a new folder, or remove it")
    _write(out, base, record, read_weights(checkpoint), row)
    return True


def to_transformers(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return weights by the names of `CLIPModel`: joint attention weights in three parts, projections transposed."""
    converted: dict[str, Tensor] = {}
    for name, tensor in state.items():
        new = translated(name, _NAMES)
        if ".attn.in_proj_" in new:
            for letter, projection in zip("qkv", tensor.chunk(3), strict=True):
                converted[new.replace(".attn.in_proj_", f".self_attn.{letter}_proj.")] = projection
        else:
            converted[new] = tensor.T if name in _TRANSPOSED else tensor
    return {name: tensor.float().contiguous() for name, tensor in converted.items()}


def clip_config(state: Mapping[str, Tensor], activation: str, tokenizer: Any) -> CLIPConfig:
    """Return the configuration that the shapes of converted weights, an activation and a tokenizer determine.

    Raises:
        ModelError: weights of another architecture, or of a model whose heads are not 64 wide.
    """
    try:
        width, channels, patch, _ = state["vision_model.embeddings.patch_embedding.weight"].shape
        position_count = len(state["vision_model.embeddings.position_embedding.weight"]) - 1
        positions, text_width = state[_POSITIONS].shape
        vocabulary = len(state["text_model.embeddings.token_embedding.weight"])
        embedding = len(state["text_projection.weight"])
        if max(width, text_width) > _WIDEST or width % _HEAD or text_width % _HEAD:
            raise ValueError(f"its towers are {width} and {text_width} wide, of which heads are not known")
        if vocabulary != len(tokenizer):
            raise ValueError(f"it knows {vocabulary} tokens, the tokenizer {len(tokenizer)}")
        return CLIPConfig(
            vision_config=_tower("vision", state, width, activation)
            | {"image_size": round(position_count**0.5) * patch, "patch_size": patch, "num_channels": channels},
            text_config=_tower("text", state, text_width, activation)
            | {"max_position_embeddings": positions, "vocab_size": vocabulary}
            | {"eos_token_id": tokenizer.eos_token_id, "bos_token_id": tokenizer.bos_token_id},
            projection_dim=embedding,
        )
    except (KeyError, ValueError) as error:
        raise ModelError(
            f"not the weights of a CLIP with a vision transformer up to ViT-L ({error}); the family open_clip runs "
            "other models: open_clip:MODEL with the setting pretrained=FILE"
        ) from error


def _tower(name: str, state: Mapping[str, Tensor], width: int, activation: str) -> dict[str, Any]:
    layers = {key.split(".")[3] for key in state if key.startswith(f"{name}_model.encoder.layers.")}
    return {
        "hidden_size": width,
        "intermediate_size": len(state[f"{name}_model.encoder.layers.0.mlp.fc1.bias"]),
        "num_hidden_layers": len(layers),
        "num_attention_heads": width // _HEAD,
        "hidden_act": activation,
    }


def _activation(checkpoint: Path, row: Published | None, model: str | None) -> str:
    """Return the activation of the named `open_clip` model, else of the published checkpoint; warn if they differ."""
    known = row.activation if row and row.activation in (QUICK, "gelu") else ""
    if not model:
        if known:
            return known
        raise ModelError(
            f"which activation {checkpoint.name} was trained with is not known; name its model of open_clip with "
            "--model: one that ends in -quickgelu, such as ViT-B-32-quickgelu, if it was trained from OpenAI's weights"
        )
    if not _MODEL.fullmatch(model):
        raise UnknownNameError("model to convert", model, [*published_checkpoints(), "ViT-B-32-quickgelu", "ViT-B-32"])
    chosen = QUICK if model.endswith("-quickgelu") else "gelu"
    if known not in ("", chosen):
        warnings.warn(
            f"{checkpoint.name} was trained with the activation {known}, and {model} computes {chosen}: its scores are "
            "others. Leave --model out for the right one",
            stacklevel=3,
        )
    return chosen


def _write(out: Path, base: str, record: Mapping[str, str], weights: Weights, row: Published | None) -> None:
    """Write the folder: model, tokenizer, image processor, card and, last, the record."""
    files = CheckpointFiles(CLIPConfig.model_type, base, LoadOptions(revision=_BASE_REVISION if base == BASE else None))
    tokenizer = files.tokenizer()
    weights = Weights(to_transformers(weights.state), weights.changes)
    if row and row.openai_share:
        before = files.model(CLIPModel).state_dict()
        weights = cut_positions(weights, len(before[_POSITIONS]), _POSITIONS)
        weights = mean_with(weights, before, float(row.openai_share), files.checkpoint)
    config: Any = clip_config(weights.state, record["activation"], tokenizer)
    net = CLIPModel(config)
    with loading_errors(record["file"], f"a CLIP of {config.vision_config.num_hidden_layers} layers"):
        net.load_state_dict(weights.state)
    size = config.vision_config.image_size
    processor = CLIPImageProcessorPil(size={"shortest_edge": size}, crop_size={"height": size, "width": size})
    tokenizer.model_max_length = config.text_config.max_position_embeddings
    with new_folder(out) as folder:
        for component in (net, tokenizer, processor):
            component.save_pretrained(folder)
        write_text(folder / "README.md", _card(out.resolve().name, record, weights.changes, row))
        write_text(folder / _RECORD, json.dumps(record, indent=1))


def _card(name: str, record: Mapping[str, str], changes: Sequence[str], row: Published | None) -> str:
    """Return ``README.md``: source, licence, hash, and what was changed."""
    licence = row.licence if row else "not known here"
    facts = {
        "source": f"{row.title}, {row.repository}: {row.weights}" if row else "a file of weights",
        "file": record["file"],
        "SHA-256 of the file": record["sha256"],
        "licence": licence,
        "activation": record["activation"],
        "changes": "; ".join(changes) or "none",
        "tokenizer": record["base"],
        "converted by": f"VL-Assay {code_version()}, `vl-assay convert`",
    }
    sections: list[Part] = [
        _HEADER.format("mit" if licence == "MIT" else "other"),
        f"# {name}",
        "Converted from `open_clip`'s layout to that of `transformers`; the authors' work, under their licence.",
        simple_table(["", ""], [*facts.items()]),
        f'```python\nmodel = transformers.CLIPModel.from_pretrained("{name}")\n```',
    ]
    return to_markdown(sections)
