"""The test splits of Karpathy and Li (2015) for COCO and Flickr30k: what the files hold, where the images lie.

The folders ``aro`` and ``retrieval`` have the same copy of this module, as old versions of `datasets` run a builder as
a script that sees its own folder only. It imports only the standard library.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

URL = "https://storage.googleapis.com/sfr-vision-language-research/datasets"
_SHAPE = 'an object with the text "image" and the list of texts "caption"'
_NAMES_SHOWN = 5

Entry = dict[str, Any]


class Source(NamedTuple):
    """One of the files as released, and the photographs that go with it.

    Attributes:
        annotations: name of the file.
        images: how many images it has, and `captions` how many captions.
        md5: its checksum, empty where none is published.
        photographs: whose photographs they are.
        remedy: how to get them.
    """

    annotations: str
    images: int
    captions: int
    md5: str
    photographs: str
    remedy: str


SOURCES = {
    "coco": Source(
        annotations="coco_karpathy_test.json",
        images=5_000,
        captions=25_010,
        # As the project LAVIS states it, whose files these are.
        md5="3ff34b0ef2db02d01c37399f6a2a6cd1",
        photographs="COCO val2014",
        remedy="Get http://images.cocodataset.org/zips/val2014.zip (6 GB) and unzip it in data_dir, as val2014/",
    ),
    "flickr30k": Source(
        annotations="flickr30k_test.json",
        images=1_000,
        captions=5_000,
        md5="",
        photographs="Flickr30k",
        remedy=(
            "Ask for them with the form at https://forms.illinois.edu/sec/229675 and unpack them in data_dir, as "
            "flickr30k-images/"
        ),
    ),
}


def find_folder(config: str, source: Source, data_dir: str | None, *, with_images: bool) -> Path | None:
    """Return the user's folder, None where none is given and none is needed; else FileNotFoundError."""
    if data_dir:
        folder = Path(data_dir).expanduser().absolute()
        if folder.is_dir():
            return folder
        raise FileNotFoundError(f"data_dir {folder} is not a folder. Pass the one that holds the images.")
    if with_images:
        raise FileNotFoundError(
            f"{config} shows photographs of {source.photographs}, which are not downloaded for you, and no data_dir "
            f"was given. {source.remedy}; or pass with_images=False for the text alone."
        )
    return None


def find_annotations(source: Source, folder: Path | None) -> str:
    """Return the path of the user's own copy of a file, else the address from which to download it."""
    if folder is not None and (folder / source.annotations).is_file():
        return str(folder / source.annotations)
    return f"{URL}/{source.annotations}"


def read_entries(source: Source, payload: bytes, origin: str, *, verify: bool) -> list[Entry]:
    """Return one entry for each image of a file: its `place` in the file, `path`, `filename` and `captions`.

    Args:
        source: which file it should be.
        payload: what the file holds.
        origin: where it came from, for messages.
        verify: whether it must have the checksum, and as many images and captions, as the released one.

    Raises:
        ValueError: the file is not the released one, or not of the documented shape; the message names the entry.
    """
    remedy = f"It is damaged or another file: get {URL}/{source.annotations} anew, or pass verify=False to accept it."
    found = hashlib.md5(payload, usedforsecurity=False).hexdigest()
    if verify and source.md5 and found != source.md5:
        raise ValueError(f"{origin} has MD5 {found}, but {source.annotations} has {source.md5}. {remedy}")
    try:
        records = json.loads(payload.decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"{origin} is not valid JSON: {error}. Expected a list of entries. {remedy}") from error
    if not isinstance(records, list) or not records:
        what = "an empty list" if records == [] else f"{type(records).__name__} at the top level"
        raise ValueError(f"{origin} holds {what}. Expected a list of entries, each {_SHAPE}.")
    seen: dict[str, int] = {}
    entries = []
    for place, record in enumerate(records):
        problem = _problem(record, seen, place)
        if problem:
            raise ValueError(f"{origin}, entry {place}: {problem}. Expected {_SHAPE}.")
        path = record["image"]
        filename = PurePosixPath(path).name
        entries.append({"place": place, "path": path, "filename": filename, "captions": record["caption"]})
    captions = sum(len(entry["captions"]) for entry in entries)
    if verify and (len(entries), captions) != (source.images, source.captions):
        raise ValueError(
            f"{origin} has {len(entries):,} images with {captions:,} captions, but {source.annotations} has "
            f"{source.images:,} with {source.captions:,}. {remedy}"
        )
    return entries


