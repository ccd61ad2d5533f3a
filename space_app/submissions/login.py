"""The identity of the submitter: on a Space a verified user of the Hub, elsewhere anonymous.

Visitors of a Space log in with a button, and gradio keeps their name in a signed cookie. Programs send a token of the
Hub, and the Hub returns its owner. A name that was typed or sent is never trusted.
"""

from __future__ import annotations

import os
import re

import gradio as gr
from gradio.utils import get_space

from ...hub_datasets.hub.calls import hub_errors
from ...metrics.common.errors import StorageError, SubmissionError


def is_offered() -> bool:
    """Return whether visitors can log in: on a Space whose card has ``hf_oauth: true``."""
    return get_space() is not None and bool(os.environ.get("OAUTH_CLIENT_ID") and os.environ.get("OAUTH_CLIENT_SECRET"))


def visitor(profile: gr.OAuthProfile | None) -> str:
    """Return the name of the visitor who is logged in, else ""."""
    return profile.username if profile is not None and is_offered() else ""


def sender(profile: gr.OAuthProfile | None, token: gr.OAuthToken | None = None) -> str:
    """Return the verified name of the submitter; "" without login, which only Spaces have.

    Args:
        profile: the profile that gradio read from the signed cookie.
        token: the token that a program sent.

    Raises:
        SubmissionError: on a Space, if nobody is logged in, the token is not a user's own, or no storage is set.
        StorageError: the Hub cannot be reached to verify the token.
    """
    if "SPACE_ID" not in os.environ:
        return ""
    if not os.environ.get("VL_ASSAY_STORAGE"):
        raise SubmissionError(
            "this Space would lose submissions when it restarts; its owner has to set VL_ASSAY_STORAGE, see its card"
        )
    user = visitor(profile) or (_owner(token.token) if token is not None else "")
    if not user:
        raise SubmissionError(
            "nobody is logged in, and submissions here bear the name of a user; use the button above, or in a program "
            "send a token: `hf auth login`, then `vl-assay submit`"
        )
    return user


def _owner(token: str) -> str:
    """Return the user that a token belongs to, as verified by the Hub."""
    from huggingface_hub import whoami

    # With an empty token `whoami` would use the Space's own.
    if not re.fullmatch(r"[\w.-]{8,4000}", token, re.ASCII):
        raise SubmissionError("what was sent is not a Hub token; send one of yours")
    try:
        account = whoami(token)
    except hub_errors() as error:
        if getattr(getattr(error, "response", None), "status_code", None) in (401, 403):
            raise SubmissionError("the Hub knows no such token; make a new one, and `hf auth login`") from None
        raise StorageError("the Hub cannot be asked whose token it is; send the same again in some minutes") from error
    # A token that another app got from its visitor does not identify the sender.
    if account.get("type") != "user" or account.get("auth", {}).get("type") != "access_token":
        raise SubmissionError("the token is not a user's own access token; make one at huggingface.co/settings/tokens")
    return str(account["name"])
