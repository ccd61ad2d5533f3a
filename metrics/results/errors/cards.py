"""Examples as cards: images with boxes, captions with marked differences, and each model's scores or answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from ...common.formatting import MISSING
from ...common.wording import Segments
from ...records.schema import DetectionRow, MatchingRow, RetrievalRow, Row, TextSimilarityRow, VQARow
from .features import marked, split_captions
from .outcomes import ANY, TaskErrors, Thumbnail, TopBox, phrase_numbers, top_boxes

_MOST_NEGATIVES = 5
POSITIVE, NEGATIVE = "positive", "negative"


class ScoreCell(NamedTuple):
    """A model's score, answer or box; `is_marked` if it is the model's highest score, or right."""

    text: str
    is_marked: bool = False


class CaptionLine(NamedTuple):
    """A caption in pieces, with its kind and a cell for each column of scores."""

    kind: str
    segments: Segments
    cells: list[ScoreCell]


class Box(NamedTuple):
    """A box on an image: true, or predicted and right or wrong; x, y, width and height in pixels."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    label: str


# An image of a card: its key, its title, and the boxes on it.
_Image = dict[str, Any]


def _card(task: TaskErrors, number: int) -> dict[str, Any]:
    """Return the fields of an example that the template shows; `heads` are the headings of the columns of scores."""
    id, part = task.keys[number]
    row = task.rows[number]
    keys = task.image_keys(row)
    titles = [f"image {index + 1}" if len(keys) > 1 else "" for index in range(len(keys))]
    images = [{"key": key, "title": title, "boxes": []} for key, title in zip(keys, titles, strict=True)]
    notes: list[str] = []
    heads = [letter or "score" for letter in task.letters]
    if isinstance(row, DetectionRow):
        lines, images = _detection(task, row, part)
        heads = [letter or "most confident box" for letter in task.letters]
    elif isinstance(row, VQARow):
        heads = [letter or "answer" for letter in task.letters]
        lines = [CaptionLine("yes" if row.correct else "no", [(row.question, False)], _answers(task, id))]
    elif isinstance(row, TextSimilarityRow):
        lines = _text_pairs(task, row)
    elif isinstance(row, RetrievalRow):
        lines, notes = _retrieval(task, row)
    else:
        assert isinstance(row, MatchingRow)
        lines, notes = _matching(task, row)
        if len(images) > 1:
            heads = [f"{letter} image {n + 1}".strip() for letter in task.letters for n in range(len(images))]
    card = {"title": f"{id}, {part}" if part else id, "categories": task.categories[number], "images": images}
    return card | {"heads": heads, "lines": lines, "verdicts": _verdicts(task, number), "notes": notes}


def cards_html(
    task: TaskErrors, numbers: Iterable[int], pictures: Mapping[str, Thumbnail], *, is_lazy: bool = False
) -> Iterator[Markup]:
    """Render some examples as cards: HTML fragments in which all texts are escaped.

    Args:
        task: the errors.
        numbers: indices of the examples, in the order of `TaskErrors.select`.
        pictures: small images by their keys; other images are not shown.
        is_lazy: whether image addresses go to ``data-image``, for a script to load them, instead of ``src``.
    """
    render = environment().get_template("card.html").module.card
    for number in numbers:
        yield Markup(render(_card(task, int(number)), pictures, is_lazy))


def gallery_html(task: TaskErrors, who: str | int = ANY, category: str = "", start: int = 0, count: int = 12) -> Markup:
    """Render a page of cards with the number of examples, for a server.

    Args:
        task: the errors; its thumbnails are shown, if it has any.
        who, category: see `TaskErrors.select`.
        start, count: the place of the first card among the selected examples, and how many are shown.
    """
    numbers = task.select(who, category)
    shown = numbers[max(start, 0) :][:count].tolist()
    pictures = task.data.thumbnails(list(dict.fromkeys(key for n in shown for key in task.image_keys(task.rows[n]))))
    shown_range = f"Examples {start + 1:,} to {start + len(shown):,} of {len(numbers):,}" if shown else "No examples"
    text = f"{shown_range} ({len(task):,} in all), the most confident errors first"
    html = Markup('<p class="assay-example-note" role="status">{}</p>').format(text)
    if len(task.models) > 1:
        names = " · ".join(f"{letter} {label}" for letter, label in zip(task.letters, task.labels, strict=True))
        html += Markup('<p class="assay-example-note">{}</p>').format(names)
    if task.data.note:
        html += Markup('<p class="assay-example-note">{}</p>').format(task.data.note)
    return html + Markup("").join(cards_html(task, shown, pictures))


