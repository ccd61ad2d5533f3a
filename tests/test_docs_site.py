"""The documentation site: every document, card and docstring is on it, and every link leads somewhere."""

from __future__ import annotations

import json
import re
import runpy
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

from vl_assay.hub_datasets import benchmark_names
from vl_assay.metrics.modules.discovery import metric_names

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow  # the whole site is built


class Page(HTMLParser):
    """What a page links to, what it loads, and the anchors that it has."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loaded, self.anchors = set(), set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors.add(found.get("id"))
        if tag == "a":
            self.links.add(found.get("href") or "")
        elif tag == "link" and found.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.add(found.get("href"))
        elif tag in ("script", "img", "iframe", "source") and found.get("src"):
            self.loaded.add(found["src"])


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    assert runpy.run_path(str(ROOT / "docs" / "build_site.py"))["main"](folder) == 0
    return folder / "site"


@pytest.fixture(scope="module")
def pages(built):
    return {path: Page(path) for path in built.rglob("*.html")}


def test_every_card_and_document_has_a_page_in_the_navigation(built):
    def leaves(entry):
        if isinstance(entry, str):
            return [entry]
        return [leaf for inner in (entry.values() if isinstance(entry, dict) else entry) for leaf in leaves(inner)]

    written = {path.relative_to(built.parent / "pages").as_posix() for path in (built.parent / "pages").rglob("*.md")}
    config = yaml.safe_load((built.parent / "mkdocs.yml").read_text(encoding="utf-8"))
    assert set(leaves(config["nav"])) == written
    assert {f"benchmarks/{name}.md" for name in benchmark_names()} < written
    assert {f"metrics/{name}.md" for name in metric_names()} < written


def test_every_link_of_the_site_leads_to_a_page_and_an_anchor(pages):
    broken = []
    for path, page in pages.items():
        for link in page.links:
            target, _, anchor = unquote(link).partition("#")
            if re.match(r"[a-z]+:", target) or target.startswith("/") or path.name == "404.html":
                continue
            found = (path.parent / target).resolve() if target else path
            if not (found.is_file() and (not anchor or anchor == "__skip" or anchor in pages[found].anchors)):
                broken.append((path.name, link))
    assert broken == []


def test_pages_load_nothing_from_elsewhere(pages):
    assert {source for page in pages.values() for source in page.loaded if re.match(r"(https?:)?//", source)} == set()


def test_search_finds_metrics_and_public_functions(built):
    text = json.dumps(json.loads((built / "search.json").read_text(encoding="utf-8")))
    assert "metrics/brittleness.html" in text
    assert "vl_assay.hub_datasets.load_examples" in text
