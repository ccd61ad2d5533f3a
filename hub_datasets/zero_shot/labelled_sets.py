"""The labelled sets, and the templates that turn the name of a class into prompts.

The templates of ImageNet, CIFAR, Caltech101, DTD, Flowers, Pets, SVHN, SUN397, EuroSAT, RESISC45, PatchCamelyon and
CLEVR are from CLIP's prompts (github.com/openai/CLIP, notebooks and data/prompts.md; MIT licence, Copyright (c) 2021
OpenAI): for ImageNet the seven that its authors recommend, for the others all or the first. The rest is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_PHOTO = ("a photo of a {}.",)
_VIEWS = ("", "blurry ", "black and white ", "low contrast ", "high contrast ", "bad ", "good ")

TEMPLATES: dict[str, tuple[str, ...]] = {
    "photo": _PHOTO,
    "imagenet": (
        "itap of a {}.",
        "a bad photo of the {}.",
        "a origami {}.",
        "a photo of the large {}.",
        "a {} in a video game.",
        "art of the {}.",
        "a photo of the small {}.",
    ),
    "cifar": tuple(
        f"a {view}photo of {article} {size}{{}}."
        for article in ("a", "the")
        for view, size in (*((view, "") for view in _VIEWS), ("", "small "), ("", "big "))
    ),
    "caltech101": ("a photo of a {}.", "a photo of the {}.", "a painting of a {}.", "a sketch of a {}."),
    "dtd": tuple(
        f"a photo of {article} {{}} {what}."
        for article in ("a", "the")
        for what in ("texture", "pattern", "thing", "object")
    ),
    "flowers": ("a photo of a {}, a type of flower.",),
    "pets": ("a photo of a {}, a type of pet.",),
    "svhn": ('a photo of the number: "{}".',),
    "sun397": ("a photo of a {}.", "a photo of the {}."),
    "eurosat": (
        "a centered satellite photo of {}.",
        "a centered satellite photo of a {}.",
        "a centered satellite photo of the {}.",
    ),
    "resisc45": ("satellite imagery of {}.", "aerial imagery of {}.", "satellite photo of {}.", "aerial photo of {}."),
    "patch_camelyon": ("this is a photo of {}",),
    "clevr_count": ("a photo of {} objects.",),
    "phrase": ("a picture of {}.",),
    "shapes": ("a {}",),
}


@dataclass(frozen=True)
class LabelledSet:
    """A set of images with a class each.

    Args:
        title: its name.
        url: where to get it.
        templates: the name of its templates.
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
        "Diabetic Retinopathy", "https://www.kaggle.com/c/diabetic-retinopathy-detection", "phrase"
    ),
    "clevr_count": LabelledSet("CLEVR, number of objects", _VTAB, "clevr_count", True),
    "clevr_distance": LabelledSet("CLEVR, distance of the closest object", _VTAB, "phrase"),
    "dmlab": LabelledSet("DMLab", _VTAB, "phrase"),
    "kitti": LabelledSet("KITTI, distance of the closest vehicle", _VTAB, "phrase"),
    "dsprites_location": LabelledSet("dSprites, horizontal place", _VTAB, "phrase"),
    "dsprites_orientation": LabelledSet("dSprites, orientation", _VTAB, "phrase"),
    "smallnorb_azimuth": LabelledSet("SmallNORB, azimuth", _VTAB, "phrase"),
    "smallnorb_elevation": LabelledSet("SmallNORB, elevation", _VTAB, "phrase"),
    # Any set of the user's own.
    "folder": LabelledSet("labelled images", "https://huggingface.co/docs/datasets/image_dataset", are_numbers=True),
}


def templates_of(name: str, chosen: str) -> tuple[str, ...]:
    """The templates of a set, or those that an option chooses: a name in `TEMPLATES`, or texts separated by ``|``.

    Raises:
        ValueError: neither; or a template without ``{}``, or one that comes twice.

    >>> templates_of("pets", "a {}|one {}")
    ('a {}', 'one {}')
    """
    if not chosen:
        return TEMPLATES[SETS[name].templates if name in SETS else name]
    if chosen in TEMPLATES:
        return TEMPLATES[chosen]
    found = tuple(chosen.split("|"))
    if any("{}" not in each for each in found):
        raise ValueError(
            f"templates is {chosen!r}, which has no {{}} for the class, as in 'a photo of a {{}}.|art of the {{}}.', and "
            f"is none of {', '.join(TEMPLATES)}."
        )
    if len(set(found)) < len(found):
        raise ValueError(f"templates is {chosen!r}, where a template comes twice; give each of them once.")
    return found
