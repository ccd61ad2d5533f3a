"""The leaderboard with a thousand models: the page lays out the first of them and says how many more there are."""

from __future__ import annotations

import re
import time

from space_support import many_models

from vl_assay.space_app import app
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.pages import tables as _tables
from vl_assay.space_app.storage import open_storage

MODELS = 1000


def drawn(catalogue, **choice):
    """The table that opens as HTML, its number of rows, and the seconds that it took."""
    start, board = time.perf_counter(), catalogue.board
    columns = app._columns(board.columns, app._opening(board))
    frame = board.table(columns, **choice)
    html = _tables.board_html(board, frame, board.marks(frame, columns, catalogue.ties(columns)), columns)
    return html, len(frame), time.perf_counter() - start


def test_the_page_draws_the_first_rows_and_says_how_many_more(tmp_path):
    with many_models(MODELS, 12):
        catalogue = Catalogue(open_storage(str(tmp_path)))
    html, rows, _ = drawn(catalogue)
    assert rows > MODELS
    assert html.count("<th scope='row'") == _tables.ROWS_AT_ONCE
    assert f"{rows - _tables.ROWS_AT_ONCE:,} more rows: narrow the choice, or show all rows" in html
    assert len(html) < 150_000
    found, _, _ = drawn(catalogue, search="model 99", origins=["recomputed"])
    names = re.findall(r"<th scope='row' title='(.*?)'>", found)
    assert sorted(names) == sorted(f"model {number}" for number in (99, *range(990, 1000)))
    assert "more rows" not in found
    assert min(drawn(catalogue)[2] for _ in range(5)) < 0.5
