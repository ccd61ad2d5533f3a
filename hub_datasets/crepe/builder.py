"""CREPE (Ma et al., CVPR 2023) as a `datasets` builder, from the user's own copy of the authors' release.

A row is a part of a photograph of Visual Genome, the caption that describes it, and hard negatives: captions that do
not. The text is exactly as released. The repository states no licence, so nothing of it comes with this module and
nothing is downloaded.

The module imports only the standard library, `datasets` and its sibling, one import a line, so that `datasets` up to
3.6 can run it as a script and any later version can import the class.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import ClassVar

import datasets

from .release import PRODUCTIVITY
from .release import SOURCE
from .release import SYSTEMATICITY
from .release import annotation_files
from .release import crop
from .release import crop_name
from .release import find_images
from .release import read_bytes
from .release import read_rows

CONFIG_NAMES = (*PRODUCTIVITY, *SYSTEMATICITY)
# With these there is nothing to rank.
_UNRANKED = {"blank_caption", "no_negatives"}
_VERSION = "1.0.0"


@dataclass
class CREPEConfig(datasets.BuilderConfig):
    """One part of CREPE, what its images show, and what to do where one is missing.

    | field           | True                                          | False                                  |
    |-----------------|-----------------------------------------------|----------------------------------------|
    | `crop`          | the part of the image in the row's box, a PNG | the whole image, bytes as in the file  |
    | `with_images`   | column `image`                                | no column `image`, no image looked for |
    | `allow_missing` | a row whose image is missing has image None   | a missing image is an error            |

    A file without columns for the box gives whole images whatever `crop` says, and `bbox` is None.
    """

    crop: bool = True
    with_images: bool = True
    allow_missing: bool = False


class CREPE(datasets.GeneratorBasedBuilder):
    """Twelve configs; see `CREPEConfig` for the options.

    `data_dir` is the user's own copy of the release, unpacked; nothing is downloaded. It holds
    `prod_hard_negatives/<atom, swap or negate>/*.csv` and `syst_hard_negatives/*.csv`, or these in `data/`, or the
    files directly; and the images of Visual Genome in `VG_100K/` and `VG_100K_2/`, in these inside `images/`, in
    `images/` or directly.

    A row has `id` (config name, "/", category, "/", the row's place in its file, from 0), `category` (the complexity,
    "4" to "12", or "seen_compounds" and "unseen_compounds"), `image`, `filename`, `caption`, `hard_negatives` (a list,
    not always of one length), `bbox` (x, y, width and height in pixels of the whole image, or None), `defects` and, of
    productivity, `complexity` as a number. `defects` is a list of:

    - "no_negatives", "blank_caption": there is nothing to rank;
    - "same_text": a negative is the caption;
    - "repeated_negative": two negatives are the same;
    - "blank_negative": a negative without a text.

    The split `test` has the rows that can be ranked. Those with nothing to rank make the split `unranked`, which is
    there only where there are such rows.

    Everything but the content of image files is checked before the first row is written. Raises FileNotFoundError for a
    `data_dir` that is not given or not a folder, and for missing files and images; ValueError for a malformed file of
    rows and, with `crop`, for a file that is no image.
    """

    config: CREPEConfig
    BUILDER_CONFIG_CLASS = CREPEConfig
    BUILDER_CONFIGS: ClassVar[list[datasets.BuilderConfig]] = [
        CREPEConfig(name=name, version=datasets.Version(_VERSION), description=f"CREPE {name}") for name in CONFIG_NAMES
    ]

    def _info(self) -> datasets.DatasetInfo:
        text = datasets.Value("string")
        columns: dict[str, Any] = {"id": text, "category": text}
        if self.config.with_images:
            columns["image"] = datasets.Image()
        columns |= {"filename": text, "caption": text, "hard_negatives": [text], "bbox": [datasets.Value("float32")]}
        if self.config.name in PRODUCTIVITY:
            columns["complexity"] = datasets.Value("int32")
        columns["defects"] = [text]
        return datasets.DatasetInfo(features=datasets.Features(columns))

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        config = self.config
        folder = _existing_folder(config.name, config.data_dir)
        files = annotation_files(config.name, folder)
        rows = [row for part, path in files.items() for row in read_rows(config.name, part, path)]
        images = None
        if config.with_images:
            images = find_images(config.name, rows, folder, allow_missing=config.allow_missing)
        splits: dict[str, list[dict[str, Any]]] = {"test": [], "unranked": []}
        for row in rows:
            splits["unranked" if _UNRANKED & set(row["defects"]) else "test"].append(row)
        # A list is what `datasets` deals out to several processes.
        return [
            datasets.SplitGenerator(name=name, gen_kwargs={"rows": members, "images": images})
            for name, members in splits.items()
            if members or name == "test"
        ]

    def _generate_examples(
        self, rows: list[dict[str, Any]], images: dict[str, str | None] | None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (id, row). `images` maps a file name to its path, None where missing; None for no column."""
        for row in rows:
            example = dict(row)
            if images is not None:
                path, box = images[row["filename"]], row["bbox"]
                if path is None:
                    example["image"] = None
                elif self.config.crop and box is not None:
                    example["image"] = {"path": crop_name(row["filename"], tuple(box)), "bytes": crop(path, tuple(box))}
                else:
                    example["image"] = {"path": row["filename"], "bytes": read_bytes(Path(path))}
            yield example["id"], example


def _existing_folder(config_name: str, data_dir: str | None) -> Path:
    if not data_dir:
        raise FileNotFoundError(
            f"{config_name} is made from your own copy of CREPE, and no data_dir was given. Download the archives from "
            f"{SOURCE}, unpack them, and pass the folder that holds them as data_dir."
        )
    folder = Path(data_dir).expanduser().absolute()
    if not folder.is_dir():
        raise FileNotFoundError(f"data_dir {folder} is not a folder. Pass the one with CREPE's unpacked archives.")
    return folder
