"""Items of the papers that are no table of models: figures, examples and counts, made from what is at hand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...hub_datasets.core.audits import read_audit
from ...hub_datasets.core.examples import Example, load_examples
from ...hub_datasets.core.network import check_sources
from ...hub_datasets.published.tables import Column, get_table
from ...metrics.common.documents import Part, simple_table
from ...metrics.common.errors import DataError, ModelError, PredictionsError
from ...metrics.common.formatting import percent, words
from .comparing import value_of
from .plans import FoundPredictions
from .reproduce import data_folder, evaluate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# ARO's Table 1: the caption, and the paper's words for what VL-Assay's shuffles do.
ARO_CAPTION = "remarkable scene with a blue ball behind a green chair"
ARO_SHUFFLES = {
    "shuffle_nouns_and_adjectives": "Shuffle nouns and adjectives",
    "shuffle_all_but_nouns_and_adjectives": "Shuffle everything but nouns and adjectives",
    "shuffle_trigrams": "Shuffle trigrams",
    "shuffle_within_trigrams": "Shuffle words within each trigram",
}
# The correlations that SugarCrepe's section 5.3 prints; of the other categories it says "r > 0.8".
PRINTED_R = {"SWAP Object": "0.78", "ADD Attribute": "0.75"}


@dataclass(frozen=True)
class AtHand:
    """What items are made from.

    Args:
        folder: where drawings go.
        data_dir: the user's copies of sources, a folder for each benchmark; None for the caches only.
        predictions: predictions that were found.
        options: fields of the builders' configurations.
    """

    folder: Path
    data_dir: Path | None = None
    predictions: Sequence[FoundPredictions] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def examples(self, task: str) -> list[Example]:
        """The examples of a task, without images.

        Raises:
            DataError: they are not at hand.
        """
        folder = data_folder(task.partition("/")[0], self.data_dir)
        check_sources([task], data_dir=folder, options=self.options)
        [found] = load_examples(task, data_dir=folder, options=self.options, needs_images=False)
        return found.examples

    def draw(self, name: str, draw: Callable[[Axes], None], width: float = 5.0) -> str:
        """Draw a figure; a Markdown link to it.

        Raises:
            ModelError: matplotlib is not installed.
        """
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ModelError("figures need matplotlib: pip install 'vl-assay[plots]'") from error
        figure = Figure(figsize=(width, 4.0), layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure.add_subplot())
        self.folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(self.folder / f"{name}.png", dpi=150)
        return f"![{name}]({name}.png)"


def aro_perturbations(_: AtHand) -> list[Part]:
    """The caption of ARO's Table 1, perturbed here."""
    from ...hub_datasets.authoring.text.perturb import perturb

    found = perturb([ARO_CAPTION], list(ARO_SHUFFLES)).perturbed
    rows = [(shown, found[name][0] or "unchanged") for name, shown in ARO_SHUFFLES.items()]
    note = "The permutations are other draws than the paper's."
    return [simple_table(("Perturbation Type", "Example"), [("Original Caption", ARO_CAPTION), *rows], note=note)]


def lexicon_frequencies(number: int) -> Callable[[AtHand], list[Part]]:
    """How often each word of Hard Positives' Table 4, 5 or 6 is replaced in the user's copy of the release."""
    kinds = {
        4: ("relation_spatial", "relation_action"),
        5: ("attribute_action", "attribute_color"),
        6: ("attribute_size", "attribute_state"),
    }[number]

    def make(hand: AtHand) -> list[Part]:
        from ...hub_datasets.hard_positives.construct import LEXICON

        entries = [entry for entry in LEXICON if entry.kind in kinds]
        counts: Counter[tuple[str, str]] = Counter()
        for example in hand.examples("hard_positives/replace"):
            caption, positive, _ = example.captions
            half = example.config.removeprefix("replace_").removesuffix("s")
            for entry in entries:
                if entry.kind.startswith(half) and _is_replaced(caption, positive, entry.originals, entry.synonym):
                    counts[entry.originals[0], entry.synonym] += 1
                    break
        rows = []
        for entry in entries:
            ours = counts[entry.originals[0], entry.synonym]
            equal = "yes" if ours == entry.frequency else "no"
            rows.append((", ".join(entry.originals), entry.synonym, f"{entry.frequency:,}", f"{ours:,}", equal))
        found, printed = sum(counts.values()), sum(entry.frequency for entry in entries)
        note = f"{found:,} rows are such replacements; the frequencies that the paper prints sum to {printed:,}."
        return [simple_table(("original", "replaced by", "published", "ours", "equal"), rows, note=note)]

    return make


def _is_replaced(caption: str, positive: str, originals: Sequence[str], synonym: str) -> bool:
    """Whether one of the originals, at one place of the caption, was replaced by the synonym."""
    return any(
        caption[: match.start()] + synonym + caption[match.end() :] == positive
        for original in originals
        for match in re.finditer(re.escape(original), caption)
    )


def refined_audits(_: AtHand) -> list[Part]:
    """What scorers that see no image reach on SugarCrepe before and after its refinement, as audited and shipped."""
    audits = read_audit("sugarcrepe") or {}
    if not {"sugarcrepe", "sugarcrepe/unrefined"} <= set(audits):
        raise DataError("the audit that ships with SugarCrepe lacks a part; run vl-assay audit sugarcrepe")
    before, after = audits["sugarcrepe/unrefined"]["scorers"], audits["sugarcrepe"]["scorers"]
    rows = [
        (words(name), percent(before[name]["accuracy"]), percent(after[name]["accuracy"]))
        for name in after
        if name in before
    ]
    note = (
        "Accuracy in % without the image, where 50 is chance, as audited for VL-Assay. The paper's refinement balanced "
        "two other scorers, Vera and a grammar model."
    )
    return [simple_table(("scorer", "before refinement", "after"), rows, note=note, numbers=True)]


