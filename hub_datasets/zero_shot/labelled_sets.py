"""The labelled sets: ImageNet, those of VTAB (Zhai et al. 2019) with CIFAR-10, and any folder of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class LabelledSet:
    """A set of images with a class each.

    Args:
        title: its name.
        url: where to get it.
        templates: the name of its templates in ``templates.TEMPLATES``.
        are_numbers: whether a number may be the name of a class; elsewhere it is a code that says nothing in a prompt.
        names: better names of classes than those that its copies have.
    """

    title: str
    url: str
    templates: str = "photo"
    are_numbers: bool = False
    names: Mapping[str, str] = field(default_factory=dict)


_VTAB = "https://github.com/google-research/task_adaptation"

SETS: dict[str, LabelledSet] = {
    "imagenet": LabelledSet("ImageNet-1k (validation)", "https://www.image-net.org/download.php", "imagenet"),
    "cifar10": LabelledSet("CIFAR-10", "https://www.cs.toronto.edu/~kriz/cifar.html", "cifar"),
    "cifar100": LabelledSet("CIFAR-100", "https://www.cs.toronto.edu/~kriz/cifar.html", "cifar"),
    "caltech101": LabelledSet(
        "Caltech-101",
        "https://data.caltech.edu/records/mzrjq-6wc02",
        "caltech101",
        names={"BACKGROUND_Google": "background", "Faces_easy": "face", "Faces": "face off centre"},
    ),
    "dtd": LabelledSet("Describable Textures", "https://www.robots.ox.ac.uk/~vgg/data/dtd/", "dtd"),
    "flowers": LabelledSet("Oxford Flowers 102", "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/", "flowers"),
    "pets": LabelledSet("Oxford-IIIT Pets", "https://www.robots.ox.ac.uk/~vgg/data/pets/", "pets"),
    "svhn": LabelledSet("Street View House Numbers", "http://ufldl.stanford.edu/housenumbers/", "svhn", True),
    "sun397": LabelledSet("SUN397", "https://vision.princeton.edu/projects/2010/SUN/", "sun397"),
    "patch_camelyon": LabelledSet("PatchCamelyon", "https://github.com/basveeling/pcam", "patch_camelyon"),
    "eurosat": LabelledSet(
        "EuroSAT",
        "https://github.com/phelber/EuroSAT",
        "eurosat",
        names={
            "AnnualCrop": "annual crop land",
            "HerbaceousVegetation": "herbaceous vegetation land",
            "Industrial": "industrial buildings",
            "PermanentCrop": "permanent crop land",
            "Residential": "residential buildings",
            "SeaLake": "sea or lake",
        },
    ),
    "resisc45": LabelledSet("RESISC45", "https://gcheng-nwpu.github.io/", "resisc45"),
    "diabetic_retinopathy": LabelledSet(
        "Diabetic Retinopathy", "https://www.kaggle.com/c/diabetic-retinopathy-detection", "diabetic_retinopathy"
    ),
    "clevr_count": LabelledSet("CLEVR, number of objects", _VTAB, "clevr_count", True),
    "clevr_distance": LabelledSet("CLEVR, distance of the closest object", _VTAB, "clevr_distance"),
    "dmlab": LabelledSet("DMLab", _VTAB, "name"),
    "kitti": LabelledSet("KITTI, distance of the closest vehicle", _VTAB, "name"),
    "dsprites_location": LabelledSet("dSprites, horizontal place", _VTAB, "location", True),
    "dsprites_orientation": LabelledSet("dSprites, orientation", _VTAB, "angle"),
    "smallnorb_azimuth": LabelledSet("SmallNORB, azimuth", _VTAB, "angle"),
    "smallnorb_elevation": LabelledSet("SmallNORB, elevation", _VTAB, "angle"),
    # Any set of the user's own.
    "folder": LabelledSet("labelled images", "https://huggingface.co/docs/datasets/image_dataset", are_numbers=True),
}
# Twenty as in Hard Positives, Table 10: the nineteen of VTAB, and CIFAR-10, which may be its twentieth.
VTAB = tuple(name for name in SETS if name not in ("imagenet", "folder"))
