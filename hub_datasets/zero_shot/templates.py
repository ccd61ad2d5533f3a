"""Prompt templates: sentences in which ``{}`` is the name of a class.

Those of ImageNet, CIFAR, Caltech101, DTD, EuroSAT, Flowers, Pets and SUN397 are CLIP's (github.com/openai/CLIP,
data/prompts.md and notebooks/Prompt_Engineering_for_ImageNet.ipynb; MIT licence, Copyright (c) 2021 OpenAI);
"imagenet7" are the seven that its authors select from the eighty. Those of SVHN, RESISC45, PatchCamelyon, CLEVR and the
sets with angles, distances and locations are CLIP_benchmark's (github.com/LAION-AI/CLIP_benchmark, MIT licence), as
they are spelled there. As the embeddings of a class are averaged, the order of templates changes nothing.
"""

from __future__ import annotations

from pathlib import Path

from ...metrics.common.errors import DataError
from ..core.source_files import read_bytes

FILE = "templates.txt"
_ARTICLES = ("a", "the")
_MADE_OF = ("painting", "sculpture", "sketch", "tattoo", "rendition", "drawing", "doodle")
_MADE = ("plastic", "toy", "embroidered", "cartoon", "plushie", "origami")
_VIEWS = ("blurry ", "black and white ", "low contrast ", "high contrast ", "bad ", "good ")
_IMAGENET_VIEWS = (
    *("bad", "low resolution", "cropped", "bright", "dark", "close-up", "black and white", "pixelated"),
    *("jpeg corrupted", "blurry", "good"),
)
_IMAGENET_OBJECTS = ("hard to see", "clean", "dirty", "large", "small", "nice", "weird", "cool")
_ANGLES = ("an object rotated at {}", "something rotated at {}", "{} rotation", "something at a {} angle")


def _pictures(article: str) -> tuple[str, ...]:
    """What ImageNet and Caltech101 have in common: an object in photographs, works of art and toys."""
    return (
        f"a photo of {article} {{}}.",
        *(f"a {what} of {article} {{}}." for what in _MADE_OF),
        *(f"{what} of {article} {{}}." for what in ("art", "graffiti")),
        *(f"{article} {what} {{}}." for what in _MADE),
        f"{article} {{}} in a video game.",
    )


def _imagenet(article: str) -> tuple[str, ...]:
    return (
        *_pictures(article),
        f"a rendering of {article} {{}}.",
        f"itap of {article} {{}}.",
        *(f"a {view} photo of {article} {{}}." for view in _IMAGENET_VIEWS),
        *(f"a photo of {article} {what} {{}}." for what in _IMAGENET_OBJECTS),
    )


def _cifar(article: str) -> tuple[str, ...]:
    sizes = tuple(f"a photo of {article} {size}{{}}." for size in ("", "small ", "big "))
    return (*sizes, *(f"a {view}photo of {article} {{}}." for view in _VIEWS))


TEMPLATES: dict[str, tuple[str, ...]] = {
    "photo": ("a photo of a {}.",),
    "imagenet": (
        *(each for article in _ARTICLES for each in _imagenet(article)),
        *("a photo of many {}.", "a photo of my {}.", "a photo of one {}.", "itap of my {}."),
    ),
    "imagenet7": (
        *("itap of a {}.", "a bad photo of the {}.", "a origami {}.", "a photo of the large {}."),
        *("a {} in a video game.", "art of the {}.", "a photo of the small {}."),
    ),
    "cifar": tuple(each for article in _ARTICLES for each in _cifar(article)),
    "caltech101": tuple(each for article in _ARTICLES for each in _pictures(article)),
    "dtd": tuple(
        f"a photo of {article} {{}} {what}."
        for article in _ARTICLES
        for what in ("texture", "pattern", "thing", "object")
    ),
    "eurosat": (
        *("a centered satellite photo of {}.", "a centered satellite photo of a {}."),
        "a centered satellite photo of the {}.",
    ),
    "flowers": ("a photo of a {}, a type of flower.",),
    "pets": ("a photo of a {}, a type of pet.",),
    "sun397": ("a photo of a {}.", "a photo of the {}."),
    "svhn": (
        *("a photo of the number {} written on a sign", "an outdoor house number {}"),
        *("the number {} in the center of the image", "an outdoor number {} writte on a sign"),
        *("an outdoor number {}", "a centered image of the number {}"),
    ),
    "resisc45": ("a sattelite image of {}", "an aerial view of {}", "a sattelite photo of {}", "{} from above"),
    "patch_camelyon": ("a histopathology slide showing {}", "histopathology image of {}"),
    "diabetic_retinopathy": ("a retinal image with {}",),
    "clevr_count": ("a picture of {} objects",),
    "clevr_distance": ("{} shapes.",),
    "name": ("{}",),
    "angle": _ANGLES,
    "location": ("an object located at position {}% on the horizontal axis",),
    "shapes": ("a small {}", "a big {}"),
}


def choose_templates(default: str, chosen: str, folder: Path | None) -> tuple[str, ...]:
    """The templates of a set: those that an option chooses, or of a file in the user's folder, or the set's own.

    Args:
        default: the set's own, a name in `TEMPLATES`.
        chosen: a name in `TEMPLATES`, or templates separated by ``|``; empty for no choice.
        folder: where `FILE` may be, with a template in each line.

    Raises:
        DataError: no template, one without ``{}``, or one that comes twice.

    >>> choose_templates("pets", "a {}|one {}", None)
    ('a {}', 'one {}')
    """
    path = None if folder is None else folder / FILE
    if chosen:
        found, origin = TEMPLATES.get(chosen) or tuple(chosen.split("|")), f"the option templates={chosen!r}"
    elif path is not None and path.is_file():
        lines = read_bytes(path).decode("utf-8", errors="replace").splitlines()
        found, origin = tuple(line.strip() for line in lines if line.strip()), str(path)
    else:
        return TEMPLATES[default]
    if not found or any("{}" not in each for each in found):
        raise DataError(
            f"{origin} has a template without {{}}, where the name of the class goes. Expected for example "
            f"'a photo of a {{}}.', several in an option separated by |; or one of {', '.join(TEMPLATES)}."
        )
    if len(set(found)) < len(found):
        raise DataError(f"{origin} has the template {max(found, key=found.count)!r} twice; give each of them once.")
    return found
