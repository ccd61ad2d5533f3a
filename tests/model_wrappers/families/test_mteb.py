"""The family mteb, on a stand-in of the library; tests/compatibility/check_other_tools.py has the library itself."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from vl_assay.metrics.common.errors import ModelError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import LoadOptions, load_model, predict


class Embedder:
    """Embeds a caption by its words' lengths, an image by its mean colours; rows have any length."""

    mteb_model_meta = SimpleNamespace(revision="abc")

    def get_text_embeddings(self, batches, *, show_progress_bar):
        assert show_progress_bar is False
        rows = [[len(text), text.count("e") + 1, text.count("a") + 1] for batch in batches for text in batch["text"]]
        return torch.tensor(rows, dtype=torch.float32)

    def get_image_embeddings(self, batches, *, show_progress_bar):
        return np.array([np.asarray(image).mean(axis=(0, 1)) + 1 for batch in batches for image in batch["image"]])


@pytest.fixture
def library(monkeypatch):
    """`mteb`, whose models tests put into `models`."""
    module = ModuleType("mteb")
    module.models = {"me/pairs": Embedder()}
    module.get_model_meta = module.models.__getitem__
    module.get_model = lambda name, revision, device: module.models[name]
    monkeypatch.setitem(sys.modules, "mteb", module)
    return module


def test_scores_are_cosines_of_the_library_s_embeddings(library, toy, tmp_path):
    files = predict("mteb:me/pairs", "toy_scenes/itm", out=tmp_path, limit=20, progress=False, cache=False)
    found = read_predictions(files[0])
    assert found.metadata["model"]["revision"] == "abc"
    model = load_model("mteb:me/pairs")
    captions = ["a cat", "héé a"]
    rows = model.encode_captions(model.prepare_captions(captions))
    expected = np.array([[5, 1, 3], [5, 1, 2]]) / np.sqrt([[35], [30]])
    np.testing.assert_allclose(rows, expected, atol=1e-6)
    assert all(-1 <= score <= 1 for row in found.rows for score in np.ravel(row.scores))


@pytest.mark.parametrize(
    ("name", "model", "options", "message"),
    [
        ("me/unknown", None, {}, "mteb has no model 'me/unknown'"),
        ("me/texts", SimpleNamespace(get_text_embeddings=1), {}, "embeds no images"),
        ("me/pairs", Embedder(), {"dtype": "bfloat16"}, "loads its models itself"),
    ],
)
def test_what_cannot_be_scored_is_refused(name, model, options, message, library):
    if model is not None:
        library.models[name] = model
    with pytest.raises(ModelError, match=message):
        load_model(f"mteb:{name}", LoadOptions(**options))
