"""Prompt templates: sentences in which ``{}`` is the name of a class, in ``templates.json``.

Those of ImageNet, CIFAR, Caltech101, DTD, EuroSAT, Flowers, Pets and SUN397 are CLIP's (github.com/openai/CLIP,
data/prompts.md and notebooks/Prompt_Engineering_for_ImageNet.ipynb; MIT licence, Copyright (c) 2021 OpenAI);
"imagenet7" are the seven that its authors select from the eighty. Those of SVHN, RESISC45, PatchCamelyon, CLEVR and the
sets with angles, distances and locations are CLIP_benchmark's (github.com/LAION-AI/CLIP_benchmark, MIT licence), as
they are spelled there. As the embeddings of a class are averaged, the order of templates changes nothing.
"""

from __future__ import annotations

import json
from pathlib import Path

from ...metrics.common.errors import DataError
from ..sources.source_files import read_lines

FILE = "templates.txt"
TEMPLATES: dict[str, list[str]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def choose_templates(default: str, chosen: str, folder: Path | None) -> list[str]:
    """Return the templates that an option chooses, or of a file in the user's folder, or the set's own.

    Args:
        default: the set's own, a name in `TEMPLATES`.
        chosen: a name in `TEMPLATES`, or templates separated by ``|``; empty for no choice.
        folder: where `FILE` may be, with a template in each line.

    Raises:
        DataError: no template, one without ``{}``, or one that comes twice.

    >>> choose_templates("pets", "a {}|one {}", None)
    ['a {}', 'one {}']
    """
    path = None if folder is None else folder / FILE
    if chosen:
        templates, origin = TEMPLATES.get(chosen) or chosen.split("|"), f"the option templates={chosen!r}"
    elif path is not None and path.is_file():
        templates, origin = read_lines(path), str(path)
    else:
        return TEMPLATES[default]
    if not templates or any("{}" not in template for template in templates):
        raise DataError(
            f"{origin} has a template without {{}}, where the name of the class goes. Expected for example "
            f"'a photo of a {{}}.', several in an option separated by |; or one of {', '.join(TEMPLATES)}."
        )
    if len(set(templates)) < len(templates):
        raise DataError(
            f"{origin} has the template {max(templates, key=templates.count)!r} twice; give each of them once."
        )
    return templates
