"""Network access: whether a host can be reached, and work without the network."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from urllib.parse import urlsplit
from urllib.request import getproxies

_SECONDS = 5.0


def is_hub_reachable() -> bool:
    """Return whether the Hub can be reached; if not, the Hugging Face libraries use only their caches from now on."""
    from huggingface_hub import constants

    if not constants.HF_HUB_OFFLINE and not is_reachable(constants.ENDPOINT):
        constants.HF_HUB_OFFLINE = True
        if "datasets" in sys.modules:  # which has copied the constant
            sys.modules["datasets"].config.HF_HUB_OFFLINE = True
    return not constants.HF_HUB_OFFLINE


@contextmanager
def without_network() -> Iterator[None]:
    """Make the Hugging Face libraries use only their caches within the block, so that builders refuse downloads."""
    from datasets import config
    from huggingface_hub import constants

    before = config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before


@cache
def is_reachable(url: str) -> bool:
    """Return whether a host accepts a connection; True behind a proxy, where only a request can tell."""
    parts = urlsplit(url)
    if getproxies() or not parts.hostname:
        return True
    try:
        port = parts.port or (80 if parts.scheme == "http" else 443)
        socket.create_connection((parts.hostname, port), timeout=_SECONDS).close()
    except OSError:
        return False
    return True
