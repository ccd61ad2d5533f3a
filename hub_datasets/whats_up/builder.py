"""What'sUp (Kamath et al., EMNLP 2023) as a `datasets` builder.

A row is a photograph and captions that differ in a spatial relation; one of them is true. The text is exactly as
released; the true caption comes first, as in the release.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from ..sources.builders import Images, ReleasedRows, Rows, VerifiedConfig, make_configs
from ..sources.downloads import drive_address
from ..sources.image_archives import COCO_VAL2017, VISUAL_GENOME
from ..sources.records import Row
from ..sources.source_files import SourceFile, is_file_name

_OPTIONS = {"image_path": str, "caption_options": [str]}
# The identifier is a number or text.
_PAIR = {"id": object, "caption": str, "negative_caption": str}
# By configuration the file, its identifier on Google Drive, the form of its records, and their number.
_FILES = {
    "controlled_a": ("controlled_images_dataset", "1ap8mmmpQjLIjPGuplkpBgc1hoEHCj4hm", _OPTIONS, 412),
    "controlled_b": ("controlled_clevr_dataset", "1unNNosLbdy9NDjgj4l8fsQP3WiAAGA6z", _OPTIONS, 408),
    "coco_one": ("coco_qa_one_obj", "1RsMdpE9mmwnK4zzMPpC1-wTU_hNis-dq", _PAIR, 2_247),
    "coco_two": ("coco_qa_two_obj", "1TCEoM0mgFmz8T4cF7PQ3XJmO6JjtiQ-s", _PAIR, 440),
    "vg_one": ("vg_qa_one_obj", "1ARMRzRdohs9QTr1gpIfzyUzvW20wYp_p", _PAIR, 1_160),
    "vg_two": ("vg_qa_two_obj", "1sjVG5O3QMY8s118k7kQM8zzDZH12i_95", _PAIR, 291),
}


def _unpack(drive: str) -> str:
    return f"Get the archive with `gdown {drive}` and unpack it into data_dir"


def _controlled(name: str, drive: str) -> Images:
    return Images((name, f"data/{name}"), _unpack(drive), url=drive_address(drive))


_IMAGES = {
    "controlled_a": _controlled("controlled_images", "19KGYVQjrV3syb00GgcavB2nZTW5NXX0H"),
    "controlled_b": _controlled("controlled_clevr", "13jdBpg8t3NqW3jrL6FK8HO93vwsUjDxG"),
    "coco": Images(("val2017", "data/val2017"), f"Unpack {COCO_VAL2017.url} into data_dir", (COCO_VAL2017,)),
    "vg": Images(("vg_images", "data/vg_images"), _unpack("1idW7Buoz7fQm4-670n-oERw9U-2JLJvE"), VISUAL_GENOME),
}
_RELATION = re.compile(r"_(left_of|right_of|on|under|in-front_of|behind)_")
_EXCHANGED = ("pillow_left_of_chair.jpeg", "pillow_right_of_chair.jpeg")


class WhatsUp(ReleasedRows):
    """Six configurations, one split `test`; the card has the columns and the layout of `data_dir`."""

    BUILDER_CONFIGS: ClassVar = make_configs(VerifiedConfig, "What'sUp", _FILES)
    IS_DOWNLOADED = True
    ROWS: ClassVar = {
        name: Rows(
            SourceFile(
                f"{stem}.json", (f"data/{stem}.json",), drive_address(drive), remedy=f"Get it with `gdown {drive}`"
            ),
            schema,
            count,
        )
        for name, (stem, drive, schema, count) in _FILES.items()
    }
    COLUMNS = "id category image filename caption negative_captions objects defect"

    def _images(self) -> Images:
        name = self.config.name
        return _IMAGES.get(name) or _IMAGES[name.partition("_")[0]]

    def _problem(self, record: Row) -> str | None:
        if "id" in record and type(record["id"]) not in (int, str):
            return f"the identifier is {record['id']!r}, neither a number nor text"
        name = _filename(self.config.name, record)
        if not is_file_name(name):
            return f"the image {name!r} is not a file name"
        if "id" in record:
            return None
        if len(record["caption_options"]) != 4:
            return f"there are {len(record['caption_options'])} caption_options instead of 4"
        return None if _RELATION.search(name) else f"the name of the image {name!r} has no known relation"

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        name = _filename(part, record)
        if "id" in record:
            objects, captions = None, [record["caption"], record["negative_caption"]]
            negative_words = captions[1].split()
            # These files do not name the relation, which is the part in which the captions differ.
            category = " ".join(word for word in captions[0].split() if word not in negative_words) or "other"
        else:
            captions = record["caption_options"]
            # The first relation in the name; the texts before and after it are the two objects.
            first, category, second = _RELATION.split(name, maxsplit=1)
            objects = f"{first}, {second.rpartition('.')[0]}"
        yield {
            "id": f"{part}/{key}",
            "category": category,
            "filename": name,
            "caption": captions[0],
            "negative_captions": captions[1:],
            "objects": objects,
            "defect": "images exchanged" if name in _EXCHANGED else None,
        }


def _filename(part: str, record: Row) -> str:
    if "id" not in record:
        return record["image_path"].rpartition("/")[2]
    return f"{str(record['id']).zfill(12) if part.startswith('coco') else record['id']}.jpg"
