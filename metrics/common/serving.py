"""Local web pages: check the address to serve at, and restrict access to the user who has the token."""

from __future__ import annotations

import hashlib
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from .errors import VLAssayError

LOOPBACK = ("127.0.0.1", "::1", "localhost")
Message = MutableMapping[str, Any]


def check_address(host: str, port: int) -> None:
    """Raise `VLAssayError` if no page can be served at this address."""
    try:
        socket.create_server((host, port)).close()
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise VLAssayError(
            f"nothing can be served at {host}:{port}: {reason}; give another --port, from 1 to 65535, or the address "
            "of this machine as --host"
        ) from error


class TokenGuard:
    """ASGI middleware that admits only visitors who opened the page with its token, ``?token=…``.

    Every web page that the user has open can send requests to a page on this machine. So a request must name this
    machine as its host (against DNS rebinding), come from this page if it has an origin, and carry the cookie that was
    set when the page was opened with the token; browsers do not send it from other sites.

    Args:
        app: the application.
        token: see `new_token`.
        is_local: whether the page is served only to this machine.
    """

    def __init__(self, app: Any, *, token: str, is_local: bool) -> None:
        self._app, self._token, self._is_local = app, token, is_local
        # Cookies are shared by all ports of a host.
        self._cookie = f"vl-assay-{hashlib.sha256(token.encode()).hexdigest()[:8]}"

    async def __call__(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        """Handle a request."""
        # gradio itself asks for the latter before the page can be opened.
        if scope["type"] not in ("http", "websocket") or scope["path"] == "/gradio_api/startup-events":
            return await self._app(scope, receive, send)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "")
        if self._is_local and urlsplit(f"//{host}").hostname not in LOOPBACK:
            return await _refuse(scope, send, 403, f"this page is not at {host!r}")
        if "origin" in headers and urlsplit(headers["origin"]).netloc != host:
            return await _refuse(scope, send, 403, "this page takes nothing from other pages")
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        cookies = dict(cookie.strip().partition("=")[::2] for cookie in headers.get("cookie", "").split(";"))
        is_opened = self._is_token(given)
        if not is_opened and not self._is_token(cookies.get(self._cookie, "")):
            return await _refuse(
                scope, send, 401, "open the address that the command has printed; it ends with ?token=…"
            )

        async def send_cookie(message: Message) -> None:
            if is_opened and message["type"] == "http.response.start":
                cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict"
                cookie_headers = [(b"set-cookie", cookie.encode()), (b"referrer-policy", b"no-referrer")]
                message["headers"] = [*message.get("headers", ()), *cookie_headers]
            await send(message)

        await self._app(scope, receive, send_cookie)

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._token.encode())


def new_token() -> str:
    """Return a random token for the pages of one launch."""
    return secrets.token_urlsafe(24)


async def _refuse(scope: Message, send: Callable[[Message], Awaitable[None]], status: int, reason: str) -> None:
    if scope["type"] == "websocket":
        return await send({"type": "websocket.close", "code": 1008})
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": reason.encode()})
