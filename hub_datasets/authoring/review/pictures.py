"""Images for the review page, from one folder only: an image at an address is not opened, not even by the browser."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from ....metrics.common.errors import DataError
from ...core.images import DECODING_ERRORS, decode, portable

_SHOWN_BY_BROWSERS = ("BMP", "JPEG", "PNG", "WEBP")

T = TypeVar("T")


class Pictures:
    """The images below a folder.

    Args:
        folder: nothing outside it is read, not by ``..`` and not by a link.
        items: another folder to which names of images may be relative; by default only `folder`.
    """

    def __init__(self, folder: str | Path, items: str | Path | None = None) -> None:
        self.folder = Path(folder).resolve()
        self._bases = [self.folder] if items is None else [self.folder, Path(items)]

    def path(self, image: str) -> Path:
        """Return the file of an image, named by a path or relative to a folder; `DataError` if it is outside."""
        try:
            paths = [(base / image).resolve() for base in self._bases]
            inside = [path for path in paths if path.is_relative_to(self.folder)]
            for path in inside:
                if path.is_file():
                    return path
        except (OSError, ValueError):  # an impossible name
            inside = [self.folder]
        if not inside:
            raise DataError(
                f"{image} lies outside {self.folder}, and only images inside it are shown; name a folder that "
                "holds them with --images, or let `vl-assay generate` copy them"
            )
        raise DataError(f"there is no image {image} in {self.folder}")

    def size(self, image: str) -> tuple[int, int]:
        """Return width and height of an image, as models see it, in pixels; errors as for `shown`."""
        return self._make(image, decode).size

    def shown(self, image: str) -> str:
        """Return a ``data:`` address of an image: the file itself if browsers show it.

        Raises:
            DataError: the image is missing, outside the folder or invalid.
        """
        kind, content = self._make(image, partial(portable, most=None, kinds=_SHOWN_BY_BROWSERS))
        return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"

    def _make(self, image: str, make: Callable[[bytes], T]) -> T:
        path = self.path(image)
        try:
            return make(path.read_bytes())
        except DECODING_ERRORS as error:
            raise DataError(f"{path} is not a readable image ({error}); replace it") from error
