"""Captions of COCO in the layouts of its releases: annotations of COCO, and Karpathy's splits.

ARO and Hard Positives fine-tune on "COCO-train": the 113,287 images and 566,747 captions of Karpathy's ``train`` and
``restval`` (``dataset_coco.json``), or the 118,287 images with 591,753 captions of ``captions_train2017.json``, the
number that Hard Positives states. The two divide the same images differently. Images of train2017 are in Karpathy's
validation and test splits, too: do not report retrieval on COCO for a model that was trained on them. And val2017, of
which SugarCrepe and TRICD's public part are made, is a part of val2014, as ``restval`` is: a model that was trained on
Karpathy's split, such as NegCLIP, has seen some of their images.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ....metrics.common.errors import DataError, check_known
from ....metrics.common.storage import with_home
from ....metrics.common.user_files import read_values
from .samples import FileImages, ImageOpener, Sample

# Karpathy's names of what others call the splits.
_KARPATHY = {"train": ("train", "restval"), "validation": ("val",), "test": ("test",)}


def open_coco(path: Path) -> Mapping[str, Any] | None:
    """The content of a JSON file in the layout of COCO's annotations or of Karpathy's splits; None for other files.

    Raises:
        DataError: it is not JSON, or a key comes twice.
    """
    if path.suffix != ".json" or not path.is_file():
        return None
    try:
        content = read_values(path, ".json")
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    return content if isinstance(content, dict) and isinstance(content.get("images"), list) else None


def coco_rows(
    path: Path, content: Mapping[str, Any], split: str, data_dir: str | Path | None
) -> tuple[Iterator[Sample], ImageOpener]:
    """A sample for each caption, in the order of the file, and the images.

    Args:
        path: the file.
        content: from `open_coco`.
        split: of Karpathy's file ``"train"`` (with its ``restval``), ``"validation"`` or ``"test"``; a file of COCO's
            annotations is one split, and read as ``"train"``.
        data_dir: the folder of ``train2014`` and the like; by default the file's folder or its parent.

    Raises:
        DataError: an entry in another layout, an unknown split, or an image that is in no folder.
    """
    is_karpathy = "annotations" not in content
    try:
        pairs = _karpathy(content, split) if is_karpathy else _annotations(path, content, split)
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path} is neither in the layout of COCO's annotations nor in that of Karpathy's splits: an entry has no "
            f"{error}; name another file, or a table with the columns caption and image"
        ) from error
    if not pairs:
        raise DataError(f"{path} has no captions in the split {split!r}")
    roots = [path.parent, path.parent.parent] if data_dir is None else [with_home(data_dir)]
    paths: dict[str, Path] = {}
    for name in dict.fromkeys(sample.image for sample in pairs):
        options = (root / inner / end for root in roots for inner in ("", "images") for end in (name, Path(name).name))
        path_of_image = next((option for option in options if option.is_file()), None)
        if path_of_image is None:
            folder = Path(name).parent.name  # Karpathy's file of Flickr30k names none
            source = f" (http://images.cocodataset.org/zips/{folder}.zip)" if folder else ""
            raise DataError(
                f"the image {name} of {path.name} is not in {' or '.join(map(str, roots))}; name the folder that has "
                f"{folder or 'it'} as --data-dir{source}"
            )
        paths[name] = path_of_image
    return iter(pairs), FileImages(paths=paths)


def _karpathy(content: Mapping[str, Any], split: str) -> Sequence[Sample]:
    check_known("split of Karpathy's file", [split], _KARPATHY)
    return [
        Sample(
            f"{entry['filepath']}/{entry['filename']}" if entry.get("filepath") else entry["filename"],
            sentence["raw"],
            id=str(sentence.get("sentid", f"{entry['filename']}#{number}")),
        )
        for entry in content["images"]
        if entry["split"] in _KARPATHY[split]
        for number, sentence in enumerate(entry["sentences"])
    ]


def _annotations(path: Path, content: Mapping[str, Any], split: str) -> Sequence[Sample]:
    if split != "train":
        raise DataError(f"{path} is one split and has no split {split!r}; leave the split out, or name another file")
    folder = path.stem.removeprefix("captions_")
    names = {entry["id"]: f"{folder}/{entry['file_name']}" for entry in content["images"]}
    if len(names) < len(content["images"]):
        raise DataError(f"{path} has several images of one id; keep one of each")
    return [Sample(names[entry["image_id"]], entry["caption"], id=str(entry["id"])) for entry in content["annotations"]]
