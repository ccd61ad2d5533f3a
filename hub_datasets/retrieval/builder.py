"""Image-text retrieval on Karpathy's test splits of COCO and Flickr30k, also without order, as a `datasets` builder.

A row is an image with its captions. `coco` and `flickr30k` have them as released; in the other configurations the words
of the captions, or parts of the image, are in another order (ARO, Yuksekgonul et al., ICLR 2023, section 3.1).

The module imports only the standard library, Pillow, `datasets` and its sibling, one import a line, so that `datasets`
up to 3.6 can run it as a script and any later version can import the class. What cleans and shuffles is imported by the
configurations that need it, when they are built.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import ClassVar

import datasets
from PIL import Image

from .karpathy import Entry
from .karpathy import SOURCES
from .karpathy import URL
from .karpathy import check_seed
from .karpathy import check_switches
from .karpathy import find_annotations
from .karpathy import find_folder
from .karpathy import find_images
from .karpathy import load_authoring
from .karpathy import read_entries

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

_VERSION = "1.0.0"
# Their captions are tagged together; more at a time saves nothing.
_IMAGES_AT_A_TIME = 50


@dataclass
class RetrievalConfig(datasets.BuilderConfig):
    """What is shuffled, and how strict to be about the user's files in `data_dir`.

    | field           | True                                            | False                                  |
    |-----------------|-------------------------------------------------|----------------------------------------|
    | `with_images`   | a column `image`                                | no column `image`, no image looked for |
    | `allow_missing` | a row whose image is missing has image None     | a missing image is an error            |
    | `verify`        | the file must have as many images and captions  | any well-formed file is accepted       |
    |                 | as the release, and the published checksum      |                                        |
    | `allow_identity`| a permutation that changes nothing may be drawn | it is excluded                         |
    | `black_edges`   | pixels beyond the grid of an image shuffle are  | they stay as they are                  |
    |                 | black                                           |                                        |

    Another `seed`, any whole number, makes other permutations. `tagger` tells nouns and adjectives from the rest:
    "spacy", "plain" (which comes with the package) or "auto", spaCy where it is installed and else "plain". `units` are
    what is permuted: "words" without their punctuation, or "tokens", punctuation among them. The authors' code has
    ``units="tokens"``, ``allow_identity=True`` and ``black_edges=True``.
    """

    with_images: bool = True
    allow_missing: bool = False
    verify: bool = True
    seed: int = 0
    tagger: str = "auto"
    units: str = "words"
    allow_identity: bool = False
    black_edges: bool = False


class Retrieval(datasets.GeneratorBasedBuilder):
    """Twenty configs, one split `test`: `PARTS` says what each shows; see `RetrievalConfig` for the options.

    `data_dir` is the user's own copy. For the configs of COCO it holds the photographs as `val2014/<filename>`,
    `images/val2014/<filename>` or `<filename>`, and perhaps `coco_karpathy_test.json`, which is downloaded otherwise;
    for those of Flickr30k the same with `flickr30k-images` and `flickr30k_test.json`.

    A row has `id` (config name, "/", the image's place in the file, from 0), `image`, `filename`, `captions`,
    `condition`, `seed`, `unchanged` (which captions the condition leaves as `cleaned` has them) and `tagger`.

    Everything but the content of image files is checked before the first row is written. Raises FileNotFoundError for a
    `data_dir` that is needed and not given or not a folder, and for missing images; ValueError for a file of captions
    that is malformed or not the released one, and for an image to be shuffled that is none; ConnectionError for a
    failed download; ImportError where something is to be cleaned or shuffled without this package.
    """

    config: RetrievalConfig
    BUILDER_CONFIG_CLASS = RetrievalConfig
    BUILDER_CONFIGS: ClassVar[list[datasets.BuilderConfig]] = [
        RetrievalConfig(name=name, version=datasets.Version(_VERSION), description=f"Retrieval {name}")
        for name in CONFIG_NAMES
    ]

    def _info(self) -> datasets.DatasetInfo:
        text = datasets.Value("string")
        columns: dict[str, Any] = {"id": text}
        if self.config.with_images:
            columns["image"] = datasets.Image()
        columns |= {
            "filename": text,
            "captions": [text],
            "condition": text,
            "seed": datasets.Value("int64"),
            "unchanged": [datasets.Value("int32")],
            "tagger": text,
        }
        return datasets.DatasetInfo(features=datasets.Features(columns))

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        config = self.config
        name, condition = PARTS[config.name]
        source = SOURCES[name]
        check_seed(config.seed)
        check_switches(allow_identity=config.allow_identity, black_edges=config.black_edges)
        if condition != UNSHUFFLED:
            # Refuses an unknown tagger or kind of units now.
            load_authoring().perturb([], TEXT_SHUFFLES, tagger=config.tagger, units=config.units)
        folder = find_folder(config.name, source, config.data_dir, with_images=config.with_images)
        origin = copy = find_annotations(source, folder)
        if origin.startswith(URL):
            copy = _download(dl_manager, origin)
        entries = read_entries(source, _read(Path(copy)), origin, verify=config.verify)
        images = None
        if config.with_images and folder is not None:
            images = find_images(config.name, source, entries, folder, allow_missing=config.allow_missing)
        # A list is what `datasets` deals out to several processes.
        return [datasets.SplitGenerator(name="test", gen_kwargs={"entries": entries, "images": images})]

    def _generate_examples(
        self, entries: list[Entry], images: dict[str, str | None] | None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (id, row). `images` maps a file name to its path, None where missing; None for no column."""
        _, condition = PARTS[self.config.name]
        for entry, texts in _captions(entries, condition, self.config):
            filename = entry["filename"]
            row = {
                "id": f"{self.config.name}/{entry['place']}",
                "filename": filename,
                **texts,
                "condition": condition,
                "seed": self.config.seed,
            }
            if images is not None:
                path = images[filename]
                row["image"] = None if path is None else _image(path, filename, condition, self.config)
            yield row["id"], row


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


def _image(path: str, filename: str, condition: str, config: RetrievalConfig) -> dict[str, Any]:
    """Return an image's own file, or a PNG of it with its rows, columns or patches in another order."""
    payload = _read(Path(path))
    if condition not in IMAGE_SHUFFLES:
        return {"path": filename, "bytes": payload}
    try:
        with Image.open(io.BytesIO(payload)) as image:
            pixels = image.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} cannot be read as an image ({error}). Replace it.") from error
    how = {"allow_identity": config.allow_identity, "black_edges": config.black_edges}
    shuffled = load_authoring().shuffle_image(pixels, condition, filename, config.seed, **how)
    buffer = io.BytesIO()
    # Twice as fast as the default level or more, for files some 6 % larger.
    shuffled.save(buffer, "PNG", compress_level=1)
    return {"path": f"{Path(filename).stem}-{condition}-{config.seed}.png", "bytes": buffer.getvalue()}


def _download(dl_manager: datasets.DownloadManager, url: str) -> str:
    try:
        return str(dl_manager.download(url))
    except Exception as error:  # The HTTP libraries below raise errors without a common base class.
        raise ConnectionError(
            f"Could not download {url} ({type(error).__name__}: {error}). Try again, or put the file into data_dir."
        ) from error


def _read(path: Path) -> bytes:
    # Not `read_bytes`: `datasets` swaps Path for a class of its own, of which only `open` reads remote files.
    with path.open("rb") as file:
        return file.read()
