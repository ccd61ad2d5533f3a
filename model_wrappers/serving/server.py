"""The description of a server: its models and versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ...hub_datasets.chat.client import Endpoint, one_line

# The constant fields of the model's entry in the list of models, and of the pages of vLLM, TGI and llama.cpp.
_ENTRY = ("root", "owned_by", "max_model_len")
_PAGES = {"/version": ("version",), "/info": ("model_sha", "model_dtype", "version"), "/props": ("build_info",)}
_MOST_CHARACTERS = 200


def describe(server: Endpoint, retried: Callable[[Callable[[], Any]], Any]) -> dict[str, str]:
    """Return the fields by which a server describes its model and version; missing fields are left out.

    Args:
        server: the server.
        retried: calls a function again while it raises Unanswered.

    Raises:
        Unanswered: it does not answer now.
    """
    reply = retried(lambda: server.get("/models"))
    entries = reply.get("data") if isinstance(reply, dict) else None
    listed = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    described = _texts(next((entry for entry in listed if entry.get("id") == server.name), {}), _ENTRY)
    address = urlsplit(server.base_url)
    for page, names in _PAGES.items():
        reply = retried(lambda page=page: server.get(f"{address.scheme}://{address.netloc}{page}"))
        described |= _texts(reply if isinstance(reply, dict) else {}, names)
    return described


def _texts(page: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    given = (name for name in names if isinstance(page.get(name), str | int))
    return {name: one_line(str(page[name]), _MOST_CHARACTERS) for name in given}
