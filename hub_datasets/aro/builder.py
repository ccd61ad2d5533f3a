"""ARO (Yuksekgonul et al., ICLR 2023) as a `datasets` builder, from the user's own copy of its sources.

A row is one image-to-text test. `vg_relation` and `vg_attribution` show a photograph of Visual Genome: a caption
describes what is in its box, and in another the two objects of a relation, or the attributes of two objects, are
exchanged. `coco_order` and `flickr30k_order` show a photograph of COCO or Flickr30k: four captions have the words of
the right one in another order.

The module imports only the standard library, `datasets` and its siblings, one import a line, so that `datasets` up to
3.6 can run it as a script and any later version can import the class. What shuffles captions is imported by the order
configurations alone, when they are built.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import ClassVar

import datasets

from .karpathy import Entry
from .karpathy import SOURCES
from .karpathy import URL
from .karpathy import check_seed
from .karpathy import check_switches
from .karpathy import find_annotations
from .karpathy import find_folder
from .karpathy import find_images as find_photographs
from .karpathy import load_authoring
from .karpathy import read_entries
from .order import SOURCE_NAMES
from .order import order_rows
from .release import annotation_file
from .release import crop
from .release import crop_name
from .release import find_images
from .release import read_bytes
from .release import read_rows

_VERSION = "1.0.0"
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
} | {
    config: {
        "image": datasets.Image(),
        "filename": _TEXT,
        "caption": _TEXT,
        "negative_captions": [_TEXT],
        "perturbations": [_TEXT],
        "testable": datasets.Value("bool"),
        "text_index": datasets.Value("int32"),
        "released_text": _TEXT,
        "seed": datasets.Value("int64"),
        "tagger": _TEXT,
    }
    for config in SOURCE_NAMES
}
CONFIG_NAMES = tuple(_COLUMNS)


@dataclass
class AROConfig(datasets.BuilderConfig):
    """One part of ARO, what its images show, and how strict to be about the user's files in `data_dir`.

    | field           | True                                          | False                                  |
    |-----------------|-----------------------------------------------|----------------------------------------|
    | `crop`          | the part of the image in the row's box, a PNG | the whole image, bytes as in the file  |
    | `with_images`   | column `image`                                | no column `image`, no image looked for |
    | `allow_missing` | a row whose image is missing has image None   | a missing image is an error            |
    | `verify`        | a file must have as many rows as the release, | any well-formed file is accepted       |
    |                 | and its checksum where one is published       |                                        |

    Four more are for the order configurations, which have no use for `crop`: another `seed`, any whole number, makes
    another set of permutations; `tagger` tells nouns and adjectives from the rest, "spacy", "plain" (which comes with
    the package) or "auto", spaCy where it is installed and else "plain"; `units` are what is permuted, "words" without
    their punctuation or, as in the authors' code, "tokens", punctuation among them; and `allow_identity` says whether
    a permutation that changes nothing may be drawn, True in the authors' code.
    """

    crop: bool = True
    with_images: bool = True
    allow_missing: bool = False
    verify: bool = True
    seed: int = 0
    tagger: str = "auto"
    units: str = "words"
    allow_identity: bool = False


class ARO(datasets.GeneratorBasedBuilder):
    """Four configs, one split `test`; see `AROConfig` for the options and the card for the columns.

    `data_dir` is the user's own copy. It holds, for

    - `vg_relation` and `vg_attribution`: `visual_genome_relation.json` or `visual_genome_attribution.json`, and the
      images as `images/<filename>` or `<filename>`;
    - `coco_order`: COCO's photographs as `val2014/<filename>`, `images/val2014/<filename>` or `<filename>`, and
      perhaps `coco_karpathy_test.json`, which is downloaded otherwise;
    - `flickr30k_order`: the same with `flickr30k-images` and `flickr30k_test.json`.

    Everything but the content of image files is checked before the first row is written. Raises FileNotFoundError for a
    `data_dir` that is needed and not given or not a folder, and for missing files and images; ValueError for a
    malformed file of rows, one that is not the released one, and, with `crop`, for a file that is no image;
    ConnectionError for a failed download; ImportError where an order configuration is built without this package.
    """

    config: AROConfig
    BUILDER_CONFIG_CLASS = AROConfig
    BUILDER_CONFIGS: ClassVar[list[datasets.BuilderConfig]] = [
        AROConfig(name=name, version=datasets.Version(_VERSION), description=f"ARO {name}") for name in CONFIG_NAMES
    ]

    def _info(self) -> datasets.DatasetInfo:
        columns = {"id": _TEXT, **_COLUMNS[self.config.name]}
        if not self.config.with_images:
            del columns["image"]
        return datasets.DatasetInfo(features=datasets.Features(columns))

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        gen_kwargs = self._order(dl_manager) if self.config.name in SOURCE_NAMES else self._visual_genome()
        return [datasets.SplitGenerator(name="test", gen_kwargs=gen_kwargs)]

    def _visual_genome(self) -> dict[str, Any]:
        """Return the rows and the images of relations or attributes; `datasets` deals a list out to processes."""
        config = self.config
        path = annotation_file(config.name, config.data_dir)
        rows = read_rows(config.name, path, verify=config.verify)
        images = None
        if config.with_images:
            images = find_images(config.name, rows, path.parent, allow_missing=config.allow_missing)
        return {"rows": rows, "images": images}

    def _order(self, dl_manager: datasets.DownloadManager) -> dict[str, Any]:
        """Return the entries and the images of COCO or Flickr30k; `datasets` deals a list out to processes."""
        config = self.config
        source = SOURCES[SOURCE_NAMES[config.name]]
        check_seed(config.seed)
        check_switches(allow_identity=config.allow_identity)
        shuffler = load_authoring()
        # Refuses an unknown tagger or kind of units now.
        shuffler.perturb([], shuffler.SHUFFLES, tagger=config.tagger, units=config.units)
        folder = find_folder(config.name, source, config.data_dir, with_images=config.with_images)
        origin = copy = find_annotations(source, folder)
        if origin.startswith(URL):
            copy = _download(dl_manager, origin)
        entries = read_entries(source, _read(Path(copy)), origin, verify=config.verify)
        images = None
        if config.with_images and folder is not None:
            images = find_photographs(config.name, source, entries, folder, allow_missing=config.allow_missing)
        return {"rows": entries, "images": images}

    def _generate_examples(
        self, rows: list[dict[str, Any]], images: dict[str, str | None] | None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (id, row). `images` maps a file name to its path, None where missing; None for no column."""
        is_order = self.config.name in SOURCE_NAMES
        for row in self._order_rows(rows, images) if is_order else self._visual_genome_rows(rows, images):
            yield row["id"], row

    def _visual_genome_rows(
        self, rows: list[dict[str, Any]], images: dict[str, str | None] | None
    ) -> Iterator[dict[str, Any]]:
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
            yield example

    def _order_rows(self, entries: list[Entry], images: dict[str, str | None] | None) -> Iterator[dict[str, Any]]:
        # The captions of one image follow each other: its file is read once.
        read = functools.lru_cache(1)(read_bytes)
        config = self.config
        how = {"units": config.units, "allow_identity": config.allow_identity}
        for row in order_rows(config.name, entries, config.seed, config.tagger, **how):
            if images is not None:
                path = images[row["filename"]]
                row["image"] = None if path is None else {"path": row["filename"], "bytes": read(Path(path))}
            yield row


def _download(dl_manager: datasets.DownloadManager, url: str) -> str:
    try:
        return str(dl_manager.download(url))
    except Exception as error:  # The HTTP libraries below raise errors without a common base class.
        raise ConnectionError(
            f"Could not download {url} ({type(error).__name__}: {error}). Try again, or put the file into data_dir."
        ) from error


def _read(path: Path) -> bytes:
    # In this module, and not `read_bytes`: when streaming, `datasets` gives it a Path whose `open` reads remote files.
    with path.open("rb") as file:
        return file.read()
