"""Middleware: limits on the requests of visitors, and the page's head for social networks.

A request must not be too slow or too large, and the number of simultaneous uploads is limited.

Without these limits, some thousand visitors who send a byte a minute would block the page for everyone else, and a JSON
body would take fifty times its size in memory before it is checked.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any

from gradio.route_utils import API_PREFIX
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
# gradio's own tags for social networks.
_SOCIAL = re.compile(r'<meta\s+(?:property="og:|name="twitter:(?!card))[^>]*>')
_UPLOAD = f"{API_PREFIX}/upload"


class UploadLimit:
    """ASGI middleware that limits size, speed and number of the bodies of requests.

    Args:
        app: the application.
        size: maximum bytes of a request that uploads files (status 413).
        body: maximum bytes of any other request.
        at_once: maximum number of simultaneous uploads; further ones wait.
        wait: seconds after which waiting uploads are asked to come again (status 503).
        patience: seconds before the minimum `rate` of a body is enforced (status 408).
        rate: bytes per second.
    """

    def __init__(
        self,
        app: Any,
        *,
        size: int,
        body: int = 1 << 18,
        at_once: int = 256,
        wait: float = 60.0,
        patience: float = 10.0,
        rate: float = 50_000.0,
    ) -> None:
        self._app, self._wait, self._patience, self._rate = app, wait, patience, rate
        self._size, self._body = size, body
        self._places = asyncio.Semaphore(at_once)

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        if scope["path"] != _UPLOAD:
            return await self._pass_on(scope, receive, send, self._body)
        try:
            await asyncio.wait_for(self._places.acquire(), self._wait)
        except TimeoutError:
            return await _refuse(send, 503, "too many uploads at the same time; send the same again in a minute")
        try:
            await self._pass_on(scope, receive, send, self._size)
        finally:
            self._places.release()

    async def _pass_on(self, scope: _Message, receive: _Receive, send: _Send, most: int) -> None:
        start, size, is_whole = asyncio.get_running_loop().time(), 0, False
        refusal: tuple[int, str] | None = None

        async def limited() -> _Message:
            nonlocal size, is_whole, refusal
            if is_whole:  # only the end of the connection comes
                return await receive()
            try:
                async with asyncio.timeout_at(start + self._patience + size / self._rate):
                    message = await receive()
            except TimeoutError:
                refusal = 408, f"the request is slower than {self._rate / 1000:g} kB per second; send it again"
                raise ClientDisconnect from None
            size += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if size > most:
                refusal = 413, f"the request has more than {most / (1 << 20):,.2f} MB; send fewer or smaller files"
                raise ClientDisconnect
            return message

        async def send_unless_refused(message: _Message) -> None:
            if refusal is None:  # else what the application makes of a body that is cut off
                await send(message)

        with suppress(ClientDisconnect):
            await self._app(scope, limited, send_unless_refused)
        if refusal:
            await _refuse(send, *refusal)


class PageHead:
    """ASGI middleware that replaces gradio's title and picture for social networks in the page.

    Args:
        app: the application.
        title, description: the texts.
        picture: a PNG file, served at ``/social.png``. The page names it by the address of the Space, if it is one.
    """

    def __init__(self, app: Any, *, title: str, description: str, picture: Path) -> None:
        self._app, self._picture = app, picture
        host = os.environ.get("SPACE_HOST", "")
        facts = {"title": title, "description": description, "image": f"{host and f'https://{host}'}/social.png"}
        self._head = '<meta property="og:type" content="website" />' + "".join(
            f'<meta {attribute}="{prefix}:{name}" content="{escape(text)}" />'
            for name, text in facts.items()
            for attribute, prefix in (("property", "og"), ("name", "twitter"))
        )

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        """Handle a request."""
        if scope["type"] != "http" or scope["path"] not in ("/", "/social.png"):
            return await self._app(scope, receive, send)
        if scope["path"] == "/social.png":
            return await FileResponse(self._picture)(scope, receive, send)
        start: _Message = {}
        body = b""

        async def keep(message: _Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start":
                start = message
                return
            body += message.get("body", b"")
            if message.get("more_body"):
                return
            headers = [(name, value) for name, value in start["headers"] if name != b"content-length"]
            content = _SOCIAL.sub("", body.decode(errors="surrogateescape"))
            content = content.replace("<head>", f"<head>{self._head}", 1).encode(errors="surrogateescape")
            await send({**start, "headers": [*headers, (b"content-length", str(len(content)).encode())]})
            await send({"type": "http.response.body", "body": content})

        await self._app(scope, receive, keep)


async def _refuse(send: _Send, status: int, reason: str) -> None:
    body = reason.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close"), (b"retry-after", b"60")]
    # The response may have begun, or the visitor may be gone.
    with suppress(RuntimeError, OSError):
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
