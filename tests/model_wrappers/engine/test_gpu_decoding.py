"""`engine.gpu_decoding`: on the CPU, with Pillow in the place of nvJPEG."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from vl_assay.hub_datasets.core.images import decode
from vl_assay.metrics.common.errors import ModelError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import load_model, predict
from vl_assay.model_wrappers.engine.gpu_decoding import GpuDecoder, decode_on_gpu


def decode_jpeg(files: list[torch.Tensor], device: Any) -> list[torch.Tensor]:
    """Decode files as nvJPEG does, and fail as it does."""
    try:
        images = [Image.open(io.BytesIO(file.numpy().tobytes())).convert("RGB") for file in files]
    except OSError as error:
        raise RuntimeError(str(error)) from error
    return [torch.from_numpy(np.array(image)).permute(2, 0, 1).to(device) for image in images]


def file_of(width: int, height: int, kind: str = "JPEG", mode: str = "RGB") -> bytes:
    """Return an image file of blobs."""
    blobs = np.random.default_rng(width).integers(0, 256, (8, 8, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(blobs).resize((width, height), Image.Resampling.BICUBIC).convert(mode).save(file, kind)
    return file.getvalue()


@pytest.fixture(scope="module")
def model() -> Any:
    """demo-clip, which resizes the shorter side to 128 pixels and crops the middle."""
    return load_model("demo-clip")


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file_of(320, 240), id="landscape"),
        pytest.param(file_of(97, 211), id="portrait"),
        pytest.param(file_of(128, 128, mode="L"), id="grey"),
        pytest.param(file_of(200, 150, mode="CMYK"), id="cmyk, which nvJPEG cannot"),
        pytest.param(file_of(200, 150, kind="PNG"), id="png"),
    ],
)
def test_pixels_differ_from_the_image_processors_by_rounding_alone(model: Any, file: bytes) -> None:
    decoder = GpuDecoder(model, "cpu", decode_jpeg)
    loaded = decoder.load(file)
    [pixels] = decoder.images([loaded.image])
    image = decode(file)
    assert loaded.size == image.size
    assert np.abs(pixels.numpy() - model.prepare_image(image)).max() < 3 / 255 / 0.5


def test_a_batch_of_files_and_other_images_keeps_its_order_and_scores(model: Any) -> None:
    decoder = GpuDecoder(model, "cpu", decode_jpeg)
    files = [file_of(300, 200), file_of(150, 220, kind="PNG"), file_of(260, 250)]
    ours = model.encode_images(decoder.images([decoder.load(file).image for file in files]))
    theirs = model.encode_images([model.prepare_image(decode(file)) for file in files])
    assert (ours * theirs).sum(dim=1).min() > 0.999
    assert (ours @ theirs.T).argmax(dim=1).tolist() == [0, 1, 2]


def test_a_damaged_file_is_an_error_with_the_next_step(model: Any) -> None:
    decoder = GpuDecoder(model, "cpu", decode_jpeg)
    loaded = decoder.load(file_of(320, 240)[:2000])
    with pytest.raises(ModelError, match="run without --decode gpu"):
        decoder.images([loaded.image])


def test_another_preprocessing_than_the_one_it_can_do_is_refused() -> None:
    flipped = load_model("demo-clip")
    prepare = flipped.prepare_image  # pyright: ignore[reportAttributeAccessIssue]
    flipped.prepare_image = lambda image: prepare(image)[::-1]  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ModelError, match="prepares images otherwise"):
        GpuDecoder(flipped, "cpu", decode_jpeg)  # pyright: ignore[reportArgumentType]


def test_a_run_reads_jpeg_files_by_the_decoder_and_scores_nearly_the_same(model: Any, tmp_path: Path) -> None:
    for place, name in enumerate(("red_circle", "blue_square", "green_triangle")):
        (tmp_path / "images" / name).mkdir(parents=True)
        (tmp_path / "images" / name / "1.jpg").write_bytes(file_of(200 + 20 * place, 170))
    other, seen = load_model("demo-clip"), []

    def counting(files: list[torch.Tensor], device: Any) -> list[torch.Tensor]:
        seen.extend(files)
        return decode_jpeg(files, device)

    other.decoder = GpuDecoder(model, "cpu", counting)  # pyright: ignore[reportAttributeAccessIssue]
    scores = []
    for each, out in ((model, "whole"), (other, "decoded")):
        files = predict(
            each, "zero_shot/folder", data_dir=tmp_path / "images", out=tmp_path / out, progress=False, cache=False
        )
        scores.append(np.array([row.scores for row in read_predictions(files[0]).rows], np.float64))
    assert len(seen) == 3
    assert 0 < np.abs(scores[0] - scores[1]).max() < 0.02


def test_a_model_on_the_cpu_is_refused(model: Any) -> None:
    with pytest.raises(ModelError, match="CUDA device"):
        decode_on_gpu(model)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_decodes_nearly_the_same_pixels(tmp_path: Path) -> None:
    pytest.importorskip("torchvision")
    folders = [tmp_path / "images" / name for name in ("one", "two")]
    for number, folder in enumerate(folders):
        folder.mkdir(parents=True)
        for index in range(3):
            (folder / f"{index}.jpg").write_bytes(file_of(300 + 10 * index, 200 + 10 * number))
    scores = []
    for decoder in (None, "gpu"):
        files = predict(
            "demo-clip",
            "zero_shot/folder",
            data_dir=tmp_path / "images",
            out=tmp_path / str(decoder),
            progress=False,
            cache=False,
            decode=decoder,
        )
        scores.append(np.array([row.scores for row in read_predictions(files[0]).rows], np.float64))
    assert 0 < np.abs(scores[0] - scores[1]).max() < 0.02
