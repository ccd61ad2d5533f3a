"""Tables of reports in every format, and pages that need no other file."""

import dataclasses
import math
import re

import pytest

from vl_assay.metrics.common.documents import (
    BEST,
    EQUAL,
    INTERVAL,
    Cell,
    Column,
    Fold,
    HtmlFigure,
    Markdown,
    Table,
    TableRow,
    Verdict,
    bullets,
    in_a_line,
    print_tables,
    simple_table,
    to_html,
    to_latex,
    to_markdown,
    to_page,
)
from vl_assay.metrics.common.figures import (
    Bar,
    bars_html,
    legend_html,
)

NUMBERS = simple_table(
    ["probe", "all", "ties"],
    [["a|b", "50.0", "< 1"], ["<i>c</i>", "`x_y`", "3"], None, ["chance", "50", ""]],
    title="Without <the> image",
    text="100 % of pairs.",
    note="A note.",
    numbers=True,
)


HOSTILE = ["![x](http://tracker.example/a.png)", "[free](javascript:alert(1))", "<img src=x>", "https://evil.example/a",
           "www.evil.example", "[a][b]", "[b]: x.md", "<https://evil.example>", "``<img src=x>`", "</table><script>",
           "WWW.a.b", "<!-- ", "FTP://evil.example"]  # fmt: skip


@pytest.mark.parametrize("place", ["cell", "title", "paragraph", "note", "text", "verdict", "list", "fold"])
def test_a_name_in_markdown_loads_and_links_nothing(place):
    name = " ".join(HOSTILE)
    table = simple_table(["model"], [[name, ""]])
    parts = {
        "cell": [table],
        "title": [dataclasses.replace(table, title=f"{name} on itm")],
        "note": [dataclasses.replace(table, note=f"By {name}.")],
        "text": [dataclasses.replace(table, text=f"By {name}.")],
        "paragraph": [f"{name} is better."],
        "verdict": [Verdict(f"{name} is better")],
        "list": bullets([f"{name} is better", name]),
        "fold": [Fold(name, (name,))],
    }[place]
    for text in (to_markdown(parts), to_markdown(parts, title=name)):
        assert not re.search(r"<[A-Za-z/!?]|\][(\[:]|(https?|ftp)://|www\.", text, re.IGNORECASE), text


def test_a_link_that_a_report_makes_is_kept():
    assert to_markdown([Markdown("[a](b.md)")]) == "[a](b.md)\n"


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
    text = to_latex([NUMBERS, NUMBERS])
    assert r"\begin{tabular}{lrr}" in text
    assert "`x\\_y` & 3 \\\\\n\\midrule\nchance & 50 &  \\\\" in text
    assert r"\caption{Without \textless{}the\textgreater{} image. 100 \% of pairs. A note.}" in text
    assert re.findall(r"\\label\{(.*)\}", text) == ["tab:without-the-image", "tab:without-the-image-2"]


MODELS = Table(
    "Scores",
    (Column("accuracy", (INTERVAL,), group="itm"), Column("macro accuracy", (INTERVAL,), group="itm"), Column("n")),
    (
        TableRow("a", (Cell("84.3", ("83.4 – 85.1",), BEST), Cell("84.0", ("83.0 – 85.0",)), Cell("9"))),
        TableRow("b--c 中", (Cell("84.1", ("83.2 – 85.0",), EQUAL), Cell("–", ("",)), Cell("9"))),
    ),
    corner="model",
    has_details_below=True,
)


