"""The leaderboard with a thousand models: the page lays out the first of them and says how many more there are."""

from __future__ import annotations

import re
import time

from space_support import many_models

from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.pages.common import columns_of
from vl_assay.space_app.pages.leaderboard import ROWS_AT_ONCE, board_html, opening_headings
from vl_assay.space_app.storage import open_storage

MODELS = 1000


def test_the_page_draws_the_first_rows_and_says_how_many_more(tmp_path):
    catalogue = Catalogue(open_storage(str(tmp_path)), many_models(MODELS, 12))
    columns = columns_of(catalogue.board, opening_headings(catalogue.board))
    html, rows = board_html(catalogue, columns), len(catalogue.board.table(columns))
    assert rows > MODELS
    assert html.count('<th scope="row"') == ROWS_AT_ONCE
    assert f"{rows - ROWS_AT_ONCE:,} more rows: narrow the choice, or show all rows" in html
    assert len(html) < 150_000
    found = board_html(catalogue, columns, search="model 99", origins=["recomputed"])
    names = re.findall(r'<th scope="row" title="(.*?)">', found)
    assert sorted(names) == sorted(f"model {number}" for number in (99, *range(990, 1000)))
    assert "more rows" not in found
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        board_html(catalogue, columns)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.5
