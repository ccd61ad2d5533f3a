"""Tiny checkpoints and images for the tests of the families."""

from __future__ import annotations

import sys

import fake_open_clip
import numpy as np
import pytest
import tiny_models
import torch
from PIL import Image


@pytest.fixture(scope="session")
def folders():
    """The folders of the tiny checkpoints by name, each built on first use."""

    class Folders(dict):
        def __missing__(self, name):
            return self.setdefault(name, tiny_models.checkpoint(name))

    return Folders()


@pytest.fixture(scope="session")
def images():
    """Images of unlike sizes, shapes and modes."""
    rng = np.random.default_rng(0)
    sizes = ((40, 50), (30, 80), (64, 48))
    drawn = [Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)) for size in sizes]
    return [*drawn[:2], drawn[2].convert("L")]


@pytest.fixture
def tiny_open_clip(monkeypatch):
    """The configuration of the model ``tiny`` of the stand-in for open_clip, which takes the library's place."""
    config = {"embed_dim": 16, "vision_cfg": {"image_size": 32}, "text_cfg": {"context_length": 24}}
    monkeypatch.setitem(sys.modules, "open_clip", fake_open_clip)
    monkeypatch.setattr(fake_open_clip, "MODELS", {"tiny": config})
    return config


@pytest.fixture(scope="session")
def sentence_models(tmp_path_factory):
    """Folders of sentence_transformers: a CLIP of two towers, and a language model that sees, with a prompt."""
    library = pytest.importorskip("sentence_transformers", reason="needs vl-assay[sentence-transformers]")
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
    from transformers import AutoImageProcessor, AutoTokenizer, CLIPProcessor

    place = tmp_path_factory.mktemp("sentence_transformers")
    plain = tiny_models.tiny_clip(place / "plain", positions=48)
    images = AutoImageProcessor.from_pretrained(plain, backend="pil")
    CLIPProcessor(images, AutoTokenizer.from_pretrained(plain)).save_pretrained(plain)
    torch.manual_seed(0)
    clip = [Transformer(str(plain)), Dense(16, 8, module_input_name="sentence_embedding")]
    library.SentenceTransformer(modules=clip).save(str(place / "clip"))
    llava = Transformer(str(tiny_models.tiny_llava(place / "chat")), transformer_task="feature-extraction")
    modules = [llava, Pooling(32, pooling_mode="lasttoken"), Normalize()]
    library.SentenceTransformer(modules=modules, prompts={"query": "Find the image."}).save(str(place / "llava"))
    return place
