"""SugarCrepe (Hsieh et al., NeurIPS 2023 Datasets and Benchmarks) as a `datasets` builder.

A row is one image-to-text test: a COCO val2017 image, a caption that describes it and a hard negative. The text is
exactly as released, stray white space included. The seven configurations named after a category are the released
benchmark; the seven `unrefined_*` ones are the candidates before its adversarial refinement.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from ..core.columns import columns
from ..core.source_files import (
    ImagePaths,
    Row,
    SourceBuilder,
    SourceFile,
    VerifiedConfig,
    check_rows,
    download,
    find_images,
    is_file_name,
    make_configs,
    parse_json,
)

CATEGORIES = ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
_UNREFINED = "unrefined_"
CONFIG_NAMES = (*CATEGORIES, *(_UNREFINED + category for category in CATEGORIES))

_REVISION = "0047054b243992f0fad63d6f64f7544862daf846"
ANNOTATIONS_URL = f"https://raw.githubusercontent.com/RAIVNLab/sugar-crepe/{_REVISION}"
IMAGES_URL = "http://images.cocodataset.org/zips/val2017.zip"
_SCHEMA = {"filename": str, "caption": str, "negative_caption": str}
# SHA-256 of each annotation file, by its path in the repository at _REVISION.
SHA256 = {
    "data/add_att.json": "012d88d729693d193760e6f3393b06a1cf874380a9db0062e937201199fe044d",
    "data/add_obj.json": "1b9d76b93139a937b8dc1ada92a4f05ecc821bb3c291d752428bafadd4bb0682",
    "data/replace_att.json": "9fe55fd4c0a9ad1f85d486d9f6d0215b41f867eb025026e7f7b5ce44352545ee",
    "data/replace_obj.json": "9d299600639947e9d15281a9ded1382b376cf4ea088a8d08a1314bfe76e81898",
    "data/replace_rel.json": "356bcc2fc4c6aed3f4d9fd50acc58489bb1fe70c28791f9368d4cbf9ea39cdc9",
    "data/swap_att.json": "7a7ce04e5c4c80412b48c6f0c1347fb1a2f5d54c0be6aa429b64d390e442f8d0",
    "data/swap_obj.json": "073cdb8e253d053614e80710834d9773b09dbc1dd0a412f6f9492262caa1dcad",
    "data_unrefined/add_att.json": "401b3cf733fbd60d320fddca5b9ae885a80ea6820214f87b9efed7cc4e2ff301",
    "data_unrefined/add_obj.json": "bcd78d6731a3487a1ee2738a4ac266ff8fbd88b81e975a019806834238e84e72",
    "data_unrefined/replace_att.json": "d5f896cef711e8cd2745d1176fe1a229e49fd51fc9916604f8ef3dace3c68b99",
    "data_unrefined/replace_obj.json": "8af5cd99d68fd17f09788e681800b110de033b0a4c766af71bbc8a187d004bbe",
    "data_unrefined/replace_rel.json": "87756b26357f55591240570d4acda940a8e81c8b136e31cd873a76fc1f1a9b5f",
    "data_unrefined/swap_att.json": "e0d58c20d27fa25ef4025e2fc576c4ffbceca136911142090e3e87e25d5954ce",
    "data_unrefined/swap_obj.json": "11dcaa28e5ce98f50aae17cffafdcee6fd10ee057ede6782a1120b9af5e34d8d",
}


class SugarCrepe(SourceBuilder):
    """Fourteen configurations, one split `test`; the card has the columns and the layout of `data_dir`.

    Images that are not local do not stream (NotImplementedError).
    """

    config: VerifiedConfig
    BUILDER_CONFIG_CLASS = VerifiedConfig
    IS_DOWNLOADED = True
    BUILDER_CONFIGS: ClassVar = make_configs(VerifiedConfig, "SugarCrepe", CONFIG_NAMES)

    def _columns(self) -> dict[str, Any]:
        return columns("id category image filename caption negative_caption")

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        payload, origin = annotation_file(self.config.name).read(self._folder, dl_manager, verify=self.config.verify)
        entries = parse_json(payload, origin, dict)
        rows = check_rows(((f"key {key!r}", row) for key, row in entries.items()), _SCHEMA, origin, _problem)
        common = {"category": self.config.name.removeprefix(_UNREFINED)}
        return [{"id": f"{self.config.name}/{key}", **common, **row} for key, row in zip(entries, rows, strict=True)]

    def _find_images(self, dl_manager: Any, rows: list[Row]) -> ImagePaths:
        names, where = dict.fromkeys(row["filename"] for row in rows), str(self._folder)
        folders = [] if self._folder is None else [self._folder / place for place in ("val2017", "images/val2017", ".")]
        images = find_images(names, folders)
        if not any(images.values()) and not any(folder.is_dir() for folder in folders[:-1]):
            remedy = "pass data_dir, a folder that holds val2017/, or with_images=False"
            if dl_manager.is_streaming:
                raise NotImplementedError(f"The images do not stream from {IMAGES_URL}. Do not stream, or {remedy}.")
            archive = Path(download(dl_manager, IMAGES_URL, remedy, extract=True))
            images, where = find_images(names, [archive / "val2017"]), f"the archive {IMAGES_URL}"
        return self._require_images(rows, images, where, f"Put them into val2017/ of data_dir ({IMAGES_URL})")


def annotation_file(config_name: str) -> SourceFile:
    """The file of a configuration."""
    category = config_name.removeprefix(_UNREFINED)
    name = f"data/{category}.json" if category == config_name else f"data_unrefined/{category}.json"
    places = (f"{category}.json",) if category == config_name else ()
    return SourceFile(name, places, f"{ANNOTATIONS_URL}/{name}", f"sha256:{SHA256[name]}")


def _problem(row: Row) -> str | None:
    return None if is_file_name(row["filename"]) else f"filename {row['filename']!r} is not a bare file name"