def styles() -> str:
    """Return the style sheet of cards, based on the variables of ``tokens.css``."""
    return (Path(__file__).parent / "card.css").read_text(encoding="utf-8")


@cache
def environment() -> Any:
    """Return the template environment of this folder."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )


def _verdicts(task: TaskErrors, number: int) -> list[dict[str, str]]:
    verdicts = []
    for letter, model in zip(task.letters, task.models, strict=True):
        outcome = model.outcome(number)
        margin, detail = model.margins[number], []
        if outcome and not np.isnan(margin):
            detail.append(f"margin {margin:+.3g}" if margin else "margin 0")
        if outcome in ("right", "wrong"):
            detail.append(f"more confident than {int(100 * model.confidence[number])} % of its decisions")
        about = {"letter": letter, "label": model.label, "outcome": outcome or "no prediction"}
        verdicts.append({**about, "detail": ", ".join(detail)})
    return verdicts


def _matching(task: TaskErrors, row: MatchingRow) -> tuple[list[CaptionLine], list[str]]:
    positives, negatives = split_captions(task, row)
    tables = [_scores(model.rows.get(row.id)) for model in task.models]
    scored = next(table for table in tables if table is not None)
    captions = [*positives, *negatives] or [f"caption {n + 1}" for n in range(scored.shape[1])]
    split = len(positives) or task.positive_captions
    lines = []
    for index, caption in enumerate(captions):
        if len(row.images) > 1:
            segments = marked(captions[0], captions[1])[index] if len(captions) == 2 else [(caption, False)]
            of_image = index % len(row.images) + 1
            kind = f"{'caption' if index < len(row.images) else 'not'} of image {of_image}"
        elif index < split:
            alone = len(captions) - split == 1
            segments = marked(caption, captions[split])[0] if alone and positives else [(caption, False)]
            kind = POSITIVE
        else:
            segments = marked(captions[0], caption)[1] if positives else [(caption, False)]
            kind = NEGATIVE
        cells = chain.from_iterable(_column_cells(table, row, index) for table in tables)
        lines.append(CaptionLine(kind, segments, list(cells)))
    if len(row.images) > 1 or len(lines) - split <= _MOST_NEGATIVES:
        return lines, []
    best = np.stack([table[0] for table in tables if table is not None]).argsort(axis=1)[:, ::-1]
    order = [index for index in dict.fromkeys(best.T.ravel().tolist()) if index >= split]
    note = f"{len(order) - _MOST_NEGATIVES} more negative captions, which score lower"
    return [*lines[:split], *(lines[index] for index in order[:_MOST_NEGATIVES])], [note]


def _text_pairs(task: TaskErrors, row: TextSimilarityRow) -> list[CaptionLine]:
    """Return a line for each pair of captions, with the words in which they differ."""
    tables = [_scores(model.rows.get(row.id)) for model in task.models]
    scored = next(table for table in tables if table is not None)
    pairs = list(combinations(task.data.captions.get(row.id, ()), 2))
    lines = []
    for column in range(scored.shape[1]):
        segments = [(f"pair {column + 1}", False)]
        if column < len(pairs):
            first, second = marked(*pairs[column])
            segments = [*first, (" / ", False), *second]
        cells = [_score_cell(None if table is None else table[0], column) for table in tables]
        lines.append(CaptionLine(POSITIVE if column in row.correct else NEGATIVE, segments, cells))
    return lines


def _scores(row: Row | None) -> np.ndarray[Any, Any] | None:
    scores = getattr(row, "scores", None)
    return None if scores is None else np.asarray(scores, dtype=np.float64)


def _column_cells(table: np.ndarray[Any, Any] | None, row: MatchingRow, caption: int) -> Iterator[ScoreCell]:
    """Return one model's scores of a caption with each image."""
    for image in range(len(row.images)):
        if table is None or caption >= table.shape[1]:
            yield ScoreCell(MISSING)
        else:
            # Of one caption the images are chosen from.
            yield _score_cell(table[image], caption) if table.shape[1] > 1 else _score_cell(table[:, 0], image)


