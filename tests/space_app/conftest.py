"""Fixtures of the leaderboard's tests."""

from __future__ import annotations

import ssl
from functools import cache
from types import SimpleNamespace

import pytest
from space_support import served


@pytest.fixture
def space(toy, tmp_path):
    """A leaderboard that is served with an empty storage."""
    with served(tmp_path / "storage") as space:
        yield space


@pytest.fixture
def online(monkeypatch, tmp_path):
    """Let huggingface_hub speak to a local server, without waits of its own."""
    from huggingface_hub import close_session, constants
    from huggingface_hub.utils import _http

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(_http, "time", SimpleNamespace(sleep=lambda seconds: None))
    yield
    close_session()


@pytest.fixture
def one_reading_of_certificates(monkeypatch):
    """gradio's client reads all certificates for each request, which takes most of its time."""
    monkeypatch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
