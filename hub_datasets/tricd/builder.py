"""TRICD (Kamath et al., 2023), its public validation part, as a `datasets` builder.

A group is two photographs of COCO val2017 and two captions, each true of only one photograph. `val` has the four
image-caption rows of each group with their phrases and boxes, `vqa` the same rows as yes-or-no questions, and `groups`
one row for each group.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ...metrics.common.user_files import list_files
from ..sources.builders import Images, SourceBuilder, VerifiedConfig, make_configs
from ..sources.columns import DETECTION, GROUP, columns
from ..sources.image_archives import COCO_VAL2017
from ..sources.records import Row, read_values, with_remedy
from ..sources.source_files import SourceFile
from .release import REPOSITORY_URL, ROWS

CONFIG_NAMES = ("val", "vqa", "groups")

_GROUNDING = "TRICD_grounding_val.json"
_VQA = "TRICD_VQA_val.json"
# The commit and folder of each file in the repository, and its checksum.
_RELEASED = {
    _GROUNDING: (
        "bedb390fb1e3db4d8c7ad2c26f95e9b85f4013c3/grounding",
        "024b5855e9b4f1c8758feb750c7f4206adf47a9376fd6c0ff1520166d72d73b0",
    ),
    _VQA: (
        "b66678d9925d4aa554d81147c83c50c13e226c49/vqa",
        "6214593ae760d2727e5985722495d81ffb0a048f036fa87408f672313527b74e",
    ),
}
_RAW = "https://raw.githubusercontent.com/ashkamath/TRICD"
_COLUMNS = {
    "val": f"id {DETECTION}",
    "vqa": "id image filename question answer type",
    "groups": f"id type {GROUP}",
}


class TRICD(SourceBuilder):
    """Three configurations, one split `validation`; the card has the columns and the layout of `data_dir`."""

    config: VerifiedConfig
    BUILDER_CONFIG_CLASS = VerifiedConfig
    BUILDER_CONFIGS: ClassVar = make_configs(VerifiedConfig, "TRICD", CONFIG_NAMES)
    DEFAULT_CONFIG_NAME = "val"
    SPLIT = "validation"
    IMAGES = Images(
        ("val2017", "images/val2017"), f"Get them from {COCO_VAL2017.url} into val2017/ of data_dir", (COCO_VAL2017,)
    )
    IS_DOWNLOADED = True

    def _columns(self) -> dict[str, Any]:
        return columns(_COLUMNS[self.config.name])

    def _file_names(self) -> list[str]:
        return [_VQA if self.config.name == "vqa" else _GROUNDING]

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        folder = self._folder
        [name] = self._file_names()
        files = list_files(folder, f"**/{name}") if folder else []
        places = (
            str(path.relative_to(folder)) for path in sorted(files, key=lambda path: (len(path.parts), str(path)))
        )
        commit, checksum = _RELEASED[name]
        file = SourceFile(name, tuple(places), f"{_RAW}/{commit}/annotations/{name}", f"sha256:{checksum}")
        payload, origin = file.read(folder, dl_manager, verify=self.config.verify)
        self._note("rows", origin, folder)
        with with_remedy(f"Get it from {REPOSITORY_URL}"):
            return ROWS[self.config.name](read_values(payload, origin), origin)
