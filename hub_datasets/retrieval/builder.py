"""Image-text retrieval on Karpathy's test splits of COCO and Flickr30k, also without order, as a `datasets` builder.

A row is an image with its captions. `coco` and `flickr30k` have them as released; in the other configurations the words
of the captions, or parts of the image, are in another order (ARO, Yuksekgonul et al., ICLR 2023, section 3.1).

What cleans and shuffles is imported by the configurations that need it, when they are built.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, ClassVar

import datasets

from ..core.crops import open_image, to_png
from ..core.source_files import ImagePaths, SourceBuilder, VerifiedConfig
from .karpathy import SOURCES, Entry, check_options, find_photographs, load_authoring, read_entries, source_folder

UNSHUFFLED = "none"
CLEANED = "cleaned"
# As in `vl_assay.hub_datasets.authoring.text.perturb`, which a script may not import.
TEXT_SHUFFLES = (
    "shuffle_nouns_and_adjectives",
    "shuffle_all_but_nouns_and_adjectives",
    "shuffle_within_trigrams",
    "shuffle_trigrams",
    "shuffle_all_words",
)
IMAGE_SHUFFLES = ("shuffle_rows_4", "shuffle_columns_4", "shuffle_patches_9")
CONDITIONS = (UNSHUFFLED, CLEANED, *TEXT_SHUFFLES, *IMAGE_SHUFFLES)
# The data set and the condition of each configuration.
PARTS = {
    (name if condition == UNSHUFFLED else f"{name}_{condition}"): (name, condition)
    for name in SOURCES
    for condition in CONDITIONS
}
CONFIG_NAMES = tuple(PARTS)

# Their captions are tagged together; more at a time saves nothing.
_IMAGES_AT_A_TIME = 50


@dataclass
class RetrievalConfig(VerifiedConfig):
    """What is shuffled, and how.

    | field           | True                                                 | False                        |
    |-----------------|------------------------------------------------------|------------------------------|
    | `allow_identity`| a permutation that changes nothing may be drawn      | it is excluded               |
    | `black_edges`   | pixels beyond the grid of an image shuffle are black | they stay as they are        |

    Another `seed`, any whole number, makes other permutations. `tagger` tells nouns and adjectives from the rest:
    "spacy", "plain" (which comes with the package) or "auto", spaCy if it is installed and else "plain". `units` are
    what is permuted: "words" without their punctuation, or "tokens", which include punctuation. The authors' code has
    ``units="tokens"``, ``allow_identity=True`` and ``black_edges=True``.
    """

    seed: int = 0
    tagger: str = "auto"
    units: str = "words"
    allow_identity: bool = False
    black_edges: bool = False


class Retrieval(SourceBuilder):
    """Twenty configurations, one split `test`: `PARTS` says what each shows; see the configuration for the options.

    `data_dir` is the user's own copy. For the configurations of COCO it holds the photographs as `val2014/<filename>`,
    `images/val2014/<filename>` or `<filename>`, and perhaps `coco_karpathy_test.json`, which is downloaded otherwise;
    for those of Flickr30k the same with `flickr30k-images` and `flickr30k_test.json`.

    A row has `id` (configuration, "/", the image's place in the file, from 0), `image`, `filename`, `captions`,
    `condition`, `seed`, `unchanged` (which captions the condition leaves as `cleaned` has them) and `tagger`. An image
    to be shuffled that cannot be decoded raises a ValueError, and a missing VL-Assay an ImportError.
    """

    config: RetrievalConfig
    BUILDER_CONFIG_CLASS = RetrievalConfig
    BUILDER_CONFIGS: ClassVar[list[datasets.BuilderConfig]] = [
        RetrievalConfig(name=name, version=datasets.Version("1.0.0"), description=f"Retrieval {name}")
        for name in CONFIG_NAMES
    ]

    def _columns(self) -> dict[str, Any]:
        text = datasets.Value("string")
        return {
            "id": text,
            "image": datasets.Image(),
            "filename": text,
            "captions": [text],
            "condition": text,
            "seed": datasets.Value("int64"),
            "unchanged": [datasets.Value("int32")],
            "tagger": text,
        }

    def _read_rows(self, dl_manager: Any) -> list[Entry]:
        config = self.config
        name, condition = PARTS[config.name]
        check_options(config.seed, allow_identity=config.allow_identity, black_edges=config.black_edges)
        if condition != UNSHUFFLED:
            # Refuses an unknown tagger or kind of units now.
            load_authoring().perturb([], TEXT_SHUFFLES, tagger=config.tagger, units=config.units)
        entries = read_entries(SOURCES[name], self._folder, dl_manager, verify=config.verify)
        return [{"id": f"{config.name}/{entry['place']}", **entry} for entry in entries]

    @property
    def _folder(self) -> Any:
        source = SOURCES[PARTS[self.config.name][0]]
        return source_folder(source, self.config.data_dir, with_images=self.config.with_images)

    def _find_images(self, dl_manager: Any, rows: list[Entry]) -> ImagePaths:
        source, images = SOURCES[PARTS[self.config.name][0]], find_photographs(rows, self._folder)
        where = f"{self._folder} (photographs of {source.photographs})"
        return self._require_images(rows, images, where, source.remedy)

    def _generate_examples(self, rows: list[Entry], images: ImagePaths | None) -> Iterator[tuple[str, dict[str, Any]]]:
        _, condition = PARTS[self.config.name]
        for entry, texts in _captions(rows, condition, self.config):
            row = {"id": entry["id"], "filename": entry["filename"], **texts}
            row |= {"condition": condition, "seed": self.config.seed}
            yield from super()._generate_examples([row], images)

    def _image_file(self, row: Entry, column: str, path: str) -> dict[str, Any]:
        condition, seed, name = row["condition"], self.config.seed, row["filename"]
        if condition not in IMAGE_SHUFFLES:
            return super()._image_file(row, column, path)
        how = {"allow_identity": self.config.allow_identity, "black_edges": self.config.black_edges}
        shuffled = load_authoring().shuffle_image(open_image(path), condition, name, seed, **how)
        return {"path": f"{PurePosixPath(name).stem}-{condition}-{seed}.png", "bytes": to_png(shuffled)}


def _captions(entries: list[Entry], condition: str, config: RetrievalConfig) -> Iterator[tuple[Entry, dict[str, Any]]]:
    """Yield the columns of each entry that its captions make."""
    if condition in (UNSHUFFLED, *IMAGE_SHUFFLES):
        for entry in entries:
            yield entry, {"captions": entry["captions"], "unchanged": [], "tagger": None}
        return
    shuffles = [] if condition == CLEANED else [condition]
    for start in range(0, len(entries), _IMAGES_AT_A_TIME):
        batch = entries[start : start + _IMAGES_AT_A_TIME]
        made = _perturb([text for entry in batch for text in entry["captions"]], shuffles, config)
        shuffled = made.perturbed.get(condition)
        end = 0
        for entry in batch:
            place, end = end, end + len(entry["captions"])
            cleaned = made.captions[place:end]
            texts = shuffled[place:end] if shuffled else cleaned
            kept = [index for index, text in enumerate(texts) if shuffled and text in (None, cleaned[index])]
            captions = [cleaned[index] if text is None else text for index, text in enumerate(texts)]
            yield entry, {"captions": captions, "unchanged": kept, "tagger": made.tagger}


def _perturb(texts: list[str], shuffles: list[str], config: RetrievalConfig) -> Any:
    """Shuffle captions; the authors clean and cut them first, and permute the tokens of what is left."""
    shuffler = load_authoring()
    how: dict[str, Any] = {"tagger": config.tagger, "units": config.units, "allow_identity": config.allow_identity}
    if config.units == "tokens":
        texts = [shuffler.clean_caption(text, config.units) for text in texts]
        how["max_words"] = None
    return shuffler.perturb(texts, shuffles, config.seed, **how)
