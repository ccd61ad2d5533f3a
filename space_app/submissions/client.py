"""Sending predictions to a leaderboard over its HTTP interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ...metrics.common.errors import DataError, PredictionsError, StorageError

# A server that evaluates many submissions at once is slow to answer.
_SECONDS = 60.0
_MOST_MESSAGE, _MOST_ANSWER = 1_000, 100


def send(address: str, predictions: Sequence[Path], model: Mapping[str, str]) -> dict[str, Any]:
    """Submit the predictions of one model to the leaderboard at an address.

    The token of ``HF_TOKEN`` or ``hf auth login`` is sent only to Spaces, which use it to identify the submitter.

    Args:
        address: the page's address, such as ``"http://127.0.0.1:7860"``, or the name of a Space, ``"owner/name"``.
        predictions: files that ``vl-assay predict`` wrote.
        model: ``name``, ``family``, ``parameters``, ``training_data`` and ``link``, empty if not known.

    Returns:
        The receipt: ``id``, ``time``, ``status``, ``flags``, ``predictions``, the recomputed ``results``, and
        of what was just stored without a login the ``key`` that withdraws it, else "".

    Raises:
        DataError: a file or the library for the connection is missing.
        PredictionsError: the leaderboard refuses the predictions, with its message.
        StorageError: the leaderboard cannot be reached, or its answer is not a receipt. Repeating the call stores
            nothing twice, but its receipt has no ``key``.
    """
    for path in predictions:
        if not path.is_file():
            raise DataError(f"{path} is not a file; name predictions files that `vl-assay predict` wrote")
    try:
        from gradio_client import Client, handle_file
        from huggingface_hub import get_token
    except ModuleNotFoundError as error:
        raise DataError(f"submitting needs a library ({error.name}): pip install 'vl-assay[space]'") from error
    try:
        token = get_token() if _is_space(address) else None
        # With None in place of False the client would send the token to any address.
        options: Any = {"token": token or False, "oauth_token": token, "httpx_kwargs": {"timeout": _SECONDS}}
        client = Client(address, verbose=False, **options)
        answer = client.predict([handle_file(path) for path in predictions], *model.values(), api_name="/submit")
    except Exception as error:  # gradio_client passes on errors of httpx, the server and the Hub
        raise StorageError(
            f"the leaderboard at {address} did not take the predictions ({type(error).__name__}: {error}); check the "
            "address and send the same again, which stores nothing twice; a repeated submission gets no key to "
            "withdraw it"
        ) from error
    fields = answer if isinstance(answer, dict) else {}
    if "error" in fields:
        raise PredictionsError(f"the leaderboard refuses the submission: {str(fields['error'])[:_MOST_MESSAGE]}")
    texts = [fields.get("id"), fields.get("time"), fields.get("status"), key := fields.get("key", "")]
    flags = fields.get("flags")
    is_receipt = isinstance(flags, list) and all(isinstance(text, str) for text in (*texts, *flags))
    if not is_receipt or len(key) > _MOST_ANSWER:
        raise StorageError(
            f"the answer of {address} is not a receipt, so that the predictions may not be stored: "
            f"{repr(answer)[:_MOST_ANSWER]}; check that this is the address of a leaderboard of this version"
        )
    return fields


def _is_space(address: str) -> bool:
    host = urlsplit(address).hostname
    return host is None or (address.startswith("https://") and host.endswith(".hf.space"))
