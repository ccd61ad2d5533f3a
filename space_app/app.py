"""The leaderboard Space: connects the pages to a storage and serves them.

Started by ``vl-assay leaderboard``, or by a Space whose ``app_file`` this is.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import Any

import gradio as gr
from gradio.themes import Default
from gradio.themes.utils.fonts import Font, LocalFont
from starlette.middleware import Middleware

from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.pages.about import PICTURE, about_tab, footer_html
from vl_assay.space_app.pages.address import SCRIPT, follow_tabs
from vl_assay.space_app.pages.cards import benchmarks_tab, grid_html
from vl_assay.space_app.pages.common import CSS, QUIET
from vl_assay.space_app.pages.compare import compare_tab
from vl_assay.space_app.pages.gallery import gallery_tab
from vl_assay.space_app.pages.leaderboard import Leaderboard
from vl_assay.space_app.pages.model import model_tab
from vl_assay.space_app.pages.submit import submit_tab
from vl_assay.space_app.storage import open_storage
from vl_assay.space_app.storage.protocol import Storage
from vl_assay.space_app.submissions.submissions import finish
from vl_assay.space_app.submissions.traffic import PageHead, UploadLimit
from vl_assay.space_app.submissions.uploads import most_bytes, prepare, upload_limit

TITLE = "VL-Assay: compositional understanding of vision-language models"
DESCRIPTION = "Vision-language models on benchmarks of composition, recomputed from raw predictions."
INTRODUCTION = """# VL-Assay
What vision-language models understand of composition: who does what to whom, and which colour belongs to which object.
Every number is recomputed from raw predictions, names the table of the paper that prints it, or is the mean of such
numbers."""
# The theme's own file of weight 600 has only a few letters.
_FONTS = [LocalFont("Source Sans Pro", weights=(400, 700)), Font("system-ui"), Font("sans-serif")]
# In the head, because gradio would put its own container before every selector of ``css``.
_HEAD = f"<style>{CSS}</style><script>{SCRIPT}</script>"


def build(catalogue: Catalogue) -> gr.Blocks:
    """Return the pages over a catalogue."""
    # What was uploaded and never sent is deleted after an hour.
    with gr.Blocks(title=TITLE, analytics_enabled=False, delete_cache=(600, 3600)) as blocks:
        gr.Markdown(INTRODUCTION)
        with gr.Tabs(overflow_behavior="wrap") as tab_group:
            tabs_by_id = {}
            with _tab("Leaderboard", tabs_by_id):
                page = Leaderboard(catalogue)
            with _tab("Model", tabs_by_id):
                model, on_open_model = model_tab(catalogue, tabs_by_id["model"])
            with _tab("Compare", tabs_by_id):
                on_open_compare = compare_tab(catalogue)
            with _tab("Errors", tabs_by_id):
                on_open_gallery = gallery_tab(catalogue, tabs_by_id["errors"])
            with _tab("Benchmarks", tabs_by_id):
                on_open_benchmarks = benchmarks_tab(catalogue)
            with _tab("Submit", tabs_by_id):
                submit_tab(catalogue, page)
            with _tab("About", tabs_by_id):
                about_tab()
        gr.HTML(footer_html(), elem_id="links")
        page.follow(model, tab_group)
        follow_tabs(blocks, tab_group, tabs_by_id)
        blocks.load(page.open, outputs=page.opened, **QUIET)
        for on_open in (on_open_model, on_open_compare, on_open_gallery, on_open_benchmarks):
            blocks.load(*on_open, **QUIET)
    return blocks


def _tab(label: str, tabs_by_id: dict[str, gr.Tab]) -> gr.Tab:
    """Return a tab; its id, used in addresses, is its label in lower case."""
    name = label.casefold()
    tabs_by_id[name] = gr.Tab(label, id=name, elem_id=f"tab-{name}")
    return tabs_by_id[name]


def launch(blocks: gr.Blocks, **options: Any) -> Any:
    """Serve the pages that `build` made; `options` go to gradio's ``launch``."""
    _raise_file_limit()
    limits = {
        "max_file_size": upload_limit(),
        "app_kwargs": {
            "middleware": [
                Middleware(UploadLimit, size=most_bytes()),
                Middleware(PageHead, title=TITLE, description=DESCRIPTION, picture=PICTURE),
            ]
        },
    }
    return blocks.launch(head=_HEAD, theme=Default(font=_FONTS), **limits, **options)


def _raise_file_limit() -> None:
    """Raise the limit of open files to the system's maximum, since each connection takes a file descriptor."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 1 << 16)), hard))


def serve(storage: Storage, **options: Any) -> None:
    """Finish submissions that a crash interrupted, and serve the leaderboard of a storage until Ctrl-C."""
    problems = finish(storage)
    catalogue = Catalogue(storage)
    for problem in dict.fromkeys([*problems, *catalogue.problems]):
        print(f"warning: {problem}", file=sys.stderr)
    # What takes seconds, before the first visitor asks for it.
    catalogue.warm()
    threading.Thread(target=grid_html, args=[catalogue.board], daemon=True).start()
    threading.Thread(target=prepare, daemon=True).start()
    launch(build(catalogue), **options)


if __name__ == "__main__":
    serve(open_storage(), server_name=os.environ.get("GRADIO_SERVER_NAME", "0.0.0.0"))
