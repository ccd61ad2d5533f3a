"""What the page that draws boxes asks of the server: an item, boxes of a phrase to keep, undo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....metrics.common.errors import DataError
from ._page import Desk
from .boxes import ABSENT, DRAWN, BoxItem, clip, is_decided, shown_texts
from .journal import Entry, Journal
from .pictures import Pictures


class BoxDesk(Desk):
    """The server's side of drawing boxes; see `Desk` for the requests.

    Args:
        items: what boxes are drawn for.
        journal: where they are kept.
        pictures: the images, which must lie on this machine: boxes are clipped to their sizes.
        annotators: who may draw; anybody where it is empty.

    Raises:
        DataError: an image is missing or cannot be read.
    """

    def __init__(
        self, items: Sequence[BoxItem], journal: Journal, pictures: Pictures, annotators: Sequence[str] = ()
    ) -> None:
        super().__init__([item.id for item in items], journal, shown_texts(items), annotators)
        self._items = items
        self._pictures = pictures
        for item in items:
            pictures.path(item.image)

    def decide(self, request: dict[str, Any]) -> dict[str, Any]:
        """Keep the boxes of a phrase, all of them: ``{"annotator", "id", "phrase", "boxes", "absent"}``.

        Boxes are clipped to the image, and left out where less than a pixel remains. `absent` says that the phrase has
        none in this image. The page stays at the item.
        """
        annotator, index = self.annotator(request), self.place(request)
        item, number = self._items[index], request.get("phrase")
        if not isinstance(number, int) or not 0 <= number < len(item.phrases):
            raise DataError(f"item {item.id!r} has {len(item.phrases)} phrases, and phrase {number!r} came")
        size = self._pictures.size(item.image)
        clipped = [clip(box, *size) for box in request.get("boxes") or ()]
        boxes = tuple(box for box in clipped if box is not None)
        decision = ABSENT if request.get("absent") and not boxes else DRAWN
        shown = item.phrases[number].text
        self.journal.decide(Entry("", annotator, item.id, decision, shown=shown, phrase=number, boxes=boxes))
        return self.view(annotator, index)

    def image_of(self, index: int) -> str:
        """See `Desk`."""
        return self._items[index].image

    def is_done(self, entries: dict[tuple[str, int], Entry], index: int) -> bool:
        """See `Desk`."""
        item = self._items[index]
        return all(is_decided(entries.get((item.id, number))) for number in range(len(item.phrases)))

    def content(self, entries: dict[tuple[str, int], Entry], index: int) -> dict[str, Any]:
        """See `Desk`."""
        item = self._items[index]
        phrases = []
        for number, phrase in enumerate(item.phrases):
            entry = entries.get((item.id, number))
            boxes = entry.boxes if entry else ()
            absent = entry is not None and entry.decision == ABSENT
            phrases.append({**phrase._asdict(), "boxes": boxes, "absent": absent, "done": is_decided(entry)})
        return {"caption": item.caption, "phrases": phrases}
