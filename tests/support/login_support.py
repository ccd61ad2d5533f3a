"""A Space with a login for a test: its environment, the cookies of its users, and a call of its interface."""

import base64
import hashlib
import json
from contextlib import contextmanager

import gradio as gr
import httpx2 as httpx  # that of huggingface_hub
import huggingface_hub
import itsdangerous
import pytest
from gradio_client import Client, handle_file
from huggingface_hub.errors import HfHubHTTPError

SECRET = "of the Space"
TYPED = ("", "clip", "", "", "")
TOKENS = {
    "hf_adas_own_token": {"type": "user", "name": "ada", "auth": {"type": "access_token"}},
    "hf_oauth_of_another_app": {"type": "user", "name": "ada", "auth": {"type": "oauth"}},
    "hf_of_an_organisation": {"type": "org", "name": "lab", "auth": {"type": "access_token"}},
}


@contextmanager
def on_a_space(folder, **variables):
    """The environment of a Space whose card asks for a login, and a Hub that knows `TOKENS`."""
    oauth = {"OAUTH_CLIENT_ID": "id", "OAUTH_CLIENT_SECRET": SECRET, "OAUTH_SCOPES": "openid profile"}
    oauth["OPENID_PROVIDER_URL"] = "https://hub.example"
    with pytest.MonkeyPatch.context() as patch:
        space = {"SYSTEM": "spaces", "SPACE_ID": "me/board", "VL_ASSAY_STORAGE": str(folder)}
        for name, value in (space | oauth | variables).items():
            patch.setenv(name, value)
        for name, value in oauth.items():  # gradio reads them when it is imported
            patch.setattr(f"gradio.oauth.{name}", value)
        patch.setattr(huggingface_hub, "whoami", whoami)
        patch.setattr("gradio.http_server.watchfn_spaces", lambda reloader: None)  # needs what only Spaces have
        yield patch


def whoami(token=None):
    assert token, "the Hub must never be asked about the Space's own token"
    if token == "hf_when_the_hub_is_down":
        raise httpx.ConnectError("no route")
    if token not in TOKENS:
        raise HfHubHTTPError("401", response=httpx.Response(401, request=httpx.Request("GET", "https://hub.example")))
    return TOKENS[token]


def profile(name):
    userinfo = {"preferred_username": name, "name": name.title(), "profile": "", "picture": ""}
    return gr.OAuthProfile(userinfo)


def cookie(name, secret=SECRET):
    """What a browser sends when it is logged in; with another secret, what a forger sends."""
    session = {"oauth_info": {"userinfo": dict(profile(name)), "access_token": "x", "scope": "", "expires_at": 2**40}}
    signer = itsdangerous.TimestampSigner(hashlib.sha256(f"{secret}-v4".encode()).hexdigest())
    return "session=" + signer.sign(base64.b64encode(json.dumps(session).encode())).decode()


def call(space, path, headers=None, **options):
    connected = Client(space.address, verbose=False, headers=headers, **options)
    return connected.predict([handle_file(path)], *TYPED, api_name="/submit")
