"""Decoding and resizing of JPEG files on the GPU, behind ``--decode gpu``: several times as fast as on the CPUs.

nvJPEG decodes, by torchvision; torch's antialiased interpolation, which torchvision's transforms call too, resizes.
Pixels differ by some units of 255 from the image processor's, so a model that is read in this way is recorded as one
with another preprocessing, and `vl-assay check` counts the decisions that differ.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from PIL import Image

from ...hub_datasets.core.images import decode, open_checked
from ...metrics.common.errors import ModelError
from .loader import Loaded
from .protocol import DualEncoder
from .stages import is_out_of_memory

GPU = "gpu"
# Pillow's numbers of the filters that torch has with antialiasing.
_MODES = {2: "bilinear", 3: "bicubic"}
# Pillow rounds between rows and columns, and so differs by one or two units of 255.
_TOLERANCE = 4


@dataclass(frozen=True)
class ImageRecipe:
    """The preprocessing of an image after decoding.

    Args:
        size: height and width in pixels, or only the length of the shorter side.
        crop: height and width of the part in the middle; None for the whole image.
        mode: of the interpolation: "bicubic" or "bilinear".
        scale: factor of the pixel values 0 to 255.
        mean, std: of each channel, after scaling.
    """

    size: tuple[int, ...]
    crop: tuple[int, int] | None
    mode: str
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, preprocessing: Mapping[str, Any]) -> Self:
        """Read the settings of an image processor of transformers; raises KeyError for other settings."""
        size, crop = preprocessing["size"], preprocessing.get("crop_size")
        sides = (size["shortest_edge"],) if "shortest_edge" in size else (size["height"], size["width"])
        cut = (crop["height"], crop["width"]) if preprocessing.get("do_center_crop") and crop else None
        means = (tuple(preprocessing[name]) for name in ("image_mean", "image_std"))
        return cls(sides, cut, _MODES[preprocessing["resample"]], preprocessing["rescale_factor"], *means)

    def resized(self, height: int, width: int) -> tuple[int, int]:
        """Return the height and width after resizing, as the image processors compute them."""
        if len(self.size) == 2:
            return self.size[0], self.size[1]
        short, long = sorted((height, width))
        longer = int(self.size[0] * long / short)
        return (self.size[0], longer) if height <= width else (longer, self.size[0])


class GpuDecoder:
    """Makes pixel values of JPEG files on a device; other files are prepared by the model.

    Args:
        model: with `info.preprocessing` and `prepare_image`.
        device: of the results.
        decode_jpeg: returns tensors (3, height, width), uint8, on a device, of a list of files as uint8 tensors (n,).

    Raises:
        ModelError: the model prepares images in another way than `ImageRecipe`.
    """

    def __init__(self, model: DualEncoder, device: Any, decode_jpeg: Callable[[list[Any], Any], list[Any]]) -> None:
        self._prepare, self._device, self._decode = model.prepare_image, device, decode_jpeg
        try:
            self._recipe = ImageRecipe.of(model.info.preprocessing)
            self._mean, self._std = (self._per_channel(values) for values in (self._recipe.mean, self._recipe.std))
            is_same = all(self._prepares_alike(shape) for shape in ((90, 130, 3), (130, 90, 3)))
        except (KeyError, TypeError, RuntimeError):
            is_same = False
        if not is_same:
            raise ModelError(
                "decode gpu resizes to one size or shorter side, crops the middle, rescales and normalises; "
                f"{model.info.name} prepares images otherwise ({model.info.preprocessing}). Leave decode out"
            )

    def _prepares_alike(self, shape: tuple[int, int, int]) -> bool:
        """Return whether the recipe and the model's preprocessing give the same result for an image of blobs."""
        import torch

        blobs = np.random.default_rng(0).integers(0, 256, (9, 9, 3), np.uint8)
        image = Image.fromarray(blobs).resize((shape[1], shape[0]), Image.Resampling.BICUBIC)
        ours = self._pixels(torch.from_numpy(np.array(image)).permute(2, 0, 1).to(self._device)).cpu().numpy()
        theirs = np.asarray(self._prepare(image))
        most = _TOLERANCE * self._recipe.scale / min(self._recipe.std)
        return ours.shape == theirs.shape and float(np.abs(ours - theirs).max()) <= most

    def _per_channel(self, values: Sequence[float]) -> Any:
        import torch

        return torch.tensor(values, dtype=torch.float32, device=self._device)[:, None, None]

    def load(self, content: bytes) -> Loaded:
        """Return the file itself, if it is a JPEG in grey or RGB, else the prepared image; raises as `decode`."""
        with open_checked(content) as image:
            if image.format == "JPEG" and image.mode in ("RGB", "L"):
                return Loaded(np.array(np.frombuffer(content, np.uint8)), image.size)
        image = decode(content)
        return Loaded(self._prepare(image), image.size)

    def images(self, loaded: Sequence[np.ndarray]) -> list[Any]:
        """Return pixel values (3, height, width), float32, of the results of `load`, as a list with ``blocks``.

        Raises:
            ModelError: a file is damaged.
        """
        import torch

        files = [index for index, item in enumerate(loaded) if item.ndim == 1]
        pixels: dict[int, Any] = {
            index: torch.as_tensor(item).to(self._device) for index, item in enumerate(loaded) if item.ndim > 1
        }
        try:
            decoded = self._decode([torch.as_tensor(loaded[index]) for index in files], self._device) if files else []
        except RuntimeError as error:
            if is_out_of_memory(error):  # the stage halves the batch
                raise
            raise ModelError(
                f"the GPU cannot decode an image ({error}); run without --decode gpu to see which"
            ) from error
        for index, image in zip(files, decoded, strict=True):
            pixels[index] = self._pixels(image)
        return _OnDevice(torch.stack([pixels[index] for index in range(len(loaded))]))

    def _pixels(self, image: Any) -> Any:
        import torch

        recipe = self._recipe
        size = recipe.resized(*image.shape[1:])
        resized = torch.nn.functional.interpolate(image[None].float(), size, mode=recipe.mode, antialias=True)[0]
        values = resized.clamp(0, 255).round()
        if recipe.crop:
            top, start = ((length - cropped) // 2 for length, cropped in zip(size, recipe.crop, strict=True))
            values = values[:, top : top + recipe.crop[0], start : start + recipe.crop[1]]
        return (values * recipe.scale - self._mean) / self._std


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
