"""Who submits: on a Space the verified user of the Hub, elsewhere nobody in particular.

On a Space a visitor logs in with a button, and gradio keeps who that is in a signed cookie. A program sends a token of
the Hub, and the Hub is asked whose it is. A name is never taken from what is typed or sent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

import gradio as gr
from gradio.utils import get_space

from ...metrics.common.errors import StorageError, SubmissionError, VLAssayError
from .receipts import problem
from .submissions import submissions, withdraw

if TYPE_CHECKING:
    from ..board.catalogue import Catalogue
    from ..storage.storage import Storage

_LOG_IN = (
    "nobody is logged in, and a submission here bears the name of who made it; use the button above, or in a program "
    "send a token: `hf auth login`, then `vl-assay submit`"
)


def is_offered() -> bool:
    """Whether visitors can log in: on a Space whose card says ``hf_oauth: true``."""
    return get_space() is not None and bool(os.environ.get("OAUTH_CLIENT_ID") and os.environ.get("OAUTH_CLIENT_SECRET"))


def button() -> None:
    """The button to log in and out, where that is offered."""
    if is_offered():
        gr.LoginButton(elem_id="login")


def visitor(profile: gr.OAuthProfile | None) -> str:
    """The name of a visitor who is logged in, else ""."""
    return profile.username if profile is not None and is_offered() else ""


def sender(profile: gr.OAuthProfile | None, token: gr.OAuthToken | None = None) -> str:
    """The verified name of who sends something; "" where there is no login, which is anywhere but on a Space.

    Args:
        profile: what gradio knows of the visitor from the signed cookie.
        token: what a program sent.

    Raises:
        SubmissionError: on a Space, where nobody is logged in, the token is no user's own, or nothing would be kept.
        StorageError: the Hub cannot be asked whose token it is.
    """
    if "SPACE_ID" not in os.environ:
        return ""
    if not os.environ.get("VL_ASSAY_STORAGE"):
        raise SubmissionError(
            "this Space would forget a submission when it restarts; its owner has to set VL_ASSAY_STORAGE, as its card "
            "says"
        )
    user = visitor(profile) or (_owner(token.token) if token is not None else "")
    if not user:
        raise SubmissionError(_LOG_IN)
    return user


def _owner(token: str) -> str:
    """Whose token it is, as the Hub says."""
    import httpx
    from huggingface_hub import whoami
    from huggingface_hub.errors import HfHubHTTPError

    try:
        # Without this the Hub would be asked about the Space's own token, where none came.
        if not re.fullmatch(r"[\w.-]{8,4000}", token, re.ASCII):
            raise SubmissionError("what was sent is no token of the Hub; send one of yours")
        found = whoami(token)
    except (HfHubHTTPError, httpx.HTTPError, OSError) as error:
        if getattr(getattr(error, "response", None), "status_code", None) in (401, 403):
            raise SubmissionError("the Hub knows no such token; make a new one, and `hf auth login`") from None
        raise StorageError("the Hub cannot be asked whose token it is; send the same again in some minutes") from error
    # A token that another app got from its visitor says nothing about who sends it.
    if found.get("type") != "user" or found.get("auth", {}).get("type") != "access_token":
        raise SubmissionError("the token is not a user's own access token; make one at huggingface.co/settings/tokens")
    return str(found["name"])


def own_submissions(storage: Storage, user: str) -> list[tuple[str, str]]:
    """Label and id of what a user has submitted and not withdrawn, the newest first."""
    if not user:
        return []
    own = [each for each in submissions(storage) if each.user == user and each.status != "withdrawn"]
    return [(f"{(each.model or {}).get('name')}, {each.time[:16]} UTC, {each.status}", each.id) for each in own[::-1]]


def withdrawal(catalogue: Catalogue) -> tuple[Callable[..., list[Any]], list[Any], Any]:
    """The part of the page where visitors who are logged in take back what they have submitted.

    Returns:
        What shows it to whom it is for, the components that this changes, and the event of a withdrawal.
    """
    with gr.Accordion("Your submissions", open=False, visible=False, elem_id="own") as part:
        chosen = gr.Dropdown(label="Submission", elem_id="own-submission")
        reason = gr.Textbox(label="Why you withdraw it", placeholder="everyone can read this", elem_id="own-reason")
        press = gr.Button("Withdraw", variant="stop", elem_id="withdraw")
        message = gr.HTML(elem_id="withdrawn")

    def show(profile: gr.OAuthProfile | None) -> list[Any]:
        user = visitor(profile)
        return [gr.update(visible=bool(user)), gr.update(choices=own_submissions(catalogue.storage, user), value=None)]

    def on_press(id: str | None, reason: str, profile: gr.OAuthProfile | None) -> str:
        try:
            if not id:
                raise SubmissionError("no submission was chosen; choose one of yours")
            found = withdraw(catalogue.storage, id, sender(profile), reason)
        except VLAssayError as error:
            return problem(str(error))
        catalogue.refresh()
        return f"<div class='assay-message' role='status'>{escape(found.id)} is withdrawn.</div>"

    event = press.click(on_press, [chosen, reason], message, api_visibility="private")
    return show, [part, chosen], event
