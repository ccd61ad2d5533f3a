"""The review in the browser, served by ``vl-assay review``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....metrics.common.documents import to_html
from ....metrics.common.errors import DataError, VLAssayError, check_known
from ....metrics.common.serving import LOOPBACK, TokenGuard, check_address, new_token
from ....metrics.common.storage import with_home
from ..data.made import JOURNAL_SUFFIX, REVIEWED_FILE
from . import boxes, candidates, construction
from .desk import Desk
from .journal import DecisionJournal
from .page import ReviewPage
from .pictures import Pictures

if TYPE_CHECKING:
    import gradio

_HERE = Path(__file__).parent
PAGES: dict[str, ReviewPage] = {"candidates": candidates.PAGE, "pairs": construction.PAGE, "boxes": boxes.PAGE}


def open_review(
    source: str | Path,
    *,
    page: str = "candidates",
    out: str | Path | None = None,
    images: str | Path | None = None,
    annotators: Sequence[str] = (),
) -> Desk:
    """Open a page with its items, its journal and its images.

    Args:
        source: the file of the items, or a folder with ``candidates.jsonl``.
        page: one of ``PAGES``.
        out: the folder of the journal; by default the folder of the source.
        images: the folder of the images, by default the folder of the source; no image outside it is shown.
        annotators: who decides, each on every item; anybody if empty.

    Raises:
        UnknownNameError: another page.
        DataError: the source, the journal or an image cannot be used.
    """
    source = with_home(source)
    folder = source if source.is_dir() else source.parent
    check_known("page", [page], PAGES)
    if source.name.endswith(REVIEWED_FILE):
        raise DataError(f"{source} is written by `review --summary`; give the file of the candidates")
    items = PAGES[page].read(source)
    if not items:
        raise DataError(f"{source} has no candidates; there is nothing to review")
    journal = DecisionJournal(Path(out or folder) / f"{page}{JOURNAL_SUFFIX}")
    return Desk(PAGES[page], items, journal, Pictures(images or folder, folder), annotators)


def write_results(desk: Desk, page: str) -> Path:
    """Write the results of a review to the folder of its journal, see `data.made`; return the file."""
    name = REVIEWED_FILE if page == "candidates" else f"{page}-{REVIEWED_FILE}"
    path = desk.journal.path.with_name(name)
    desk.write(path)
    return path


def check_images(desk: Desk) -> str:
    """Look for the images of all items; return a note if some cannot be shown, "" if all can.

    Raises:
        DataError: none of the images that the items name can be shown.
    """
    missing: dict[str, str] = {}
    named = [(item.id, name) for item in desk.items for name in desk.page.show(item).images]
    for id, name in named:
        try:
            desk.pictures.path(name)
        except DataError as error:
            missing.setdefault(id, str(error))
    if not named:
        return "no item names an image, so texts are judged alone"
    if not missing:
        return ""
    first, reason = next(iter(missing.items()))
    summary = f"{len(missing):,} of {len(desk.items):,} items have no image that can be shown; of {first}: {reason}"
    if len(missing) < len({id for id, _ in named}):
        return summary
    raise DataError(
        f"{summary}. Name the folder that has them with --images, or let `vl-assay generate` copy them (without "
        "`images: false`)"
    )


def build(desk: Desk) -> gradio.Blocks:
    """Build the page."""
    import gradio as gr

    functions = (desk.open_item, desk.decide, desk.undo, desk.picture)
    with gr.Blocks(title=desk.page.title, analytics_enabled=False) as blocks:
        gr.Markdown(f"# {desk.page.title}\n\n{desk.page.instructions}")
        with gr.Tab("Items", id="items"):
            gr.HTML(
                js_on_load=(_HERE / "review.js").read_text(encoding="utf-8"),
                html_template="<div class='assay-review'></div>",
                annotators=desk.annotators,
                apply_default_css=False,
                server_functions=[*map(_with_errors, functions)],
                elem_id="items",
            )
        with gr.Tab("Agreement", id="agreement") as tab:
            table = gr.HTML("<p>Counting …</p>", elem_id="agreement-table", js_on_load=None)
        tab.select(
            lambda: _report_or_error(desk),
            outputs=table,
            show_progress="hidden",
            queue=False,
            api_visibility="private",
        )
    return blocks


def launch(blocks: gradio.Blocks, token: str, **options: Any) -> Any:
    """Serve a page of `build` to users who have the token; `options` are passed to gradio's ``launch``."""
    from gradio.themes import Default
    from starlette.middleware import Middleware

    is_local = options.get("server_name") in LOOPBACK
    guard = {"middleware": [Middleware(TokenGuard, token=token, is_local=is_local)]}
    css = (_HERE / "review.css").read_text(encoding="utf-8")
    return blocks.launch(
        css=css, theme=Default(primary_hue="teal"), footer_links=[], app_kwargs=guard, ssr_mode=False, **options
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
    print(f"decisions are written to {desk.journal.path}; Ctrl-C ends it", flush=True)
    launch(blocks, token, server_name=host, server_port=port, quiet=True)


def _with_errors(function: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Return a function that the page's script calls by name; its answer has the message of an error."""

    @wraps(function)
    def called(request: dict[str, Any]) -> dict[str, Any]:
        try:
            return function(request if isinstance(request, dict) else {})
        except VLAssayError as error:
            return {"error": str(error)}

    return called


def _report_or_error(desk: Desk) -> str:
    try:
        return to_html(desk.report())
    except VLAssayError as error:
        return f"<p role='alert'>{escape(str(error))}</p>"
