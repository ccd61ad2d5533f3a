"""Similar images: by histograms without weights, by an image-only checkpoint, and never by one trained with text."""

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from vl_assay.hub_datasets.authoring.review.pictures import Pictures
from vl_assay.hub_datasets.authoring.review.similar import SimilarImages, histograms, load_embedder
from vl_assay.metrics.common.errors import DataError, ModelError


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(12):
        blocks = rng.integers(0, 256, (4, 4, 3), np.uint8)
        Image.fromarray(blocks).resize((96, 64), Image.Resampling.BICUBIC).save(tmp_path / f"{number}.png")
    return tmp_path


def test_of_equal_images_the_first_by_name_is_nearer(folder):
    for name in ("b.png", "a.png"):
        Image.open(folder / "3.png").save(folder / name)
    assert [name for name, _ in SimilarImages(Pictures(folder), histograms).nearest("3.png", 2)] == ["a.png", "b.png"]


def test_an_altered_copy_is_nearer_than_every_other_image(folder):
    image = Image.open(folder / "4.png").convert("RGB")
    ImageEnhance.Brightness(image.resize((200, 150))).enhance(0.97).save(folder / "copy.jpg")
    found = SimilarImages(Pictures(folder), histograms).nearest("4.png", 5)
    names, similarities = zip(*found, strict=True)
    assert (names[0], len(names)) == ("copy.jpg", 5)
    assert "4.png" not in names
    assert list(similarities) == sorted(similarities, reverse=True)
    assert all(-1e-6 <= each <= 1 + 1e-6 for each in similarities)


def test_images_are_embedded_once_and_one_that_came_later_can_be_asked_for(folder, capsys):
    seen = []

    def embed(images):
        seen.extend(images)
        return histograms(images)

    (folder / "broken.png").write_bytes(b"no image")
    similar = SimilarImages(Pictures(folder), embed, batch=5)
    similar.nearest("0.png")
    similar.nearest("1.png")
    assert len(seen) == 12
    assert "broken.png" in capsys.readouterr().out
    Image.open(folder / "3.png").save(folder / "new.png")
    assert similar.nearest("new.png", 1)[0][0] == "3.png"
    with pytest.raises(DataError, match="not a readable image"):
        similar.nearest("broken.png")


def test_an_image_only_checkpoint_finds_the_same_image_first(folder, tmp_path_factory):
    import torch
    from transformers import Dinov2Config, Dinov2Model, ViTImageProcessor

    torch.manual_seed(0)
    Image.open(folder / "4.png").save(folder / "same.png")
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 32, "patch_size": 8}
    checkpoint = tmp_path_factory.mktemp("checkpoint")
    Dinov2Model(Dinov2Config(**size)).save_pretrained(checkpoint)
    ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(checkpoint)
    found = SimilarImages(Pictures(folder), load_embedder(str(checkpoint))).nearest("4.png", 3)
    assert found[0] == ("same.png", pytest.approx(1, abs=1e-4))


def test_a_checkpoint_that_was_trained_with_text_is_refused_with_the_reason(tmp_path):
    from transformers import CLIPConfig, CLIPVisionConfig, CLIPVisionModel

    CLIPConfig().save_pretrained(tmp_path / "whole")
    tower = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 32, "patch_size": 8}
    CLIPVisionModel(CLIPVisionConfig(**tower)).save_pretrained(tmp_path / "half")
    for name in ("whole", "half"):
        with pytest.raises(ModelError, match=r"trained with text.*blind spots"):
            load_embedder(str(tmp_path / name))
    with pytest.raises(ModelError, match="cannot be loaded as an image model"):
        load_embedder(str(tmp_path / "nothing"))
