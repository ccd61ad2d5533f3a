"""Retrieval by models that read image and caption together: which pairs are matched, and how the others rank."""

from __future__ import annotations

import numpy as np
import pytest
import tiny_models
from support import Recorder

from vl_assay.metrics.common.errors import ModelError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import LoadOptions, ModelInfo, load_model, predict

TASKS = ["toy_scenes/retrieval", "toy_scenes/groups"]


class Fused:
    """A cross-encoder whose logit has the opposite sign of its own first stage's cosine."""

    def __init__(self, candidates):
        self.info = ModelInfo("fused", "test", "fused", str(candidates))
        self.max_tokens, self.candidates = 1000, candidates
        self.first_stage = Recorder()
        self.matched = 0

    def prepare_image(self, image):
        return self.first_stage.prepare_image(image)

    def prepare_captions(self, captions):
        return self.first_stage.prepare_captions(captions)

    def encode_images(self, images, *, exact=False):
        return np.concatenate([self.first_stage._embed(image[None], "images", False) for image in images])

    def match(self, features, images, captions, *, exact=False):
        self.matched += len(captions)
        read = np.concatenate([self.first_stage.encode_captions([ids]) for ids in captions])
        return -7 * np.einsum("nd,nd->n", features[list(images)], read)


def score(candidates, out):
    model = Fused(candidates)
    retrieval, groups = predict(model, TASKS, out=out, limit=40, progress=False)
    pool = np.array([row.scores for row in read_predictions(retrieval).rows])
    return model, pool, [row.scores for row in read_predictions(groups).rows], read_predictions(retrieval).metadata


def test_only_the_first_candidates_of_either_side_are_matched_and_rank_above_the_others(toy, tmp_path):
    exact, every, groups, _ = score(0, tmp_path / "all")
    ours, some, same_groups, metadata = score(3, tmp_path / "some")
    cosines = every / -7
    images, captions = cosines.shape
    assert min(images, captions) > 6
    # By definition: pairs for which fewer than three of the image's captions, or of the caption's images, rank higher.
    by_image = (cosines[:, None, :] > cosines[:, :, None]).sum(axis=2) < 3
    by_caption = (cosines[None, :, :] > cosines[:, None, :]).sum(axis=1) < 3
    chosen = some > np.sort(some.ravel())[-(by_image | by_caption).sum() - 1]
    np.testing.assert_array_equal(chosen, by_image | by_caption)
    np.testing.assert_allclose(some[chosen], every[chosen], atol=1e-5)
    for row, cosine, left in zip(some, cosines, ~chosen, strict=True):
        assert np.diff(cosine[left][np.argsort(row[left])]).min(initial=0) > -1e-5
    assert metadata["run"]["reranked_pairs"] == chosen.sum() < every.size
    assert ours.matched < exact.matched
    assert same_groups == groups, "only retrieval sets have candidates"


def test_two_stages_have_no_shards(toy, tmp_path):
    with pytest.raises(ModelError, match="ranks retrieval in two stages, which shards"):
        predict(Fused(3), TASKS, out=tmp_path, limit=40, shard="1/2", progress=False)


@pytest.mark.parametrize(("name", "heads"), [("blip", ("itm", "itc")), ("flava", ("itm", "contrastive"))])
def test_the_first_stage_is_the_contrastive_head(name, heads, tmp_path):
    folder = tiny_models.CHECKPOINTS[name].build(tmp_path / name)
    fused, contrastive = (load_model(f"{name}:{folder}", LoadOptions(settings={"head": head})) for head in heads)
    assert fused.candidates == 256
    captions = fused.prepare_captions(["a red cat", "two blue dogs"])
    assert (fused.first_stage.encode_captions(captions) == contrastive.encode_captions(captions)).all()
    chosen = load_model(f"{name}:{folder}", LoadOptions(settings={"head": heads[0], "candidates": "all"}))
    assert (chosen.candidates, chosen.info.settings["candidates"]) == (0, "all")
