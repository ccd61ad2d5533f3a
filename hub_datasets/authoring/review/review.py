"""The review in the browser, served by ``vl-assay review``: people judge candidates, or draw boxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....metrics.common.documents import to_html
from ....metrics.common.errors import DataError, VLAssayError, check_known
from ....metrics.common.serving import LOOPBACK, TokenGuard, check_address, new_token
from ..data.candidates import CANDIDATES_FILE, read_candidates
from ..generate.asking import JOURNAL_FILE as ANSWERS_FILE
from . import boxes as box_items
from . import comparing, crossing, decisions, proposals
from .boxes import BoxDesk, read_items
from .desk import ADDRESSES, Desk, ReviewDesk
from .journal import DecisionJournal
from .pictures import Pictures
from .similar import HISTOGRAM, load_embedder

if TYPE_CHECKING:
    import gradio

_HERE = Path(__file__).parent
# Of each page: the reader of its items, its desk, and the name and the decisions of its journal. All but candidates and
# compare are steps of a detection benchmark.
PAGES: dict[str, tuple[Callable[[Path], Sequence[Any]], type[Any], str, Sequence[str]]] = {
    "candidates": (read_candidates, ReviewDesk, decisions.JOURNAL_FILE, decisions.DECISIONS),
    "boxes": (read_items, BoxDesk, box_items.JOURNAL_FILE, box_items.DECISIONS),
    "spot": (proposals.read_pictures, proposals.SpotDesk, proposals.SPOTS_FILE, proposals.SPOT_DECISIONS),
    "rate": (proposals.read_proposals, proposals.RatingDesk, proposals.RATINGS_FILE, proposals.RATING_DECISIONS),
    "cross": (proposals.read_proposals, crossing.CrossDesk, crossing.CROSSED_FILE, crossing.CROSS_DECISIONS),
    "compare": (comparing.read_comparisons, comparing.CompareDesk, comparing.JOURNAL_FILE, comparing.DECISIONS),
    "check": (crossing.read_groups, crossing.CheckDesk, crossing.CHECKED_FILE, crossing.CHECK_DECISIONS),
}


def open_review(
    source: str | Path,
    *,
    out: str | Path | None = None,
    images: str | Path | None = None,
    boxes: bool = False,
    page: str | None = None,
    annotators: Sequence[str] = (),
    image_model: str = HISTOGRAM,
) -> Desk:
    """The desk of candidates, or of items for boxes, with their journal and their images.

    Args:
        source: the candidates' file or a folder with ``candidates.jsonl``; with `boxes` a file of items.
        out: the folder of the journal; by default that of the source.
        images: the folder of the images, by default that of the source; no image outside it is shown.
        boxes: whether to draw boxes instead of judging candidates; the page ``"boxes"``.
        page: one of ``PAGES``; by default ``"candidates"``.
        annotators: who may take part; anybody if empty.
        image_model: finds similar images: ``"histogram"``, or an image-only checkpoint of ``transformers``.

    Raises:
        UnknownNameError: another page.
        DataError, ModelError: the source, the journal, an image or the model cannot be used.
    """
    source = Path(source).expanduser()
    folder = source if source.is_dir() else source.parent
    page = page or ("boxes" if boxes else "candidates")
    check_known("page", [page], PAGES)
    read, desk, journal_file, known = PAGES[page]
    items = read(source)
    if not items:
        raise DataError(f"{source} has no candidates; there is nothing to review")
    reviewed = source / CANDIDATES_FILE if source.is_dir() else source
    journals = [ANSWERS_FILE, *(name for _, _, name, _ in PAGES.values())]
    others = [reviewed, *(place / name for place in (folder, Path(out or folder)) for name in journals)]
    journal = DecisionJournal(Path(out or folder) / journal_file, known, others)
    return desk(items, journal, Pictures(images or folder), annotators, load_embedder(image_model))


def check_images(desk: Desk) -> str:
    """Look for the images of all items; a note if some cannot be shown, "" if all can.

    Raises:
        DataError: none can.
    """
    missing: dict[str, str] = {}
    for item in desk.items:
        try:
            if not item.image:
                raise DataError("it has none")
            if not item.image.startswith(ADDRESSES):
                desk.pictures.path(item.image)
        except DataError as error:
            missing[item.id] = str(error)
    if not missing:
        return ""
    first, reason = next(iter(missing.items()))
    found = f"{len(missing):,} of {len(desk.items):,} items have no image that can be shown; of {first}: {reason}"
    if len(missing) < len(desk.items):
        return found
    raise DataError(
        f"{found}. Name the folder that has them with --images, let `vl-assay generate` copy them (without its "
        "--no-images), or give --no-images to judge captions alone"
    )


def build(desk: Desk) -> gradio.Blocks:
    """The page of a review."""
    import gradio as gr

    functions = (desk.open_item, desk.decide, desk.undo, desk.picture, desk.similar)
    with gr.Blocks(title=desk.title, analytics_enabled=False) as blocks:
        with gr.Tab(desk.title, id="items"):
            gr.HTML(
                js_on_load="\n".join(_read(name) for name in ("review_page.js", desk.script)),
                html_template="<div class='assay-review'></div>",
                annotators=desk.annotators,
                apply_default_css=False,
                server_functions=[*map(_answering, functions)],
                elem_id="items",
            )
        with gr.Tab("Agreement", id="agreement") as tab:
            table = gr.HTML("<p>Counting …</p>", elem_id="agreement-table", js_on_load=None)
        tab.select(
            lambda: _agreement_or_error(desk),
            outputs=table,
            show_progress="hidden",
            queue=False,
            api_visibility="private",
        )
    return blocks


def launch(blocks: gradio.Blocks, token: str, **options: Any) -> Any:
    """Serve a page of `build` to those who open it with the token; `options` are those of gradio's ``launch``."""
    from gradio.themes import Default
    from starlette.middleware import Middleware

    is_local = options.get("server_name") in LOOPBACK
    guard = {"middleware": [Middleware(TokenGuard, token=token, is_local=is_local)]}
    return blocks.launch(
        css=_read("review.css"), theme=Default(), footer_links=[], app_kwargs=guard, ssr_mode=False, **options
    )


def serve(desk: Desk, host: str = "127.0.0.1", port: int = 7861) -> None:
    """Print the address and serve a review until Ctrl-C.

    Raises:
        DataError: gradio is not installed.
        VLAssayError: the address cannot be used.
    """
    try:
        blocks = build(desk)
    except ModuleNotFoundError as error:
        raise DataError(f"the review page needs {error.name}: pip install 'vl-assay[space]'") from error
    check_address(host, port)
    token = new_token()
    print(f"the page is at http://{host}:{port}/?token={token}")
    print(f"decisions are written to {desk.journal.path}; Ctrl-C ends it")
    launch(blocks, token, server_name=host, server_port=port, quiet=True)


def _answering(function: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """A function that the page's script calls by name; errors become answers."""

    @wraps(function)
    def called(request: dict[str, Any]) -> dict[str, Any]:
        try:
            return function(request if isinstance(request, dict) else {})
        except VLAssayError as error:
            return {"error": str(error)}

    return called


def _agreement_or_error(desk: Desk) -> str:
    try:
        return to_html(desk.agreement())
    except VLAssayError as error:
        return f"<p role='alert'>{escape(str(error))}</p>"


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