def test_marks_groups_and_details_below_values_in_every_format():
    assert to_markdown([MODELS]).splitlines()[2:] == [
        "| model | itm accuracy | itm macro accuracy | n |",
        "|---|---:|---:|---:|",
        "| a | **84.3**<br>83.4 – 85.1 | 84.0<br>83.0 – 85.0 | 9 |",
        "| b--c 中 | 84.1 †<br>83.2 – 85.0 | – | 9 |",
    ]
    latex = to_latex([MODELS])
    assert r" & \multicolumn{2}{c}{itm} & \multicolumn{1}{c}{} \\" in latex
    assert r"\cmidrule(lr){2-3}" in latex
    assert r"model & accuracy & \shortstack[r]{macro\\accuracy} & n \\" in latex
    assert r"a & \textbf{84.3} & 84.0 & 9 \\" in latex
    assert r" & \scriptsize 83.4--85.1 & \scriptsize 83.0--85.0 &  \\" in latex
    assert r"b-{}-c U+4E2D & 84.1\rlap{$^\dagger$} & -- & 9 \\" in latex
    html = to_html([MODELS])
    assert '<th scope="colgroup" colspan="2" class="above">itm</th>' in html
    assert "<td><strong>84.3</strong><br><small>83.4 – 85.1</small></td>" in html
    assert "<td>84.1 †<br><small>83.2 – 85.0</small></td>" in html


def test_a_page_folds_parts_that_markdown_and_the_terminal_show_as_they_are(capsys):
    parts = [Verdict("All is <lost>", is_warning=True), Fold("More & more", (NUMBERS, "text"))]
    html = to_html(parts)
    assert '<p class="verdict warn">All is &lt;lost&gt;</p>' in html
    assert re.search(r"<details><summary>More &amp; more</summary>.*<p>text</p>\s*</details>", html, flags=re.S)
    assert to_markdown(parts) == "**All is &lt;lost>**\n\n" + to_markdown([NUMBERS, "text"])
    print_tables(parts)
    assert "All is <lost>" in capsys.readouterr().out


def test_html_escapes_all_but_code_and_figures():
    html = to_html([NUMBERS, HtmlFigure("<svg></svg>", title="Plot & more"), "a <b> paragraph"])
    assert "<h4>Without &lt;the&gt; image</h4>" in html
    assert '<th scope="row">&lt;i&gt;c&lt;/i&gt;</th><td><code>x_y</code></td>' in html
    assert "<h4>Plot &amp; more</h4><svg></svg>" in html
    assert "<p>a &lt;b&gt; paragraph</p>" in html
    lines = to_html([simple_table(["a", "b"], [["x", "`1`\n`2`"]])])
    assert '<td class="text"><code>1</code><br><code>2</code></td>' in lines


def test_a_page_with_figures_refers_to_nothing_outside_and_has_no_script():
    bar = Bar("#123456", 25.0, 20.0, 40.0, "25.0 %", 'a "quoted" <name>')
    missing = bar._replace(value=math.nan, text="–")
    bars = bars_html({"<cat>": [bar, missing]}, (0.0, 100.0), {"<cat>": {"chance": 50.0}})
    assert '<i class="bar" style="left:0.0%;width:25.00%;background:#123456"></i>' in bars
    assert '<i class="whisker" style="left:20.0%;width:20.00%"></i>' in bars
    assert bars.count('class="bar"') == 1
    assert bars.count('<i class="level chance" style="left:50.0%"></i>') == 2
    page = to_page("Audit of <x>", [NUMBERS, HtmlFigure(bars + legend_html({"<m>": "#123456"}, ["chance"]))])
    assert page.startswith("<!doctype html>")
    assert page.count("<title>Audit of &lt;x&gt;</title>") == page.count("<h1>Audit of &lt;x&gt;</h1>") == 1
    assert "--assay-ink: light-dark(" in page
    assert not re.search(r"<script|<link|<img|url\(|http|<cat>|<m>|<x>|<name>", page)


@pytest.mark.parametrize("width", [30, 80])
def test_a_terminal_wraps_text_and_cuts_nothing(width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    words = [f"word{n}" for n in range(12)]
    text = simple_table(["finding [1]", "meaning"], [["[red]a", " ".join(words)], None, ["b", "x"]], title="T")
    print_tables([text, NUMBERS, MODELS, "[bold]paragraph"])
    output = capsys.readouterr().out
    assert max(map(len, output.splitlines())) <= width
    shown = (*words, "[red]a", "[1]", "a|b", "< 1", "A note.", "[bold]paragraph", "84.1 †", "83.0 – 85.0", "b--c 中")
    for expected in shown:
        assert expected in output
    assert "…" not in output
    # Once, and once more for each further part of a table that is too wide.
    assert output.count("b--c 中") == (1 if width == 80 else 2)
    assert output.count("├") >= 2
