"""A caption with its image's key, and what opens images by their keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ....hub_datasets.core.images import DECODING_ERRORS, open_checked
from ....hub_datasets.toy_scenes import render
from ....hub_datasets.toy_scenes.world import Scene
from ....metrics.common.errors import DataError


class Sample(NamedTuple):
    """A caption that is true of an image, with any number of hard negatives and hard positives.

    `image` is the image's key, which all its captions share; `id` names the sample in messages.
    """

    image: str
    caption: str
    negatives: tuple[str, ...] = ()
    positives: tuple[str, ...] = ()
    id: str = ""


class ImageOpener(ABC):
    """Opens images by their keys."""

    @abstractmethod
    def read(self, key: str) -> bytes:
        """The encoded image; raises `DataError` if it cannot be read."""

    def scene(self, key: str) -> Scene | None:
        """The scene of an image of toy_scenes, None for other images."""
        try:
            with open_checked(self.read(key)) as image:
                return render.read_scene(image)
        except DECODING_ERRORS as error:
            raise DataError(f"the image {key} cannot be decoded: {error}") from error


class FileImages(ImageOpener):
    """Files, by their paths relative to a folder, or by keys with a path each."""

    def __init__(self, folder: Path = Path(), paths: Mapping[str, Path] | None = None) -> None:
        self._folder, self._paths = folder, paths or {}

    def read(self, key: str) -> bytes:
        """Return the encoded image."""
        try:
            return (self._paths.get(key) or self._folder / key).read_bytes()
        except OSError as error:
            raise DataError(f"the image {key} cannot be read: {error.strerror or error}") from error
