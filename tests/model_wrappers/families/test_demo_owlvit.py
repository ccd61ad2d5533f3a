"""demo-owlvit: an ordinary checkpoint that grounds phrases of toy_scenes, and the recipe that made it."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from vl_assay.model_wrappers import load_model
from vl_assay.model_wrappers.engine.families import checkpoint_path, demo_names
from vl_assay.model_wrappers.engine.protocol import abilities

SCENES = 60


@pytest.fixture(scope="module")
def demo():
    return load_model("demo-owlvit")


def test_the_demo_is_an_ordinary_detector(demo):
    import torch
    from transformers import OwlViTForObjectDetection

    assert "demo-owlvit" in demo_names()
    assert abilities(demo) == ("detection",)
    assert (demo.info.name, demo.info.family) == ("demo-owlvit", "owlvit")
    # Its file holds half precision; it is loaded in the dtype of the options.
    assert demo.module.dtype == torch.float32
    assert OwlViTForObjectDetection.from_pretrained(checkpoint_path("demo-owlvit")).dtype == torch.float16


def test_matching_gives_each_thing_a_patch_of_its_own_where_the_cost_is_least():
    import torch
    from make_demo_owlvit import match

    things = torch.tensor([[0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]])
    boxes = torch.tensor([[0.5, 0.5, 1.0, 0.9], [0.0, 0.0, 0.1, 0.1], [0.0, 0.0, 0.5, 0.4], [0.5, 0.5, 1.0, 1.0]])
    logits = torch.zeros(4, 2)
    assert match(logits, boxes, things, torch.eye(2)).tolist() == [2, 3]
    # A patch that is sure of the phrase outweighs one with a slightly better box.
    logits[0, 1] = 9
    assert match(logits, boxes, things, torch.eye(2)).tolist() == [2, 0]


@pytest.mark.parametrize("pictures", [1, 2])
def test_the_loss_is_that_of_boxes_and_phrases_by_hand(pictures):
    import torch
    from make_demo_owlvit import Batch, loss_of

    # Two patches and two phrases in each picture. The first phrase fits the one thing, in the corner (0, 0, 1/2, 1/2);
    # the first patch draws half of it, and is sure of that phrase with 3/4.
    logits = torch.tensor([[math.log(3), 0], [0, -math.log(3)]]).expand(pictures, 2, 2)
    boxes = torch.tensor([[0.25, 0.125, 0.5, 0.25], [0.75, 0.75, 0.5, 0.5]]).expand(pictures, 2, 4)
    model = SimpleNamespace(
        owlvit=SimpleNamespace(get_text_features=lambda **_: SimpleNamespace(pooler_output=torch.zeros(2, 3))),
        image_embedder=lambda pixel_values: (torch.zeros(pictures, 1, 2, 3), None),
        class_predictor=lambda patches, queries: (logits, None),
        box_predictor=lambda patches, grid: boxes,
    )
    thing, fits = torch.tensor([[0, 0, 0.5, 0.5]]), torch.tensor([[1.0, 0.0]])
    batch = Batch(torch.zeros(pictures, 3, 8, 8), [thing] * pictures, [fits] * pictures, ["a star", "a ring"])
    # Focal loss of what is wanted: 0.3 · (1/4)² · ln 4/3 for 3/4; of the rest 0.7 · p² · -ln(1 - p) for 1/2, 1/2, 1/4.
    classes = 0.3 / 16 * math.log(4 / 3) + 2 * 0.7 / 4 * math.log(2) + 0.7 / 16 * math.log(4 / 3)
    # The box is off by 1/4 at one side; the intersection is half of the union, which fills the hull: 1 - 1/2.
    expected = 2 * classes + 5 * 1 / 4 + 2 * 1 / 2
    assert float(loss_of(model, lambda *_, **__: {}, batch)) == pytest.approx(expected)


def test_a_step_of_the_recipe_lowers_the_loss_and_its_scenes_are_its_own():
    import torch
    from make_demo_owlvit import Recipe, build_model, draw_batch, loss_of

    from vl_assay.model_wrappers.demo_clip.train import build_tokenizer

    torch.manual_seed(0)
    recipe = Recipe(batch_size=4)
    batch, again, other = draw_batch(recipe, 0), draw_batch(recipe, 0), draw_batch(recipe, 1)
    assert torch.equal(batch.pixels, again.pixels)
    assert batch.phrases == again.phrases
    assert not torch.equal(batch.pixels, other.pixels)
    for i, fits in enumerate(batch.fits):
        assert fits.shape == (len(batch.boxes[i]), len(batch.phrases))
        assert (fits.sum(1) >= 1).all()
    model, tokenizer = build_model(), build_tokenizer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    losses = []
    for _ in range(4):
        loss = loss_of(model, tokenizer, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
