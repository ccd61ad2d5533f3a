"""The review in the browser, served by ``vl-assay review``: people judge candidates, or draw boxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....metrics.common.documents import Part, to_html
from ....metrics.common.errors import DataError, VLAssayError
from ....metrics.common.serving import check_address
from ..data.candidates import read_candidates
from . import boxes as box_items
from . import decisions
from .agreement import agreement, report, votes_of
from .desk import BoxDesk, ReviewDesk
from .journal import DecisionJournal
from .pictures import Pictures
from .similar import HISTOGRAM, SimilarImages, load_embedder

if TYPE_CHECKING:
    import gradio

_HERE = Path(__file__).parent
_TITLES = {"review": "Review candidates", "boxes": "Draw boxes"}
_ADDRESSES = ("http://", "https://")


class Review:
    """Candidates, or items for boxes, with their journal and their images.

    Args:
        source: the candidates' file or a folder with ``candidates.jsonl``; with `boxes` a file of items.
        out: the folder of the journal; by default that of the source.
        images: the folder of the images, by default that of the source; no image outside it is shown.
        boxes: whether to draw boxes instead of judging candidates.
        annotators: who may take part; anybody if empty.
        image_model: finds similar images: ``"histogram"``, or an image-only checkpoint of ``transformers``.

    Raises:
        DataError, ModelError: the source, the journal, an image or the model cannot be used.
    """

    def __init__(
        self,
        source: str | Path,
        *,
        out: str | Path | None = None,
        images: str | Path | None = None,
        boxes: bool = False,
        annotators: Sequence[str] = (),
        image_model: str = HISTOGRAM,
    ) -> None:
        source = Path(source).expanduser()
        folder = source if source.is_dir() else source.parent
        self.pictures = Pictures(images or folder)
        self.mode = "boxes" if boxes else "review"
        self.items = box_items.read_items(source) if boxes else []
        self.candidates = [] if boxes else read_candidates(source)
        if not self.items and not self.candidates:
            raise DataError(f"{source} has no candidates; there is nothing to review")
        kind = box_items if boxes else decisions
        self.journal = DecisionJournal(Path(out or folder) / kind.JOURNAL_FILE, kind.DECISIONS)
        self.desk = (
            BoxDesk(self.items, self.journal, self.pictures, annotators)
            if boxes
            else ReviewDesk(self.candidates, self.journal, annotators)
        )
        self._similar = SimilarImages(self.pictures, load_embedder(image_model))

    def picture(self, request: dict[str, Any]) -> dict[str, Any]:
        """The image of the item at `index`, as an address for the browser."""
        image = self.desk.image_of(self.desk.index(request))
        return {"src": image if image.startswith(_ADDRESSES) else self.pictures.shown(image)}

    def similar(self, request: dict[str, Any]) -> dict[str, Any]:
        """The images most similar to the image `name` of the folder, or to that of the item at `index`."""
        name = request.get("name") or self.desk.image_of(self.desk.index(request))
        if not isinstance(name, str) or name.startswith(_ADDRESSES):
            raise DataError(f"only images in {self.pictures.folder} can be compared, and this one is at {name}")
        found = self._similar.nearest(name)
        images = [{**each._asdict(), "src": self.pictures.thumbnail(each.name)} for each in found]
        return {"name": self.pictures.name(name), "src": self.pictures.thumbnail(name), "images": images}

    def agreement(self) -> list[Part]:
        """The agreement of the annotators so far, and how to read it, as a document."""
        if self.mode == "boxes":
            by_key = box_items.entries_by_phrase(self.journal, box_items.shown_texts(self.items))
            return [box_items.describe_overlap(box_items.mean_overlap(by_key))]
        standing = self.journal.standing(decisions.shown_texts(self.candidates))
        return report(agreement(votes_of(standing)), {name: len(entries) for name, entries in standing.items()})

    def export(self, path: str | Path) -> str:
        """Export the decisions or boxes, see `decisions.export` and `boxes.export`; the result in a sentence."""
        if self.mode == "boxes":
            boxes = box_items.export(self.items, self.journal, self.pictures, path)
            text = f"{boxes.complete:,} items with {boxes.boxes:,} boxes written to {path}"
            text += f"; {boxes.incomplete:,} left out, as not every phrase is decided" if boxes.incomplete else ""
            stale = boxes.stale
        else:
            done = decisions.export(self.candidates, self.journal, path)
            counts = ", ".join(f"{count:,} {status}" for status, count in done.statuses.items())
            text = f"{counts}; written to {done.files[0]}, and {done.pairs:,} kept pairs to {done.files[1]}"
            stale = done.stale
        return text + (f"; {stale:,} decisions are on texts that have changed, and do not count" if stale else "")


def build(review: Review) -> gradio.Blocks:
    """The page of a review."""
    import gradio as gr

    with gr.Blocks(title=_TITLES[review.mode], analytics_enabled=False) as blocks:
        with gr.Tab(_TITLES[review.mode], id="items"):
            gr.HTML(
                js_on_load="\n".join(_read(name) for name in ("review_page.js", f"review_{review.mode}.js")),
                html_template="<div class='assay-review'></div>",
                annotators=review.desk.annotators,
                apply_default_css=False,
                server_functions=_server_functions(review),
                elem_id="items",
            )
        with gr.Tab("Agreement", id="agreement") as tab:
            table = gr.HTML("<p>Counting …</p>", elem_id="agreement-table", js_on_load=None)
        tab.select(
            lambda: _agreement_or_error(review),
            outputs=table,
            show_progress="hidden",
            queue=False,
            api_visibility="private",
        )
    return blocks


def launch(blocks: gradio.Blocks, **options: Any) -> Any:
    """Serve a page of `build`; `options` are those of gradio's ``launch``."""
    from gradio.themes import Default

    return blocks.launch(css=_read("review.css"), theme=Default(), footer_links=[], **options)


def serve(review: Review, host: str = "127.0.0.1", port: int = 7861) -> None:
    """Print the address and serve a review until Ctrl-C.

    Raises:
        DataError: gradio is not installed.
        VLAssayError: the address cannot be used.
    """
    try:
        blocks = build(review)
    except ModuleNotFoundError as error:
        raise DataError(f"the review page needs {error.name}: pip install 'vl-assay[space]'") from error
    check_address(host, port)
    print(f"the page is at http://{host}:{port}; decisions are written to {review.journal.path}; Ctrl-C ends it")
    launch(blocks, server_name=host, server_port=port, quiet=True)


def _server_functions(review: Review) -> list[Callable[..., dict[str, Any]]]:
    """The functions that the page's script calls by name; errors become answers."""

    def answer(name: str, function: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        def called(request: dict[str, Any]) -> dict[str, Any]:
            try:
                return function(request if isinstance(request, dict) else {})
            except VLAssayError as error:
                return {"error": str(error)}

        called.__name__ = name
        return called

    desk = review.desk
    functions = (desk.open_item, desk.decide, desk.undo, review.picture, review.similar)
    return [answer(function.__name__, function) for function in functions]


def _agreement_or_error(review: Review) -> str:
    try:
        return to_html(review.agreement())
    except VLAssayError as error:
        return f"<p role='alert'>{escape(str(error))}</p>"


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
