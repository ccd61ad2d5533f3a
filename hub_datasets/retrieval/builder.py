"""Image-text retrieval on Karpathy's splits of COCO and Flickr30k, also without order, as a `datasets` builder.

A row is an image with its captions. `coco` and `flickr30k` have them as released; in the other configurations the words
of the captions, or parts of the image, are in another order (ARO, Yuksekgonul et al., ICLR 2023, section 3.1). The
validation splits, for model selection, are available only as released.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, ClassVar

from ..authoring.text.perturb import clean_caption, shuffle_image
from ..authoring.text.shuffles import CLEANED, CONDITIONS, IMAGE_SHUFFLES, TEXT_SHUFFLES, UNSHUFFLED
from ..sources.builders import make_configs
from ..sources.crops import open_image, to_png
from ..sources.source_files import ImagePaths
from .karpathy import SOURCES, CaptionRelease, Entry, KarpathyBuilder, ShuffleConfig, perturb

# The data set and the condition of each configuration.
PARTS = {
    (name if condition == UNSHUFFLED else f"{name}_{condition}"): (name, condition)
    for name, source in SOURCES.items()
    for condition in (CONDITIONS if source.split == "test" else (UNSHUFFLED,))
}
CONFIG_NAMES = tuple(PARTS)


@dataclass
class RetrievalConfig(ShuffleConfig):
    """The kind of shuffle of a configuration; with `black_edges` pixels beyond the grid of an image shuffle are black.

    The authors' code has ``black_edges=True``.
    """

    black_edges: bool = False


class Retrieval(KarpathyBuilder):
    """Twenty configurations of test splits and two of validation splits: `PARTS`. The card has the columns.

    An image to be shuffled that cannot be decoded raises a `DataError`.
    """

    config: RetrievalConfig
    BUILDER_CONFIG_CLASS = RetrievalConfig
    IS_DOWNLOADED = True
    BUILDER_CONFIGS: ClassVar = make_configs(RetrievalConfig, "Retrieval", CONFIG_NAMES)
    COLUMNS = "id image filename captions condition seed unchanged tagger"

    @property
    def _condition(self) -> str:
        return PARTS[self.config.name][1]

    @property
    def _is_shuffled(self) -> bool:
        return self._condition != UNSHUFFLED

    @property
    def _text_shuffles(self) -> list[str]:
        return [self._condition] if self._condition in TEXT_SHUFFLES else []

    @property
    def _split(self) -> str:
        return self._source.split

    @property
    def _source(self) -> CaptionRelease:
        return SOURCES[PARTS[self.config.name][0]]

    def _generate_examples(self, rows: list[Entry], images: ImagePaths | None) -> Iterator[tuple[str, dict[str, Any]]]:
        made = (
            {"id": entry["id"], "filename": entry["filename"], **texts, "seed": self.config.seed}
            for entry, texts in self._captions(rows)
        )
        yield from super()._generate_examples(made, images)

    def _image_file(self, row: Entry, column: str, path: str) -> dict[str, Any]:
        condition, seed, name = self._condition, self.config.seed, row["filename"]
        if condition not in IMAGE_SHUFFLES:
            return super()._image_file(row, column, path)
        how = {"allow_identity": self.config.allow_identity, "black_edges": self.config.black_edges}
        shuffled = shuffle_image(open_image(path), condition, name, seed, **how)
        return {"path": f"{PurePosixPath(name).stem}-{condition}-{seed}.png", "bytes": to_png(shuffled)}

    def _captions(self, entries: list[Entry]) -> Iterator[tuple[Entry, dict[str, Any]]]:
        """Yield each entry with the columns that its captions make."""
        condition, units, options = self._condition, self.config.units, {}
        row: dict[str, Any] = {"condition": condition, "unchanged": [], "tagger": None}
        if condition in (UNSHUFFLED, *IMAGE_SHUFFLES):
            yield from ((entry, {**row, "captions": entry["captions"]}) for entry in entries)
            return
        if units == "tokens":  # the authors clean and cut captions first, and permute the remaining tokens
            options = {"max_words": None}
            entries = [
                {**entry, "captions": [clean_caption(text, units) for text in entry["captions"]]} for entry in entries
            ]
        for entry, made in perturb(entries, [] if condition == CLEANED else [condition], self.config, **options):
            shuffled = made.perturbed.get(condition, made.captions)
            pairs = list(zip(shuffled, made.captions, strict=True))
            kept = [index for index, (text, cleaned) in enumerate(pairs) if made.perturbed and text in (None, cleaned)]
            captions = [cleaned if text is None else text for text, cleaned in pairs]
            yield entry, {**row, "captions": captions, "unchanged": kept, "tagger": made.tagger}
