"""Shared by tests of the leaderboard in a browser."""

from urllib.parse import parse_qs, urlsplit

from axe_playwright_python.sync_playwright import Axe

ROWS = "#board .assay-wide tbody tr"
# What shows that a page has drawn itself.
DRAWN = {
    "leaderboard": "#board .model",
    "model": "#profile h2",
    "compare": ".assay-verdict",
    "errors": ".assay-example",
    "benchmarks": ".benchmark",
    "submit": "#send",
    "about": "#about h2",
}


def choices(page):
    """The names and values in the address of a page."""
    return parse_qs(urlsplit(page.url).query)


def choose(page, element, text):
    """Choose the first option with a text in a dropdown."""
    page.locator(f"{element} input").first.click()
    page.locator(f"{element} input").first.fill(text)
    page.get_by_role("option", name=text).first.click()


def open_tab(page, name):
    """Click on a tab."""
    page.get_by_role("tab", name=name).click()


def serious(page):
    """What axe finds that keeps somebody from using the page."""
    found = Axe().run(page).response["violations"]
    return [
        (each["id"], [node["html"][:200] for node in each["nodes"]][:3])
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
