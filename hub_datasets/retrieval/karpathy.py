"""The test splits of Karpathy and Li (2015) for COCO and Flickr30k: their files and photographs; ARO uses them too."""

from __future__ import annotations

import importlib
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from ..core.source_files import (
    ImagePaths,
    SourceFile,
    check_row_count,
    check_rows,
    data_folder,
    first_file,
    is_inner_path,
    parse_json,
)

_URL = "https://storage.googleapis.com/sfr-vision-language-research/datasets"
_SCHEMA = {"image": str, "caption": [str]}
Entry = dict[str, Any]


class Source(NamedTuple):
    """One of the files as released, and the photographs that go with it.

    Attributes:
        file: the file of captions.
        images: how many images it has, and `captions` how many captions.
        photographs: whose photographs they are.
        remedy: how to get them.
    """

    file: SourceFile
    images: int
    captions: int
    photographs: str
    remedy: str


SOURCES = {
    "coco": Source(
        SourceFile(
            "coco_karpathy_test.json",
            url=f"{_URL}/coco_karpathy_test.json",
            # As stated by the project LAVIS, which released the file.
            checksum="md5:3ff34b0ef2db02d01c37399f6a2a6cd1",
        ),
        images=5_000,
        captions=25_010,
        photographs="COCO val2014",
        remedy="Get http://images.cocodataset.org/zips/val2014.zip (6 GB) and unzip it in data_dir, as val2014/",
    ),
    "flickr30k": Source(
        SourceFile("flickr30k_test.json", url=f"{_URL}/flickr30k_test.json"),
        images=1_000,
        captions=5_000,
        photographs="Flickr30k",
        remedy=(
            "Ask for them with the form at https://forms.illinois.edu/sec/229675 and unpack them in data_dir, as "
            "flickr30k-images/"
        ),
    ),
}


def source_folder(source: Source, data_dir: str | None, *, with_images: bool) -> Path | None:
    """The user's folder, which has to be given for photographs; FileNotFoundError otherwise."""
    remedy = f"The photographs of {source.photographs} are not downloaded. {source.remedy}"
    return data_folder(data_dir, f"{remedy}; or pass with_images=False for the text alone", is_needed=with_images)


def read_entries(source: Source, folder: Path | None, dl_manager: Any, *, verify: bool) -> list[Entry]:
    """One entry for each image of a file: its `place` in the file, `path`, `filename` and `captions`.

    Raises:
        ValueError: the file is malformed or, if `verify`, not the released one; the message names the entry.
        DownloadError: it is not in `folder` and cannot be downloaded.
    """
    payload, origin = source.file.read(folder, dl_manager, verify=verify)
    seen: dict[str, int] = {}

    def problem(record: Entry) -> str | None:
        if not is_inner_path(record["image"]):
            return f"image {record['image']!r} does not lead to a file in the folder of images"
        if not record["caption"]:
            return "caption is an empty list"
        name, place = PurePosixPath(record["image"]).name, len(seen)
        return None if seen.setdefault(name, place) == place else f"image {record['image']!r} occurs twice"

    labelled = ((f"entry {place}", record) for place, record in enumerate(parse_json(payload, origin)))
    records = check_rows(labelled, _SCHEMA, origin, problem)
    if verify:
        check_row_count(len(records), source.images, origin)
        check_row_count(sum(len(record["caption"]) for record in records), source.captions, f"{origin}, by caption,")
    return [
        {"place": place, "path": path, "filename": PurePosixPath(path).name, "captions": record["caption"]}
        for place, record in enumerate(records)
        for path in [record["image"]]
    ]


def find_photographs(entries: list[Entry], folder: Path | None) -> ImagePaths:
    """The path of each photograph by its file name.

    It is looked for under its path in the file (``val2014/…``), under the same in ``images``, then by its bare name.
    """
    if folder is None:
        return {}
    return {
        entry["filename"]: first_file(
            (folder / entry["path"], folder / "images" / entry["path"], folder / entry["filename"])
        )
        for entry in entries
    }


def check_options(seed: object, **switches: object) -> None:
    """Raise a ValueError for a seed that a column cannot hold, or a switch that is not True or False."""
    if not isinstance(seed, int) or isinstance(seed, bool) or not -(2**63) <= seed < 2**63:
        raise ValueError(f"seed is {seed!r}; pass a whole number of at most 64 bits, such as 1")
    for name, value in switches.items():
        if not isinstance(value, bool):  # a text such as "no" would count as True
            raise ValueError(
                f"{name} is {value!r}; pass True or False (on the command line {name}=true or {name}=false)"
            )


def load_authoring() -> Any:
    """The module that shuffles captions and images; ImportError if VL-Assay is not installed.

    It is imported late: a script of `datasets` may import only the modules next to it.
    """
    try:
        return importlib.import_module("vl_assay.hub_datasets.authoring.text.perturb")
    except ModuleNotFoundError as error:
        raise ImportError(
            "Shuffled captions and images need the package that shuffles them: pip install vl-assay. Or load a dataset "
            "that was built, as Parquet, which needs `datasets` alone."
        ) from error
