"""The About page, which is the Space's card, and the links at the foot of every page."""

from __future__ import annotations

import os
from pathlib import Path

import gradio as gr
from markupsafe import Markup

from .common import render

PICTURE = Path(__file__).with_name("social.png")
_CARD = Path(__file__).parents[1] / "README.md"
_CITATION = """## Citing

Cite VL-Assay, and the papers of the benchmarks and metrics that you used; the cards on the page *Benchmarks* have their
entries.

```bibtex
@software{vl_assay,
  title = {VL-Assay: measuring the compositionality of vision-language models},
  author = {{The VL-Assay maintainers}},
  year = {2026}
}
```
"""


def about_tab() -> None:
    """Build the page from the card."""
    _, _, card = _CARD.read_text(encoding="utf-8").split("---\n", 2)
    gr.Markdown(f"{_code()}\n\n{_CITATION}\n{card.strip()}", elem_id="about")


def _code() -> str:
    """Return the section on the code; a Space has a part of it among its files."""
    address = _files()
    place = (
        f"[The files of this Space]({address}) hold the leaderboard, the benchmarks and the metrics, in `vl_assay`; "
        "the code that runs models is in the checkout it was published from."
        if address
        else "This server runs from a checkout."
    )
    return (
        f"## Code and documentation\n\n{place} `pip install -e '.[all]'` installs a checkout. Its README begins "
        "with a first evaluation, and `docs/guide.md` has the tasks one by one; `vl-assay --help` lists the commands."
    )


def _files() -> str:
    """Return the address of a Space's files; empty if this is no Space."""
    space = os.environ.get("SPACE_ID", "")
    return f"https://huggingface.co/spaces/{space}/tree/main" if space else ""


def footer_html() -> Markup:
    """Render the links at the foot of every page."""
    return render("footer.html", files=_files())
