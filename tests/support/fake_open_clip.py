"""A stand-in for the library `open_clip` where it is not installed: the calls that the family makes, on tiny models.

Its models, tags and the files that tags stand for are `MODELS`, `TAGS` and `FILES`; tests fill them.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from transformers import AutoConfig, AutoTokenizer

MODELS: dict[str, dict] = {}
TAGS: dict[tuple[str, str], dict] = {}
FILES: dict[tuple[str, str], str] = {}


class QuickGELU(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class Visual(nn.Module):
    def __init__(self, size, activation):
        super().__init__()
        self.preprocess_cfg = {"size": (size, size), "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.2, 0.3), "mode": "RGB"}
        self.conv = nn.Conv2d(3, 16, 8, 8)
        self.activation = activation
        self.proj = nn.Linear(16, 16)

    def forward(self, pixels):
        return self.proj(self.activation(self.conv(pixels)).mean(dim=(2, 3)))


class FakeClip(nn.Module):
    """Embeddings are not normalised by `encode_…`; captions are read up to the highest id, as CLIP reads them."""

    def __init__(self, config):
        super().__init__()
        activation = QuickGELU() if config.get("quick_gelu") else nn.GELU()
        self.visual = Visual(config["vision_cfg"]["image_size"], activation)
        self.token_embedding = nn.Embedding(400, 16)
        self.positional_embedding = nn.Parameter(torch.zeros(config["text_cfg"]["context_length"], 16))
        self.text_projection = nn.Linear(16, 16)
        self.logit_scale = nn.Parameter(torch.tensor(2.0))

    def encode_image(self, image):
        return self.visual(image)

    def encode_text(self, text):
        x = torch.tanh(self.token_embedding(text) + self.positional_embedding).cumsum(dim=1)
        return self.text_projection(x[torch.arange(len(text)), text.argmax(dim=1)])

    def forward(self, image, text):
        unit = nn.functional.normalize
        return unit(self.encode_image(image), dim=-1), unit(self.encode_text(text), dim=-1), self.logit_scale.exp()


class Tokenizer:
    """Letters, between 300 and 301, filled up with zeros."""

    def __init__(self, context_length):
        self.context_length = context_length

    def __call__(self, texts, context_length=None):
        length = context_length or self.context_length
        rows = torch.zeros(len(texts), length, dtype=torch.long)
        for row, text in zip(rows, texts, strict=True):
            ids = [300, *text.lower().encode(), 301]
            ids = ids if len(ids) <= length else [*ids[: length - 1], 301]
            row[: len(ids)] = torch.tensor(ids)
        return rows


def list_models():
    return list(MODELS)


def list_pretrained():
    return list(TAGS)


def get_pretrained_cfg(model, tag):
    return TAGS.get((model, tag), {})


def get_model_config(name):
    if name.startswith("local-dir:"):
        return json.loads((_folder(name) / "open_clip_config.json").read_text("utf-8"))["model_cfg"]
    return MODELS.get(name)


def _folder(name):
    return Path(name.removeprefix("local-dir:"))


def get_model_preprocess_cfg(model):
    return model.visual.preprocess_cfg


def get_tokenizer(name):
    text = get_model_config(name)["text_cfg"]
    if text.get("hf_tokenizer_name"):  # as the library does: with all arguments of the configuration
        AutoTokenizer.from_pretrained(_folder(name), **text.get("tokenizer_kwargs", {}))
    return Tokenizer(text["context_length"])


def create_model_and_transforms(name, pretrained=None, precision="fp32", device="cpu", require_pretrained=False):
    config = get_model_config(name)
    if config is None:
        raise RuntimeError(f"Model config for '{name}' not found in built-ins.")
    if config.get("quick_gelu", False) != TAGS.get((name, pretrained), config).get("quick_gelu", False):
        warnings.warn("QuickGELU mismatch between final model config and pretrained tag", UserWarning, stacklevel=2)
    file = FILES.get((name, pretrained), pretrained)
    if name.startswith("local-dir:"):
        file = _folder(name) / "open_clip_model.safetensors"
    found = bool(file) and Path(file).is_file()
    if not found and (pretrained or require_pretrained):
        raise RuntimeError(f"Required pretrained weights ({name}, {pretrained}) could not be loaded.")
    assert precision == "fp32"
    if tower := config["text_cfg"].get("hf_model_name"):
        AutoConfig.from_pretrained(tower)
    model = FakeClip(config).to(device)
    if found:
        saved = load_file(file) if str(file).endswith(".safetensors") else torch.load(file, weights_only=True)
        model.load_state_dict(saved.get("state_dict", saved), strict=True)
    size = config["vision_cfg"]["image_size"]
    mean, std = (torch.tensor(model.visual.preprocess_cfg[key])[:, None, None] for key in ("mean", "std"))

    def transform(image):
        data = torch.frombuffer(bytearray(image.resize((size, size)).tobytes()), dtype=torch.uint8)
        return (data.reshape(size, size, 3).permute(2, 0, 1) / 255 - mean) / std

    return model, None, transform
