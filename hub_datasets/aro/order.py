"""COCO-Order and Flickr30k-Order: a caption, and four of the same words in another order (ARO, section 2.2)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from ..retrieval.karpathy import Entry, load_authoring

SOURCE_NAMES = {"coco_order": "coco", "flickr30k_order": "flickr30k"}
# Of every row, so that it has five captions as in the paper.
NEGATIVES = 4
# They are tagged together; more at a time saves nothing.
_IMAGES_AT_A_TIME = 50


def order_rows(
    config: str,
    entries: list[Entry],
    seed: int,
    tagger: str,
    *,
    units: str = "words",
    allow_identity: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yield the columns of each row that need no image, all captions of an image one after the other.

    What a row holds depends on its caption and the options alone, not on the rows around it. The options are those of
    `perturb` in the package that shuffles.
    """
    shuffler = load_authoring()
    for start in range(0, len(entries), _IMAGES_AT_A_TIME):
        batch = entries[start : start + _IMAGES_AT_A_TIME]
        texts = [text for entry in batch for text in entry["captions"]]
        made = shuffler.perturb(
            texts, shuffler.SHUFFLES, seed, tagger=tagger, units=units, allow_identity=allow_identity
        )
        place = itertools.count()
        for entry in batch:
            for index, text in enumerate(entry["captions"]):
                number = next(place)
                made_of_it = {name: results[number] for name, results in made.perturbed.items()}
                found = {name: result for name, result in made_of_it.items() if result is not None}
                caption = made.captions[number]
                yield {
                    "id": f"{config}/{entry['place']}-{index}",
                    "filename": entry["filename"],
                    "caption": caption,
                    "negative_captions": _filled(list(found.values()) or [caption]),
                    "perturbations": list(found),
                    "testable": any(result != caption for result in found.values()),
                    "text_index": index,
                    "released_text": text,
                    "seed": seed,
                    "tagger": made.tagger,
                }


def _filled(texts: list[str]) -> list[str]:
    """As many texts as every row has, repeated from the first on where there are fewer."""
    return list(itertools.islice(itertools.cycle(texts), NEGATIVES))