def _problem(record: object, seen: dict[str, int], place: int) -> str | None:
    """Return what is wrong with a parsed entry, None if nothing is; `seen` grows by its image."""
    if not isinstance(record, dict):
        return f"found {type(record).__name__} instead of an entry"
    faults = [f"{field} is missing" for field in ("image", "caption") if field not in record]
    if faults:
        return "; ".join(faults)
    path, captions = record["image"], record["caption"]
    if not isinstance(path, str) or not _leads_below(path):
        return f"image {path!r} does not lead to a file in the folder of images"
    if not isinstance(captions, list) or not captions or not all(isinstance(text, str) for text in captions):
        return f"caption is {captions!r}, not a list of texts"
    first = seen.setdefault(PurePosixPath(path).name, place)
    return None if first == place else f"image {path!r} is that of entry {first}, too"


def _leads_below(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not {"/", ".."} & set(parts) and "\\" not in path


def find_images(
    config: str, source: Source, entries: list[Entry], folder: Path, *, allow_missing: bool
) -> dict[str, str | None]:
    """Return the path of each image by its file name, None where it is missing and that is allowed.

    An image is looked for under its path in the file (``val2014/…``), then under the same in ``images``, then under
    its bare name. FileNotFoundError names those that are not there.
    """
    images = {
        entry["filename"]: _first_file(
            (folder / entry["path"], folder / "images" / entry["path"], folder / entry["filename"])
        )
        for entry in entries
    }
    missing = [name for name, path in images.items() if path is None]
    if missing and not allow_missing:
        raise FileNotFoundError(
            f"{config}: {len(missing)} of {len(images)} images of {source.photographs} are missing from {folder}, or "
            f"empty: {_shown(missing)}. {source.remedy}; or pass allow_missing=True to keep their rows without an "
            f"image, or with_images=False for the text alone."
        )
    return images


def _first_file(places: Iterable[Path]) -> str | None:
    """Return the first of the paths where a file lies that is not empty (an interrupted copy is)."""
    return next((str(path) for path in places if path.is_file() and path.stat().st_size), None)


def _shown(names: list[str]) -> str:
    more = [f"and {len(names) - _NAMES_SHOWN} more"] if len(names) > _NAMES_SHOWN else []
    return ", ".join([*names[:_NAMES_SHOWN], *more])


def check_seed(seed: object) -> None:
    """Raise a ValueError unless the seed is a whole number that a column can hold."""
    if not isinstance(seed, int) or isinstance(seed, bool) or not -(2**63) <= seed < 2**63:
        raise ValueError(f"seed is {seed!r}; pass a whole number of at most 64 bits, such as 1")


def check_switches(**switches: object) -> None:
    """Raise a ValueError unless each option is True or False: a text such as "no" would count as True."""
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise ValueError(
                f"{name} is {value!r}; pass True or False (on the command line {name}=true or {name}=false)"
            )


def load_authoring() -> Any:
    """Return the module ``perturb`` of the package that shuffles; ImportError where it is not installed.

    It is imported when it is needed: a script of `datasets` may import only what lies beside it.
    """
    try:
        return importlib.import_module("vl_assay.hub_datasets.authoring.text.perturb")
    except ModuleNotFoundError as error:
        raise ImportError(
            "making shuffled captions or images needs the package that shuffles them: pip install vl-assay. Or load a "
            "dataset that was built, as Parquet, which needs `datasets` alone."
        ) from error
