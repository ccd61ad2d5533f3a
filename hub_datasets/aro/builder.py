"""ARO (Yuksekgonul et al., ICLR 2023) as a `datasets` builder, from the user's own copy of the authors' release.

A row is one image-to-text test on a photograph of Visual Genome: a caption that describes what is in its box, and the
same words with the two objects of a relation, or the attributes of two objects, exchanged.

The module imports only the standard library, `datasets` and its sibling, one import a line, so that `datasets` up to
3.6 can run it as a script and any later version can import the class.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets

from .release import annotation_file
from .release import crop
from .release import crop_name
from .release import find_images
from .release import read_bytes
from .release import read_rows

_VERSION = "1.0.0"
_HOMEPAGE = "https://github.com/mertyg/vision-language-models-are-bows"
_TEXT = datasets.Value("string")
# Rows of one box come together where a relation is asked both ways: a crop is drawn once for them.
_CROPS_KEPT = 32

# Order of columns within each configuration; every row starts with its id.
_COLUMNS: dict[str, dict[str, Any]] = {
    config: {
        "category": _TEXT,
        "image": datasets.Image(),
        "filename": _TEXT,
        "caption": _TEXT,
        "negative_caption": _TEXT,
        **labels,
        "bbox": [datasets.Value("float32")],
    }
    for config, labels in {"vg_relation": {"relation": _TEXT}, "vg_attribution": {"attributes": [_TEXT]}}.items()
}
CONFIG_NAMES = tuple(_COLUMNS)

_DESCRIPTION = """\
ARO asks whether a vision-language model knows which relation, attribute or word order a caption needs to be true of an
image: the model must prefer the caption over the same words with two objects or two attributes exchanged.
"""

_CITATION = """\
@inproceedings{yuksekgonul2023when,
  title     = {When and why vision-language models behave like bags-of-words, and what to do about it?},
  author    = {Yuksekgonul, Mert and Bianchi, Federico and Kalluri, Pratyusha and Jurafsky, Dan and Zou, James},
  booktitle = {The Eleventh International Conference on Learning Representations},
  year      = {2023}
}
"""


@dataclass
class AROConfig(datasets.BuilderConfig):
    """One part of ARO, what its images show, and how strict to be about the user's files in `data_dir`.

    | field           | True                                          | False                                  |
    |-----------------|-----------------------------------------------|----------------------------------------|
    | `crop`          | the part of the image in the row's box, a PNG | the whole image, bytes as in the file  |
    | `with_images`   | column `image`                                | no column `image`, no image looked for |
    | `allow_missing` | a row whose image is missing has image None   | a missing image is an error            |
    | `verify`        | a file must have as many rows as the release  | any well-formed file is accepted       |
    """

    crop: bool = True
    with_images: bool = True
    allow_missing: bool = False
    verify: bool = True


class ARO(datasets.GeneratorBasedBuilder):
    """Two configs, `vg_relation` and `vg_attribution`, one split `test`; see `AROConfig` for the options.

    `data_dir` is the user's own copy of the release; nothing is downloaded. It holds `visual_genome_relation.json` and
    `visual_genome_attribution.json`, and the images as `images/<filename>` or `<filename>`.

    A row has `id` (config name, "/", the row's place in the file, from 0), `category` (the relation, or the two
    attributes joined by " & "), `image`, `filename`, `caption`, `negative_caption`, `relation` or `attributes`, and
    `bbox` (x, y, width and height in pixels of the whole image, whatever `crop` says).

    Everything but the content of image files is checked before the first row is written. Raises FileNotFoundError for a
    `data_dir` that is not given or not a folder, and for missing files and images; ValueError for a malformed file of
    rows, one with another number of rows than the release, and, with `crop`, for a file that is no image.
    """

    config: AROConfig
    BUILDER_CONFIG_CLASS = AROConfig
    BUILDER_CONFIGS = [  # noqa: RUF012  (the base class declares it so)
        AROConfig(name=name, version=datasets.Version(_VERSION), description=f"ARO {name}") for name in CONFIG_NAMES
    ]

    def _info(self) -> datasets.DatasetInfo:
        columns = {"id": _TEXT, **_COLUMNS[self.config.name]}
        if not self.config.with_images:
            del columns["image"]
        return datasets.DatasetInfo(
            description=_DESCRIPTION,
            features=datasets.Features(columns),
            homepage=_HOMEPAGE,
            license="mit",
            citation=_CITATION,
        )

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        config = self.config
        path = annotation_file(config.name, config.data_dir)
        rows = read_rows(config.name, path, verify=config.verify)
        images = None
        if config.with_images:
            images = find_images(config.name, rows, path.parent, allow_missing=config.allow_missing)
        # A list is what `datasets` deals out to several processes.
        gen_kwargs = {"rows": rows, "images": images}
        return [datasets.SplitGenerator(name="test", gen_kwargs=gen_kwargs)]

    def _generate_examples(
        self, rows: list[dict[str, Any]], images: dict[str, str | None] | None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (id, row). `images` maps a file name to its path, None where missing; None for no column."""
        cropped = functools.lru_cache(_CROPS_KEPT)(crop)
        for row in rows:
            example = dict(row)
            if images is not None:
                path, box = images[row["filename"]], tuple(row["bbox"])
                if path is None:
                    example["image"] = None
                elif self.config.crop:
                    example["image"] = {"path": crop_name(row["filename"], box), "bytes": cropped(path, box)}
                else:
                    example["image"] = {"path": row["filename"], "bytes": read_bytes(Path(path))}
            yield example["id"], example
