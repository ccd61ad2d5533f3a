"""Helpers of the tests of the review page: candidates with images, items for boxes, a page that is served."""

import json
from contextlib import contextmanager

from PIL import Image

from vl_assay.hub_datasets.authoring.data.candidates import Candidate
from vl_assay.hub_datasets.authoring.data.tables import write_rows
from vl_assay.hub_datasets.authoring.review.review import build, launch, open_review

COLOURS = ("red", "blue", "green", "orange", "purple", "black")

TOKEN = "of-this-launch"


def candidate(number=0, **changes):
    """A hard negative about an image of its own."""
    one, other = COLOURS[number % 6], COLOURS[(number + 1) % 6]
    made = Candidate(
        id=f"{number}/swap_att",
        image=f"images/{number}.png",
        caption=f"a {one} ball beside a {other} box",
        candidate=f"a {other} ball beside a {one} box",
        kind="swap_att",
        is_positive=False,
        source="rules",
        detail={},
    )
    return made._replace(**changes)


def draw_image(path, number=0, size=(640, 400)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, COLOURS[number % 6]).save(path)


def write_set(folder, count, **changes_of_first):
    """A candidates' file with an image for each; the first candidate may be another."""
    candidates = [candidate(0, **changes_of_first), *map(candidate, range(1, count))]
    for number in range(count):
        draw_image(folder / "images" / f"{number}.png", number)
    write_rows(candidates, folder / "candidates.jsonl")
    return candidates


def box_item(number):
    row = candidate(number)
    phrases = []
    for text in (row.caption[: row.caption.index(" beside")], row.caption[row.caption.index("a ", 2) :]):
        start = row.caption.index(text)
        phrases.append({"text": text, "start": start, "end": start + len(text)})
    return {"id": str(number), "image": row.image, "caption": row.caption, "phrases": phrases}


def write_items(folder, count=2):
    for number in range(count):
        draw_image(folder / "images" / f"{number}.png", number, (1600, 1000))
    path = folder / "items.jsonl"
    path.write_text("".join(json.dumps(box_item(number)) + "\n" for number in range(count)), encoding="utf-8")
    return path


@contextmanager
def served(source, new_page=None, **options):
    """The desk of a review that is served, and a function that opens its page; pages are closed before the server."""
    desk, pages = open_review(source, **options), []
    blocks = build(desk)
    _, address, _ = launch(blocks, TOKEN, prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")

    def visit(annotator="", width=1440):
        page = new_page(width)
        pages.append(page)
        query = f"token={TOKEN}" + (f"&annotator={annotator}" if annotator else "")
        page.goto(f"{address}?{query}", wait_until="domcontentloaded")
        return page

    try:
        yield desk, visit if new_page else address.rstrip("/")
    finally:
        for page in pages:
            page.close()
        blocks.close(verbose=False)


def wait_for(page, text):
    """Wait until the page is at rest and has a text."""
    page.wait_for_function(
        "text => { const root = document.querySelector('.assay-review'); return root !== null && "
        "!root.hasAttribute('aria-busy') && root.innerText.includes(text); }",
        arg=text,
    )


def decide(desk, annotator, id, **answers):
    return desk.decide({"annotator": annotator, "id": id, "answers": answers})
