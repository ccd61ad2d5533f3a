"""Decoding and resizing of JPEG files on the GPU, behind ``--decode gpu``: several times as fast as on the CPUs.

nvJPEG decodes, by torchvision; torch's antialiased interpolation, which torchvision's transforms call too, resizes.
Pixels differ by some units of 255 from the image processor's, so a model that is read in this way is recorded as one
with another preprocessing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image

from ...hub_datasets.core.images import open_checked
from ...metrics.common.errors import ModelError
from .loader import Loaded
from .protocol import DualEncoder
from .stages import is_out_of_memory

GPU = "gpu"
# Pillow's numbers of the filters that torch has with antialiasing.
_MODES = {2: "bilinear", 3: "bicubic"}
# Pillow rounds between rows and columns, and so differs by one or two units of 255.
_TOLERANCE = 4


class GpuDecoder:
    """Makes pixel values of JPEG files on a device, as a model's `prepare_image` would.

    Args:
        model: with `info.preprocessing`, the settings of an image processor of transformers, and `prepare_image`.
        device: of the results.
        decode_jpeg: returns tensors (3, height, width), uint8, on a device, of a list of files as uint8 tensors (n,).

    Raises:
        ModelError: the model's preprocessing is not to resize, crop the middle, rescale and normalise.
    """

    def __init__(self, model: DualEncoder, device: Any, decode_jpeg: Callable[[list[Any], Any], list[Any]]) -> None:
        self._device, self._decode, self._settings = device, decode_jpeg, model.info.preprocessing
        try:
            self._mean, self._std = (self._per_channel(self._settings[name]) for name in ("image_mean", "image_std"))
            is_same = all(self._prepares_alike(model, size) for size in ((130, 90), (90, 130)))
        except (KeyError, TypeError, RuntimeError):
            is_same = False
        if not is_same:
            raise ModelError(
                "decode gpu resizes to one size or shorter side, crops the middle, rescales and normalises; "
                f"{model.info.name} prepares images otherwise ({self._settings}). Leave decode out"
            )

    def _prepares_alike(self, model: DualEncoder, size: tuple[int, int]) -> bool:
        """Return whether a model prepares an image of blobs as `_pixels` does."""
        import torch

        blobs = np.random.default_rng(0).integers(0, 256, (9, 9, 3), np.uint8)
        image = Image.fromarray(blobs).resize(size, Image.Resampling.BICUBIC)
        ours = self._pixels(torch.from_numpy(np.array(image)).permute(2, 0, 1).to(self._device)).cpu().numpy()
        theirs = np.asarray(model.prepare_image(image))
        most = _TOLERANCE * self._settings["rescale_factor"] / min(self._settings["image_std"])
        return ours.shape == theirs.shape and float(np.abs(ours - theirs).max()) <= most

    def _per_channel(self, values: Sequence[float]) -> Any:
        import torch

        return torch.tensor(values, dtype=torch.float32, device=self._device)[:, None, None]

    def load(self, content: bytes) -> Loaded | None:
        """Return the file as a uint8 tensor (n,), or None if it is no JPEG in grey or RGB; raise as `open_checked`."""
        import torch

        with open_checked(content) as image:
            if image.format == "JPEG" and image.mode in ("RGB", "L"):
                return Loaded(torch.from_numpy(np.frombuffer(content, np.uint8).copy()), image.size)
        return None

    def images(self, loaded: Sequence[Any]) -> list[Any]:
        """Return pixel values (3, height, width) of files that `load` returned and of prepared images, in order.

        The result is a list with ``blocks``, as `on_device` takes it; float32.

        Raises:
            ModelError: a file is damaged.
        """
        import torch

        files = [item for item in loaded if item.ndim == 1]
        try:
            decoded = iter(self._decode(files, self._device) if files else [])
        except RuntimeError as error:
            if is_out_of_memory(error):  # the stage halves the batch
                raise
            raise ModelError(
                f"the GPU cannot decode an image ({error}); run without --decode gpu to see which"
            ) from error
        pixels = [
            self._pixels(next(decoded)) if item.ndim == 1 else torch.as_tensor(item).to(self._device) for item in loaded
        ]
        return _OnDevice(torch.stack(pixels))

    def _pixels(self, image: Any) -> Any:
        """Return pixel values of a decoded image (3, height, width); raise KeyError for settings of another kind."""
        import torch

        settings, (height, width) = self._settings, image.shape[1:]
        size = settings["size"]
        if "shortest_edge" in size:  # rounded as the image processors do
            sides = [int(size["shortest_edge"] * side / min(height, width)) for side in (height, width)]
        else:
            sides = [size["height"], size["width"]]
        mode = _MODES[settings["resample"]]
        resized = torch.nn.functional.interpolate(image[None].float(), sides, mode=mode, antialias=True)[0]
        values = resized.clamp(0, 255).round()
        if settings.get("do_center_crop"):
            crop = [settings["crop_size"][side] for side in ("height", "width")]
            top, left = ((side - cropped) // 2 for side, cropped in zip(sides, crop, strict=True))
            values = values[:, top : top + crop[0], left : left + crop[1]]
        return (values * settings["rescale_factor"] - self._mean) / self._std


class _OnDevice(list[Any]):
    """Images (3, height, width) of one batch, with the batch itself as ``blocks``."""

    def __init__(self, batch: Any) -> None:
        super().__init__(batch)
        self.blocks = [batch]


def decode_on_gpu(model: Any) -> None:
    """Give a dual encoder a `decoder`, and record it in its preprocessing.

    Raises:
        ModelError: the model is no dual encoder of transformers on a CUDA device, or torchvision lacks nvJPEG.
    """
    device = str(getattr(model, "device", "cpu"))
    if not all((isinstance(model, DualEncoder), device.startswith("cuda"))):
        raise ModelError(
            f"decode gpu takes a dual encoder on a CUDA device, and {model.info.name} is not one or is on {device}"
        )
    try:
        io, version = (importlib.import_module(f"torchvision.{name}") for name in ("io", "version"))
    except (ImportError, RuntimeError) as error:
        raise ModelError(f"decode gpu needs torchvision in a build that matches torch: {error}") from error
    rgb = io.ImageReadMode.RGB
    model.decoder = GpuDecoder(model, device, lambda files, where: io.decode_jpeg(files, mode=rgb, device=where))
    decoder = f"nvJPEG (torchvision {version.__version__})"
    model.info = replace(model.info, preprocessing={**model.info.preprocessing, "decoder": decoder})
