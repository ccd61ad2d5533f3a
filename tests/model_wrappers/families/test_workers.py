"""A family prepares images in forked workers, which is the default beside a GPU, as it does in this process."""

from __future__ import annotations

import numpy as np

from vl_assay.model_wrappers import load_model
from vl_assay.model_wrappers.engine.loader import Loaded, Loader


def parts_of(prepared):
    """The arrays and numbers of a prepared image, in order."""
    if hasattr(prepared, "items"):
        return [part for key in sorted(prepared) for part in parts_of(prepared[key])]
    if isinstance(prepared, (list, tuple)):
        return [part for each in prepared for part in parts_of(each)]
    return [np.asarray(prepared)]


def test_workers_prepare_the_same_images(folders, images):
    model = load_model(f"vqascore:{folders['qwen2_vl']}")

    def load(number):
        return Loaded(model.prepare_image(images[number]), images[number].size)

    [(prepared, sizes)] = Loader(2).batches(range(len(images)), load, 8)
    assert sizes == [image.size for image in images]
    for ours, image in zip(prepared, images, strict=True):
        for one, other in zip(parts_of(ours), parts_of(model.prepare_image(image)), strict=True):
            np.testing.assert_array_equal(one, other)
