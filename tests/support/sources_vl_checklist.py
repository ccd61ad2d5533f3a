"""Small source files of VL-CheckList, in the layout of its repository and of its images."""

import json

from noise import write_noise

# Every file that the authors' corpus/v1 lists, written out.
FILES = (
    *(f"Attribute/{s}/{k}.json" for k in ("action", "color", "material", "size", "state") for s in ("vg", "vaw")),
    *(f"Object/Location/hake_location/hake_obj_{part}.json" for part in ("center", "mid", "margin")),
    *(
        f"Object/Location/vg_location/vg_{w}_{part}.json"
        for w in ("obj", "subj")
        for part in ("center", "mid", "margin")
    ),
    *(
        f"Object/Location/swig_location/swig_{role}/swig_{role}_{part}.json"
        for role in ("agent", "destination", "item", "tool")
        for part in ("center", "mid", "margin")
    ),
    *(f"Object/Size/hake_size/hake_obj_{part}.json" for part in ("large", "medium", "small")),
    *(f"Object/Size/vg_size/vg_{w}_{part}.json" for w in ("obj", "subj") for part in ("large", "medium", "small")),
    *(
        f"Object/Size/swig_size/swig_{role}/swig_{role}_{part}.json"
        for role in ("agent", "destination", "item", "tool")
        for part in ("large", "medium", "small")
    ),
    "Relation/vg/action.json",
    "Relation/vg/spatial.json",
    "Relation/swig_action.json",
    "Relation/hake_action.json",
)
IMAGES = {
    "vg": ("VG_100K/11.jpg", "VG_100K_2/12.jpg"),
    "swig": ("dialing_8.jpg", "gluing_188.jpg"),
    "hake": ("openimages/00fcb869b694ae8e.jpg", "hico_20160224_det/images/test2015/HICO_test2015_00000001.jpg"),
}
PLACES = {"data": (".",), **{root: (f"images/{root}", ".") for root in IMAGES}}


def root_of(file):
    """The folder of images that an annotation file is about; those of VAW are Visual Genome's."""
    return next(name for name in ("hake", "swig", "vg") if name in file.replace("vaw", "vg"))


def rows_of(file):
    """Three rows, two of them with the same image; a second text in a list is not used."""
    first, second = IMAGES[root_of(file)]
    name = file.removesuffix(".json").replace("/", " ")
    return [
        [first, {"POS": [f"brown knob of {name}", "unused"], "NEG": [f"teal knob of {name}"]}],
        [second, {"POS": [f"metal fence of {name}"], "NEG": [f"wooden fence of {name}", "unused"]}],
        [first, {"POS": [f"man ON horse of {name}"], "NEG": [f"man under horse of {name}"]}],
    ]


def write_annotations(folder, files=FILES):
    for file in files:
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rows_of(file)), encoding="utf-8")


def make(folder):
    write_annotations(folder / "data")
    write_noise([folder / root / name for root, names in IMAGES.items() for name in names], 24, 32)
    return {}
