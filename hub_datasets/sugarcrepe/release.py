"""SugarCrepe's release: its files, their checksums and their rows; the benchmarks on the same captions use it too."""

from __future__ import annotations

from ..sources.builders import Images
from ..sources.image_archives import COCO_VAL2017
from ..sources.source_files import SourceFile
from .v2 import NAME

CATEGORIES = ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
UNREFINED = "unrefined_"
CONFIG_NAMES = (*CATEGORIES, NAME, *(UNREFINED + category for category in CATEGORIES))

_REVISION = "0047054b243992f0fad63d6f64f7544862daf846"
ANNOTATIONS_URL = f"https://raw.githubusercontent.com/RAIVNLab/sugar-crepe/{_REVISION}"
SCHEMA = {"filename": str, "caption": str, "negative_caption": str}
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

IMAGES = Images(
    ("val2017", "images/val2017"), f"Put them into val2017/ of data_dir ({COCO_VAL2017.url})", (COCO_VAL2017,)
)


def annotation_file(config_name: str) -> SourceFile:
    """Return the file of a configuration."""
    category = config_name.removeprefix(UNREFINED)
    name = f"data/{category}.json" if category == config_name else f"data_unrefined/{category}.json"
    places = (f"{category}.json",) if category == config_name else ()
    return SourceFile(name, places, f"{ANNOTATIONS_URL}/{name}", f"sha256:{SHA256[name]}")