def _score_cell(scores: np.ndarray[Any, Any] | None, place: int) -> ScoreCell:
    """Return the cell of one of some scores, marked if it is the highest; a dash without scores."""
    if scores is None:
        return ScoreCell(MISSING)
    return ScoreCell(f"{scores[place]:.4g}", bool(scores[place] == scores.max()))


def _retrieval(task: TaskErrors, row: RetrievalRow) -> tuple[list[CaptionLine], list[str]]:
    tables = [_scores(model.rows.get(row.id)) for model in task.models]
    scored = [table for table in tables if table is not None]
    rights = sorted(row.correct, key=lambda column: -max(table[column] for table in scored))
    is_right = np.isin(np.arange(len(scored[0])), row.correct)
    wrong = [int(np.where(is_right, -np.inf, table).argmax()) for table in scored]

    def line(column: int, kind: str) -> CaptionLine:
        caption = task.pool.get(column, f"caption {column + 1} of the set")
        return CaptionLine(kind, [(caption, False)], [_score_cell(table, column) for table in tables])

    lines = [line(column, POSITIVE) for column in rights[:_MOST_NEGATIVES]]
    lines += [line(column, NEGATIVE) for column in dict.fromkeys(wrong)]
    return lines, ["Negative: the caption of another image that a model scores highest."]


def _answers(task: TaskErrors, id: str) -> list[ScoreCell]:
    cells = []
    for model in task.models:
        row = model.rows.get(id)
        if not isinstance(row, VQARow) or row.score is None:
            cells.append(ScoreCell(MISSING))
            continue
        answer = "yes" if row.score > 0 else "no" if row.score < 0 else "none"
        cells.append(ScoreCell(f"{answer} ({row.score:.3g})", row.score * (1 if row.correct else -1) > 0))
    return cells


def _detection(task: TaskErrors, row: DetectionRow, part: str) -> tuple[list[CaptionLine], list[_Image]]:
    """Return the phrases of a row with each model's most confident box, and its image and distractors with boxes."""
    distractors = task.distractors_of(row)
    asked = [row, *distractors]
    boxes: list[list[Box]] = [[] for _ in asked]
    lines = []
    for number in phrase_numbers(row, part):
        boxes[0] += [_box("true", box, "true") for box in row.truth[number]]
        cells = []
        for letter, model in zip(task.letters, task.models, strict=True):
            top = []
            for image, image_row in enumerate(asked):
                own_row, phrased = model.rows.get(image_row.id), model.rows.get(row.id)
                if isinstance(own_row, DetectionRow) and isinstance(phrased, DetectionRow):
                    top += [(image, box) for box in top_boxes(own_row, phrased, number)[:1]]
            for image, box in top:
                label = f"{letter} {box.score:.2g}".strip()
                boxes[image].append(_box("right" if box.is_right else "wrong", box.box, label))
            cells.append(_top_cell(top))
        lines.append(CaptionLine("phrase", _phrase(task, row, number), cells))
    titles = [
        "image",
        *(f"distractor {n + 1}" if len(distractors) > 1 else "distractor" for n in range(len(distractors))),
    ]
    shown = zip(task.image_keys(row), titles if distractors else [""], boxes, strict=True)
    return lines, [{"key": key, "title": title, "boxes": own_row} for key, title, own_row in shown]


def _top_cell(boxes: Sequence[tuple[int, TopBox]]) -> ScoreCell:
    if not boxes:
        return ScoreCell("no box")
    image, box = max(boxes, key=lambda entry: (entry[1].score, not entry[1].is_right))
    judgement = "right" if box.is_right else "on a distractor" if image else "wrong place"
    return ScoreCell(f"{judgement} ({box.score:.3g})", box.is_right)


def _phrase(task: TaskErrors, row: DetectionRow, number: int) -> Segments:
    """Return the caption with the phrase marked, or only the phrase if the caption is missing."""
    phrase = row.phrases[number]
    caption = next(iter(task.data.captions.get(row.id, ())), "")
    start, end = phrase["start"], phrase["end"]
    if not caption:
        return [(phrase["text"], True)]
    return [(caption[:start], False), (caption[start:end], True), (caption[end:], False)]


def _box(kind: str, box: Sequence[float], label: str) -> Box:
    x1, y1, x2, y2 = (round(value, 1) for value in box)
    return Box(kind, x1, y1, x2 - x1, y2 - y1, label)
