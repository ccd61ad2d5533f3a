"""Images are prepared by forked workers or threads, with the same result and the same errors."""

from __future__ import annotations

import multiprocessing
import os

import numpy as np
import pytest
from support import Recorder, run_quietly

from vl_assay.metrics.common.errors import DataError, ModelError
from vl_assay.model_wrappers.engine.loader import Loaded, Loader


def image_of(number):
    return Loaded(np.full((3, 4, 5), number, np.float32), (number, number + 1))


def of_unlike_shape(number):
    return Loaded(np.full((3, 1 + number % 3), number), (number, 1))


@pytest.mark.filterwarnings("error::UserWarning")  # torch warns of more workers than CPUs
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("load", [image_of, of_unlike_shape])
def test_batches_hold_all_images_in_order(load, workers):
    batches = list(Loader(workers).batches(range(50), load, 16))
    assert [len(images) for images, _ in batches] == [16, 16, 16, 2]
    found = [image for images, _ in batches for image in images]
    expected = [load(number) for number in range(50)]
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_equal(ours, theirs.image)
    assert [size for _, sizes in batches for size in sizes] == [item.size for item in expected]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_image_that_cannot_be_read_is_the_same_error_everywhere(workers):
    def load(number):
        if number == 7:
            raise DataError("the image 7.jpg cannot be read")
        return image_of(number)

    others = set(multiprocessing.active_children())
    with pytest.raises(DataError, match=r"^the image 7\.jpg cannot be read$"):
        list(Loader(workers).batches(range(20), load, 4))
    assert set(multiprocessing.active_children()) == others


@pytest.mark.slow  # torch looks at its workers every five seconds
def test_a_worker_that_dies_is_an_error_that_says_what_to_do():

    def load(number):
        if number == 7:
            os._exit(9)
        return image_of(number)

    with pytest.raises(ModelError, match=r"a process that prepares images died .*workers: 0"):
        list(Loader(2).batches(range(20), load, 4))


@pytest.mark.parametrize(("seconds", "cpus", "expected"), [(0.001, 8, 0), (0.5, 8, 7)])
def test_a_gpu_has_workers_only_where_there_is_enough_to_decode(seconds, cpus, expected, monkeypatch):
    times = iter(np.arange(100) * seconds)
    monkeypatch.setattr("time.perf_counter", lambda: next(times))
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: range(cpus), raising=False)
    asked = []
    monkeypatch.setattr("torch.utils.data.DataLoader", lambda blocks, **options: asked.append(options) or ())
    list(Loader(on_gpu=True, workers=None).batches(range(100), image_of, 4))
    assert [options["num_workers"] for options in asked] == ([expected] if expected else [])


def test_an_error_of_a_models_own_code_is_not_taken_for_a_broken_image(coco, tmp_path):
    class Clumsy(Recorder):
        def prepare_image(self, image):
            raise ValueError("no such crop")

    others = set(multiprocessing.active_children())
    with pytest.raises(ValueError, match="no such crop") as caught:
        run_quietly(Clumsy(), coco(rows=10, images=5), tmp_path / "out", workers=1)
    assert not isinstance(caught.value, DataError)
    assert set(multiprocessing.active_children()) == others


def test_whole_batches_reach_the_model_as_the_blocks_that_workers_stacked(coco, tmp_path):
    forms = []

    class Watching(Recorder):
        def encode_images(self, images, *, exact=False):
            forms.append([len(block) for block in images.blocks])
            return super().encode_images(images, exact=exact)

    run_quietly(Watching(), coco(rows=20, images=20), tmp_path, ["sugarcrepe/add_att"], workers=2, batch_size=16)
    assert list(map(sum, forms)) == [16, 4]
