"""How fast the leaderboard's page is with 1,000 models × 12 tasks, in Debian's Chromium.

    python tests/benchmarks/bench_board_page.py [--models 1000] [--tasks 12] [--visits 7]

Times are measured in the browser, from the navigation or the first key or click to the rows that follow. The first
visit, which waits for the server's imports, is listed apart. The weight is what the server sends for the page and its
table beyond gradio's own scripts, styles and fonts, uncompressed. Exits with 1 if a median exceeds its goal: 1.5 s for
the first table, 300 ms for a click or a key, 1.5 MB.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from statistics import median
from typing import Any

from harness import read_options
from rich.console import Console
from rich.table import Table
from space_support import many_models, served

GOALS = {"first table": 1500, "search": 300, "family": 300, "sort": 300, "view": 300, "model": 300, "benchmark": 300}
WEIGHT_KB = 1500
ROWS = "document.querySelectorAll('.assay-wide tbody tr')"
SORTED = "document.querySelector('.assay-board th[aria-sort]').innerText.startsWith('Model')"
# The clock starts with the first key or click.
CLOCK = """window.began = null; for (const kind of ['keydown', 'input', 'mousedown']) document.addEventListener(
kind, () => { window.began ??= performance.now(); }, {capture: true, once: true});"""


def wait(page: Any, condition: str, since: str) -> float:
    """Milliseconds from a time to the frame in which the condition holds."""
    return page.wait_for_function(f"({condition}) && performance.now() - {since}", polling="raf").json_value()


def measure(page: Any, address: str) -> dict[str, float]:
    """One visit: milliseconds of each of `GOALS`."""

    def timed(act: Callable[[], None], condition: str) -> float:
        page.wait_for_timeout(500)  # what the step before has set going is over
        page.evaluate(CLOCK)
        act()
        return wait(page, condition, "window.began")

    page.goto(address, wait_until="commit")
    took = {"first table": wait(page, f"{ROWS}.length >= 100", "0")}
    search = page.locator("#search textarea, #search input").first
    took["search"] = timed(lambda: search.press_sequentially("77"), f"{ROWS}.length < 50")
    timed(lambda: search.fill(""), f"{ROWS}.length >= 100")
    page.get_by_text("Filters and scores").click()
    families = page.locator("#families input").first
    families.click()
    page.get_by_role("option", name="family 19").wait_for()
    option = page.get_by_role("option", name="family 19").first
    took["family"] = timed(option.click, f"{ROWS}.length < 100")
    took["sort"] = timed(page.locator("button[data-column='Model']").click, SORTED)
    view = page.locator("#view label", has_text="SugarCrepe")
    took["view"] = timed(view.click, "document.querySelectorAll('.assay-wide .group').length === 1")
    took["model"] = timed(page.locator("a[data-model]").first.click, "document.querySelector('#profile h2')")
    page.get_by_role("tab", name="Benchmarks").click()
    card = page.locator("a[data-benchmark=aro]")
    took["benchmark"] = timed(card.click, "document.querySelector('#levels table')?.checkVisibility()")
    return took


def weigh(page: Any, address: str) -> float:
    """Kilobytes of a visit's answers, without the files that gradio brings along."""
    finished: list[Any] = []
    gradios = ("/assets/", "/static/", "/theme.css", "/svelte/", "/heartbeat/")
    page.on("requestfinished", lambda request: finished.append(request))
    page.goto(address)
    page.wait_for_function(f"{ROWS}.length >= 100")
    page.wait_for_timeout(2000)
    answers = [each.response() for each in finished if not any(part in each.url for part in gradios)]
    return sum(len(answer.body()) for answer in answers) / 1000


def main() -> int:
    """Measure and print; the exit status."""
    arguments = read_options(__doc__, models=1000, tasks=12, visits=7)
    from playwright.sync_api import sync_playwright

    models = many_models(arguments.models, arguments.tasks)
    with (
        tempfile.TemporaryDirectory() as folder,
        served(folder, models) as space,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        visits = []
        for _ in range(1 + arguments.visits):
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            visits.append(measure(page, space.address))
            page.close()
        weight = weigh(browser.new_page(), space.address)
        browser.close()
    first, later = visits[0], visits[1:]
    medians = {name: median(visit[name] for visit in later) for name in GOALS}
    title = f"{arguments.models:,} models × {arguments.tasks} tasks, milliseconds in the browser"
    table = Table("what", "first visit", "median", "worst", "goal", title=title)
    for name, goal in GOALS.items():
        worst = max(visit[name] for visit in later)
        table.add_row(name, f"{first[name]:.0f}", f"{medians[name]:.0f}", f"{worst:.0f}", f"<= {goal}")
    Console(width=100).print(table)
    print(f"beyond gradio's own files: {weight:.0f} kB, goal <= {WEIGHT_KB} kB")
    return 0 if all(medians[name] <= goal for name, goal in GOALS.items()) and weight <= WEIGHT_KB else 1


if __name__ == "__main__":
    sys.exit(main())
