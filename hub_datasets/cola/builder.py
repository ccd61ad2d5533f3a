"""Cola's multi-object matching test (Ray et al., NeurIPS 2023 Datasets and Benchmarks) as a `datasets` builder.

A row is a group of two images of Visual Genome and two captions, each caption true of only one image. The text is
exactly as released. Cola's single-object test is not part of this dataset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from ...metrics.common.errors import DataError
from ..sources.builders import Images, ReleasedRows, Rows, VerifiedConfig, make_configs
from ..sources.columns import GROUP
from ..sources.downloads import DownloadError, download, request_error
from ..sources.records import Row
from ..sources.source_files import ImagePaths, SourceFile, is_file_name, read_bytes

ANNOTATIONS = SourceFile(
    "data/COLA_multiobjects_matching_benchmark.json",
    places=("COLA_multiobjects_matching_benchmark.json",),
    # The default branch: the checksum pins the content.
    url="https://raw.githubusercontent.com/arijitray1993/COLA/HEAD/data/COLA_multiobjects_matching_benchmark.json",
    checksum="sha256:e2846dcc958e3277813ca572bce53db96fd5dd65caaa57ccd20dc1ce51d73ec0",
)
_IMAGE_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG")
_GONE = (404, 410)
# The places of a released row, which is a list.
_SCHEMA = {"url_0": str, "caption_0": str, "url_1": str, "caption_1": str}
_OWN_IMAGES = "pass data_dir, a folder that holds images/ with the files named in the annotations, or with_images=False"


class Cola(ReleasedRows):
    """One configuration, `multiobjects`, one split `test`; the card has the columns and the layout of `data_dir`.

    A downloaded file that is not an image raises a `DataError`.
    """

    IS_DOWNLOADED = True
    BUILDER_CONFIGS: ClassVar = make_configs(VerifiedConfig, "Cola", ["multiobjects"])
    ROWS: ClassVar = {"multiobjects": Rows(ANNOTATIONS, _SCHEMA)}
    # The authors' folder, and the folders of Visual Genome, whose images have the same names.
    IMAGES = Images(("images", "vg_gqa_images", "VG_100K", "VG_100K_2"), "Put them into images/ of data_dir")
    COLUMNS = f"id {GROUP}"

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        self.urls: dict[str, str] = {}
        return super()._read_rows(dl_manager)

    def _problem(self, record: Row) -> str | None:
        """Check one row, and keep its URLs by file name."""
        for side in "01":
            url, name = record[f"url_{side}"], file_name(record[f"url_{side}"])
            if not record[f"caption_{side}"].strip():
                return f"caption_{side} is empty"
            if not url.startswith(("https://", "http://")) or not is_file_name(name):
                return f"url_{side} {url!r} is not the http(s) URL of a file"
            if self.urls.setdefault(name, url) != url:
                return f"url_{side} {url!r} and {self.urls[name]!r} have the same file name"
        return None

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        names = {f"filename_{side}": file_name(record[f"url_{side}"]) for side in "01"}
        yield {"id": f"{part}/{key}"} | names | {f"caption_{side}": record[f"caption_{side}"] for side in "01"}

    def _fetch_images(self, dl_manager: Any, rows: list[Row]) -> tuple[ImagePaths, str]:
        return _download_images(dl_manager, self.urls), "their URLs"


def file_name(url: str) -> str:
    """Return the last part of a URL or path."""
    return url.rsplit("/", 1)[-1]


def _download_images(dl_manager: Any, urls: dict[str, str]) -> ImagePaths:
    """Download images; return the path of each in the cache, None if the server has no such file."""
    try:
        paths = dl_manager.download(list(urls.values()))
        images: ImagePaths = dict(zip(urls, map(str, paths), strict=True))
    except Exception:  # one by one, to name the one that failed; what has arrived is in the cache
        images = {name: _download_unless_gone(dl_manager, url) for name, url in urls.items()}
    for name, path in images.items():
        if path is not None and not dl_manager.is_streaming:
            start = read_bytes(path)[:16]
            if not start.startswith(_IMAGE_SIGNATURES):
                raise DataError(
                    f"What {urls[name]} sent is not a JPEG or PNG file, it starts with {start!r}. Remove {path} and "
                    f"try again, or {_OWN_IMAGES}."
                )
    return images


def _download_unless_gone(dl_manager: Any, url: str) -> str | None:
    try:
        return download(dl_manager, url, _OWN_IMAGES)
    except DownloadError as error:
        reason = request_error(error.__cause__ or error)
        if isinstance(reason, FileNotFoundError) or getattr(reason, "status", None) in _GONE:
            return None
        raise