def imagenet_correlations(hand: AtHand) -> list[Part]:
    """SugarCrepe's Figure 5 and its correlations, of the models whose predictions have both tasks."""
    from ...metrics.statistics.correlation import FEWEST, correlation

    [imagenet] = [each for each in get_table("hard-positives-10").columns if each.name == "ImageNet1k Acc@1"]
    columns = [each for each in get_table("sugarcrepe-6").columns if each.average == "category"]
    if not imagenet.task:
        raise DataError(f"the horizontal axis cannot be computed: {imagenet.reason}")
    values = model_values(hand.predictions, [imagenet, *columns])
    if len(values) < FEWEST:
        raise PredictionsError(
            f"predictions of {len(values)} models on both {imagenet.task} and {columns[0].task}; a correlation takes "
            f"{FEWEST} or more"
        )
    across, *heights = np.array([*values.values()]).T
    rows = []
    for column, accuracies in zip(columns, heights, strict=True):
        found = correlation(across, accuracies)
        low, high = found["pearson_interval"] or (np.nan, np.nan)
        ours = "–" if found["pearson"] is None else f"{found['pearson']:.2f}"
        rows.append((column.name, PRINTED_R.get(column.name, "> 0.8"), ours, f"{low:.2f} – {high:.2f}"))

    def draw(axes: Axes) -> None:
        for column, accuracies in zip(columns, heights, strict=True):
            axes.plot(100 * across, 100 * accuracies, "o", label=column.name)
        axes.set(xlabel="ImageNet, zero-shot accuracy (%)", ylabel="SugarCrepe, accuracy (%)")
        axes.legend(fontsize=7)

    note = f"Pearson's r over {len(values)} models, with 95 % intervals over models: {', '.join(values)}."
    table = simple_table(("", "published r", "ours", "interval"), rows, note=note, numbers=True)
    return [table, hand.draw("sugarcrepe-figure-5", draw)]


def model_values(predictions: Sequence[FoundPredictions], columns: Sequence[Column]) -> dict[str, list[float]]:
    """The values of columns, by model, of the models that have all of them."""
    tasks = {column.task for column in columns}
    paths: dict[str, list[Path]] = {}
    for path, task, _, model in predictions:
        if task in tasks:
            paths.setdefault(str(model["name"]), []).append(path)
    found: dict[str, list[float]] = {}
    for name, files in paths.items():
        report = evaluate(files)
        values = [value for column in columns if (value := value_of(column, report)) is not None]
        if len(values) == len(columns):
            found[name] = values
    return found


def tricd_boxes(hand: AtHand) -> list[Part]:
    """TRICD's Figure 5 of the validation set: centres of the boxes, and how many boxes a phrase has."""
    examples = hand.examples("tricd/val")
    counts = {kind: Counter[int]() for kind in dict.fromkeys(example.category for example in examples)}
    corners: dict[str, list[tuple[float, ...]]] = {kind: [] for kind in counts}
    for example in examples:
        for phrase in example.phrases:
            corners[example.category] += phrase.boxes
            if phrase.boxes:
                counts[example.category][min(len(phrase.boxes), 10)] += 1
    rows = [
        (f"{number}{' or more' if number == 10 else ''}", *(str(counts[kind][number]) for kind in counts))
        for number in range(1, 11)
        if any(counts[kind][number] for kind in counts)
    ]

    def draw(axes: Axes) -> None:
        for kind, boxes in corners.items():
            x1, y1, x2, y2 = np.array(boxes).T
            axes.scatter((x1 + x2) / 2, (y1 + y2) / 2, (x2 - x1) * (y2 - y1) / 500, alpha=0.4, label=words(kind))
        axes.set(xlabel="x of the centre (pixels)", ylabel="y of the centre (pixels)")
        axes.invert_yaxis()
        axes.legend()

    table = simple_table(("boxes of a phrase", *(f"{words(kind)}s" for kind in counts)), rows, numbers=True)
    note = "Of the validation set, without Winoground's part; the size of a marker is that of its box."
    return [table, hand.draw("tricd-figure-5", draw), note]


def tricd_phrases(hand: AtHand) -> list[Part]:
    """TRICD's Figure 8 of the validation set: the words of its phrases, the larger the more frequent."""
    phrases = {phrase.text for example in hand.examples("tricd/val") for phrase in example.phrases}
    counts = Counter(word for phrase in phrases for word in phrase.lower().split())
    common = counts.most_common(40)
    rng = np.random.default_rng(0)

    def draw(axes: Axes) -> None:
        places = rng.permutation(len(common))
        for (word, count), place in zip(common, places, strict=True):
            x, y = divmod(int(place), 8)
            size = 7 + 14 * np.sqrt(count / common[0][1])
            axes.text(x / 5 + 0.1, y / 8 + 0.06, word, size=size, ha="center", va="center")
        axes.set_axis_off()

    listed = ", ".join(f"{word} ({count})" for word, count in common)
    text = f"The {len(common)} most frequent words of the validation set's {len(phrases)} different phrases: {listed}."
    return [hand.draw("tricd-figure-8", draw, width=8.0), text]


EXTRAS: Mapping[tuple[str, str], Callable[[AtHand], list[Part]]] = {
    ("aro", "Table 1"): aro_perturbations,
    **{("hard-positives", f"Table {number}"): lexicon_frequencies(number) for number in (4, 5, 6)},
    ("sugarcrepe", "Algorithm 1"): refined_audits,
    ("sugarcrepe", "Figure 5"): imagenet_correlations,
    ("tricd", "Figure 5"): tricd_boxes,
    ("tricd", "Figure 8"): tricd_phrases,
}
