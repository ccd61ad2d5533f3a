"""TRICD's boxes (Figure 5) and phrases (Figure 8), of the public validation set."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from ....metrics.common.documents import Part, simple_table
from ....metrics.common.figures import colours
from ....metrics.common.formatting import words
from .material import Material, draw_bars

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WORDS, _LINES = 40, 8


def boxes(material: Material) -> list[Part]:
    """Figure 5: (a) where the boxes lie and how large they are, (b) boxes per phrase, in bins that double."""
    corners: dict[str, list[tuple[float, ...]]] = {}
    counts: dict[str, Counter[int]] = {}
    for example in material.examples("tricd/val"):
        for phrase in example.phrases:
            corners.setdefault(example.category, []).extend(phrase.boxes)
            if phrase.boxes:
                counts.setdefault(example.category, Counter())[len(phrase.boxes).bit_length() - 1] += 1
    bins = range(max(number for each in counts.values() for number in each) + 1)
    names = ["1", *(f"{2**number}–{2 ** (number + 1) - 1}" for number in bins[1:])]
    rows = [(names[number], *(str(each[number]) for each in counts.values())) for number in bins]

    def draw(figure: Figure) -> None:
        places, numbers = figure.subplots(1, 2)
        for kind, colour in colours([*corners]).items():
            x1, y1, x2, y2 = np.array(corners[kind]).T
            size = (x2 - x1) * (y2 - y1) / 500
            places.scatter((x1 + x2) / 2, (y1 + y2) / 2, size, color=colour, alpha=0.4, label=words(kind))
        places.set(xlabel="x of the centre (pixels)", ylabel="y of the centre (pixels)")
        places.invert_yaxis()
        places.legend()
        draw_bars(numbers, names, {kind: [counts[kind][number] for number in bins] for kind in corners})
        numbers.set(xlabel="boxes of a phrase", ylabel="phrases", yscale="log")

    headings = ("boxes of a phrase", *(f"phrases of {words(kind)}s" for kind in counts))
    note = "Of the validation set, which has no part from Winoground; the size of a marker is the area of its box."
    return [simple_table(headings, rows, note=note, numbers=True), material.draw("tricd-figure-5", draw, (10, 4.5))]


def phrase_words(material: Material) -> list[Part]:
    """Figure 8: the words of the phrases, the larger the more frequent."""
    phrases = [phrase.text for example in material.examples("tricd/val") for phrase in example.phrases]
    common = Counter(word for phrase in phrases for word in phrase.lower().split()).most_common(_WORDS)
    places = np.random.default_rng(0).permutation(len(common))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        columns = -(-len(common) // _LINES)
        for (word, count), place in zip(common, places.tolist(), strict=True):
            x, y = divmod(place, _LINES)
            size = 7 + 14 * (count / common[0][1]) ** 0.5
            axes.text((x + 0.5) / columns, (y + 0.5) / _LINES, word, size=size, ha="center", va="center")
        axes.set_axis_off()

    listed = ", ".join(f"{word} ({count})" for word, count in common)
    text = f"The {len(common)} most frequent words of the validation set's {len(phrases)} phrases: {listed}."
    return [material.draw("tricd-figure-8", draw, (8, 4)), text]
