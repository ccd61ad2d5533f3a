"""`--decode gpu` on the CPU, with Pillow in the place of nvJPEG."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image
from support import run_quietly

from vl_assay.hub_datasets.core.images import decode
from vl_assay.metrics.common.errors import ModelError, UnknownNameError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import LoadOptions, RunConfig, load_model, predict
from vl_assay.model_wrappers.engine.gpu_decoding import GpuDecoder
from vl_assay.model_wrappers.engine.precision import load_in_two


def decode_jpeg(files, device):
    """Decode files as nvJPEG does, and fail as it does."""
    try:
        images = [Image.open(io.BytesIO(file.numpy().tobytes())).convert("RGB") for file in files]
    except OSError as error:
        raise RuntimeError(str(error)) from error
    return [torch.from_numpy(np.array(image)).permute(2, 0, 1).to(device) for image in images]


def file_of(width, height, kind="JPEG", mode="RGB"):
    """Return an image file of blobs."""
    blobs = np.random.default_rng(width).integers(0, 256, (8, 8, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(blobs).resize((width, height), Image.Resampling.BICUBIC).convert(mode).save(file, kind)
    return file.getvalue()


@pytest.fixture(scope="module")
def model():
    """demo-clip, which resizes the shorter side to 128 pixels and crops the middle."""
    return load_model("demo-clip")


def scores_with(model, tmp_path, **options):
    """Return the scores of six JPEG files and a PNG in two classes, float64."""
    folder = tmp_path / "images"
    for name, height in (("one", 170), ("two", 210)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for width in (200, 220, 240):
            (folder / name / f"{width}.jpg").write_bytes(file_of(width, height))
    (folder / "one" / "file.png").write_bytes(file_of(150, 220, "PNG"))
    out = tmp_path / str(len(list(tmp_path.iterdir())))
    [path, *_] = predict(model, "zero_shot/folder", data_dir=folder, out=out, progress=False, cache=False, **options)
    return np.array([row.scores for row in read_predictions(path).rows], np.float64)


@pytest.mark.parametrize(("width", "height", "mode"), [(320, 240, "RGB"), (97, 211, "RGB"), (128, 128, "L")])
def test_pixels_differ_from_the_image_processors_by_rounding_alone(width, height, mode, model):
    file = file_of(width, height, mode=mode)
    decoder = GpuDecoder(model, "cpu", decode_jpeg)
    loaded = decoder.load(file)
    [pixels] = decoder.images([loaded.image])
    assert loaded.size == (width, height)
    assert np.abs(pixels.numpy() - model.prepare_image(decode(file))).max() < 3 / 255 / 0.5


@pytest.mark.parametrize("options", [{"kind": "PNG"}, {"mode": "CMYK"}])
def test_files_that_nvjpeg_cannot_decode_are_left_to_the_model(options, model):
    assert GpuDecoder(model, "cpu", decode_jpeg).load(file_of(200, 150, **options)) is None


def test_a_damaged_file_is_an_error_with_the_next_step_and_full_memory_is_not(model):
    def run_out(files, device):
        raise torch.OutOfMemoryError

    damaged = [GpuDecoder(model, "cpu", decode_jpeg).load(file_of(320, 240)[:2000]).image]
    with pytest.raises(ModelError, match="run without --decode gpu"):
        GpuDecoder(model, "cpu", decode_jpeg).images(damaged)
    with pytest.raises(torch.OutOfMemoryError):  # so that the batch is halved
        GpuDecoder(model, "cpu", run_out).images(damaged)


def test_a_model_with_another_preprocessing_is_refused():
    flipped = load_model("demo-clip")
    prepare = flipped.prepare_image
    flipped.prepare_image = lambda image: prepare(image)[::-1]
    with pytest.raises(ModelError, match="prepares images otherwise"):
        GpuDecoder(flipped, "cpu", decode_jpeg)


def test_a_run_decodes_jpeg_files_by_the_decoder_and_scores_nearly_the_same(model, tmp_path):
    other, sizes = load_model("demo-clip"), []

    def counting(files, device):
        sizes.append(len(files))
        return decode_jpeg(files, device)

    other.decoder = GpuDecoder(model, "cpu", counting)
    whole, decoded = (scores_with(each, tmp_path, workers=2) for each in (model, other))
    assert sum(sizes) == 6
    assert 0 < np.abs(whole - decoded).max() < 0.02


def test_dtype_auto_also_decodes_the_images_that_it_reads_in_float32(model, coco, tmp_path):
    def prepare_image(image):
        raise AssertionError("a JPEG file is decoded, not prepared")

    two = load_in_two(load_model, "demo-clip", LoadOptions())
    two.decoder = GpuDecoder(model, "cpu", decode_jpeg)
    two.precise.prepare_image = prepare_image
    files = run_quietly(two, coco(rows=8, images=4), tmp_path, cache=False)
    assert read_predictions(files[0]).metadata["run"]["examples_in_sample"] > 0


def test_a_run_refuses_a_model_on_the_cpu_and_another_place(tmp_path):
    with pytest.raises(ModelError, match="decode gpu takes a dual encoder on a CUDA device"):
        predict("mock:shuffled", "toy_scenes/itm", out=tmp_path, progress=False, decode="gpu")
    with pytest.raises(UnknownNameError, match="unknown place of decoding 'cpu'"):
        RunConfig(decode="cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_decodes_nearly_the_same_pixels(tmp_path):
    pytest.importorskip("torchvision")
    whole, decoded = (scores_with("demo-clip", tmp_path, decode=place) for place in (None, "gpu"))
    assert 0 < np.abs(whole - decoded).max() < 0.02
