"""Fixtures of the leaderboard's tests."""

from __future__ import annotations

import ssl
from functools import cache

import pytest
from space_support import served


@pytest.fixture(scope="module")
def shared_space(toy, tmp_path_factory):
    """A leaderboard that is served to all tests of a file; its storage is empty at first."""
    with served(tmp_path_factory.mktemp("storage")) as space:
        yield space


@pytest.fixture
def visit(new_page, shared_space):
    """A function that opens a tab, with a query in its address."""
    from pages_support import DRAWN

    def visit(tab="leaderboard", query=""):
        page = new_page()
        page.goto(f"{shared_space.address}/?__theme=light&tab={tab}{query}", wait_until="domcontentloaded")
        drawn = ".assay-board, .assay-verdict, .assay-example, #profile h2, #profile .assay-message"
        page.locator(drawn if query else DRAWN[tab]).locator("visible=true").first.wait_for()
        return page

    return visit


@pytest.fixture
def one_reading_of_certificates(monkeypatch):
    """gradio's client reads all certificates for each request, which takes most of its time."""
    monkeypatch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
