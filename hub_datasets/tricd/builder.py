"""TRICD (Kamath et al., 2023), its public validation part, as a `datasets` builder.

A group is two photographs of COCO val2017 and two captions, each true of its own photograph only. `val` has the four
image-caption rows of each group with their phrases and boxes, `vqa` the same rows as yes-or-no questions, and `groups`
one row for each group.
"""

from __future__ import annotations

from typing import Any, ClassVar

import datasets

from ..core.source_files import ImagePaths, Row, SourceBuilder, SourceFile, VerifiedConfig, find_images, parse_json
from .release import REPOSITORY_URL, ROWS

CONFIG_NAMES = ("val", "vqa", "groups")

_GROUNDING = "TRICD_grounding_val.json"
_VQA = "TRICD_VQA_val.json"
_SHA256 = {
    _GROUNDING: "024b5855e9b4f1c8758feb750c7f4206adf47a9376fd6c0ff1520166d72d73b0",
    _VQA: "6214593ae760d2727e5985722495d81ffb0a048f036fa87408f672313527b74e",
}
_IMAGES_URL = "http://images.cocodataset.org/zips/val2017.zip"
_TEXT, _IMAGE, _FLAG = datasets.Value("string"), datasets.Image(), datasets.Value("bool")
_NUMBER = datasets.Value("int32")
_PHRASE = {"text": _TEXT, "start": _NUMBER, "end": _NUMBER, "phrase_id": _NUMBER}
_COLUMNS: dict[str, dict[str, Any]] = {
    "val": {
        "id": _TEXT,
        "image": _IMAGE,
        "filename": _TEXT,
        "caption": _TEXT,
        "phrases": [{**_PHRASE, "boxes": [[datasets.Value("float64")]]}],
        "positive": _FLAG,
        "pair_id": _TEXT,
        "type": _TEXT,
        "width": _NUMBER,
        "height": _NUMBER,
        "overruns": _FLAG,
    },
    "vqa": {"id": _TEXT, "image": _IMAGE, "filename": _TEXT, "question": _TEXT, "answer": _FLAG, "type": _TEXT},
    "groups": {
        "id": _TEXT,
        "type": _TEXT,
        **{"image_0": _IMAGE, "filename_0": _TEXT, "caption_0": _TEXT},
        **{"image_1": _IMAGE, "filename_1": _TEXT, "caption_1": _TEXT},
    },
}


class TRICD(SourceBuilder):
    """Three configurations, one split `validation`; see the card for the columns.

    Nothing is downloaded. `data_dir`, which must be given, is the user's own copy:

    - annotations: `TRICD_grounding_val.json` (`val`, `groups`), `TRICD_VQA_val.json` (`vqa`), in `data_dir` or in any
      folder below it; the copy with the shortest path is taken;
    - images: `val2017/<filename>`, then `images/val2017/<filename>`, then `<filename>`.
    """

    config: VerifiedConfig
    BUILDER_CONFIG_CLASS = VerifiedConfig
    BUILDER_CONFIGS: ClassVar[list[datasets.BuilderConfig]] = [
        VerifiedConfig(name=name, version=datasets.Version("1.0.0"), description=f"TRICD {name}")
        for name in CONFIG_NAMES
    ]
    DEFAULT_CONFIG_NAME = "val"
    SPLIT = "validation"
    GET_SOURCES = f"Get {_GROUNDING} and {_VQA} from {REPOSITORY_URL}, and val2017/ from {_IMAGES_URL}"

    def _columns(self) -> dict[str, Any]:
        return _COLUMNS[self.config.name]

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        folder = self._own_folder
        name = _VQA if self.config.name == "vqa" else _GROUNDING
        found = sorted(folder.rglob(name), key=lambda path: (len(path.parts), str(path)))
        places = tuple(str(path.relative_to(folder)) for path in found)
        file = SourceFile(name, places, checksum=f"sha256:{_SHA256[name]}", remedy=f"Get it from {REPOSITORY_URL}")
        payload, origin = file.read(folder, verify=self.config.verify)
        return ROWS[self.config.name](parse_json(payload, origin, dict), origin)

    def _find_images(self, dl_manager: Any, rows: list[Row]) -> ImagePaths:
        folder = self._own_folder
        names = dict.fromkeys(name for row in rows for name in self._image_names(row).values())
        images = find_images(names, [folder / "val2017", folder / "images" / "val2017", folder])
        return self._require_images(rows, images, folder, f"Get them from {_IMAGES_URL} into val2017/ of data_dir")
