"""Tables of reports in every format, and pages that need no other file."""

from __future__ import annotations

import numpy as np
import pytest

from vl_assay.metrics.common.documents import (
    HtmlFigure,
    in_a_line,
    print_tables,
    simple_table,
    to_html,
    to_latex,
    to_markdown,
    to_page,
)
from vl_assay.metrics.common.figures import COLOURS, as_fragment, colours, histogram, plotly_grid

NUMBERS = simple_table(
    ["probe", "all", "ties"],
    [["a|b", "50.0", "< 1"], ["<i>c</i>", "`x_y`", "3"], None, ["chance", "50", ""]],
    title="Without <the> image",
    text="100 % of pairs.",
    note="A note.",
    numbers=True,
)


@pytest.mark.parametrize("name", ["![x](http://tracker.example/a.png)", "[free](javascript:alert(1))", "<img src=x>"])
def test_a_name_in_markdown_loads_and_links_nothing(name):
    table = simple_table(["model"], [[name, ""]], title=name)
    for text in (to_markdown([table]), to_markdown([table], title=name)):
        assert "](" not in text
        assert "<img" not in text


def test_markdown_keeps_cells_in_their_row_and_opens_no_tag():
    assert to_markdown([NUMBERS, "- a list"], "A title") == (
        "## A title\n\n### Without &lt;the> image\n\n100 % of pairs.\n\n"
        "| probe | all | ties |\n|---|---:|---:|\n"
        "| a\\|b | 50.0 | < 1 |\n| &lt;i>c&lt;/i> | `x_y` | 3 |\n| chance | 50 |  |\n\n"
        "A note.\n\n- a list\n"
    )
    text = simple_table(["a", "b"], [["x\ny", "z"]])
    assert to_markdown([text]) == "| a | b |\n|---|---|\n| x y | z |\n"
    assert to_markdown([]) == ""
    assert in_a_line("<!-- end -->") == "&lt;!-- end -->"


def test_latex_separates_groups_and_escapes():
    text = to_latex([NUMBERS])
    assert r"\begin{tabular}{lrr}" in text
    assert "`x\\_y` & 3 \\\\\n\\midrule\nchance & 50 &  \\\\" in text
    assert r"\caption{Without \textless the\textgreater  image. 100 \% of pairs. A note.}" in text


def test_html_escapes_all_but_code_and_figures():
    html = to_html([NUMBERS, HtmlFigure("<svg></svg>", title="Plot & more"), "a <b> paragraph"])
    assert "<h4>Without &lt;the&gt; image</h4>" in html
    assert "<th>&lt;i&gt;c&lt;/i&gt;</th><td><code>x_y</code></td>" in html
    assert "<h4>Plot &amp; more</h4><svg></svg>" in html
    assert "<p>a &lt;b&gt; paragraph</p>" in html
    lines = to_html([simple_table(["a", "b"], [["x", "`1`\n`2`"]])])
    assert '<td class="text"><code>1</code><br><code>2</code></td>' in lines


def test_a_page_with_figures_refers_to_nothing_outside():
    figure = plotly_grid(1, 2, subplot_titles=["counts", "shares"])
    values, edges = np.array([-9.0, 0.1, 0.2, 0.6]), np.linspace(0, 1, 3)
    for column, shares in ((1, False), (2, True)):
        figure.add_trace(histogram(values, edges, shares=shares), row=1, col=column)
    counts, parts = figure.data
    assert (list(counts.x), list(counts.y), list(parts.y)) == ([0.25, 0.75], [3, 1], [0.75, 0.25])
    page = to_page("Audit of <x>", [NUMBERS, HtmlFigure(as_fragment(figure))])
    assert page.startswith("<!doctype html>")
    assert page.count("<title>Audit of &lt;x&gt;</title>") == page.count("<h1>Audit of &lt;x&gt;</h1>") == 1
    assert '<link rel="stylesheet"' not in page
    assert 'src="http' not in page


@pytest.mark.parametrize("width", [30, 80])
def test_a_terminal_wraps_text_and_cuts_nothing(width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    words = [f"word{n}" for n in range(12)]
    text = simple_table(["finding [1]", "meaning"], [["[red]a", " ".join(words)], None, ["b", "x"]], title="T")
    print_tables([text, NUMBERS, "[bold]paragraph"])
    output = capsys.readouterr().out
    assert max(map(len, output.splitlines())) <= width
    for expected in (*words, "[red]a", "[1]", "a|b", "< 1", "A note.", "[bold]paragraph"):
        assert expected in output
    assert output.count("├") >= 2


def test_names_have_colours_of_their_own():
    found = colours([f"model {n}" for n in range(20)] * 2)
    assert list(found.values())[: len(COLOURS)] == list(COLOURS)
    assert len(set(found.values())) == 20
