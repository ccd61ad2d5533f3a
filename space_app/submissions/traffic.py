"""A limit on uploads over the network: how many at a time, how slow and how large they may be.

Without it some thousand visitors who send a byte a minute would keep everyone else from the page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from starlette.requests import ClientDisconnect

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]


class UploadLimit:
    """ASGI middleware for the requests that upload files; others pass.

    Args:
        app: the application.
        at_once: uploads at the same time; others wait for a place.
        wait: seconds after which they are asked to come again (status 503).
        patience: seconds that an upload has before it must have sent at `rate` (408).
        rate: bytes per second.
        size: bytes of one request (413).
    """

    def __init__(
        self,
        app: Any,
        *,
        size: int,
        at_once: int = 256,
        wait: float = 60.0,
        patience: float = 10.0,
        rate: float = 50_000.0,
    ) -> None:
        self._app, self._size, self._wait, self._patience, self._rate = app, size, wait, patience, rate
        self._places = asyncio.Semaphore(at_once)

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        """Handle a request."""
        if scope["type"] != "http" or scope["method"] != "POST" or not scope["path"].endswith("/upload"):
            return await self._app(scope, receive, send)
        try:
            await asyncio.wait_for(self._places.acquire(), self._wait)
        except TimeoutError:
            return await _refuse(send, 503, "too many uploads at the same time; send the same again in a minute")
        try:
            await self._app(scope, self._limited(receive), send)
        except ClientDisconnect:
            pass  # nobody waits for an answer
        except TimeoutError:
            await _refuse(send, 408, f"the upload is slower than {self._rate / 1000:g} kB per second; send it again")
        except _TooLargeError:
            await _refuse(send, 413, f"the files have more than {self._size / (1 << 20):,.0f} MB together; send fewer")
        finally:
            self._places.release()

    def _limited(self, receive: _Receive) -> _Receive:
        start, size = asyncio.get_running_loop().time(), 0

        async def limited() -> _Message:
            nonlocal size
            async with asyncio.timeout_at(start + self._patience + size / self._rate):
                message = await receive()
            size += len(message.get("body", b""))
            if size > self._size:
                raise _TooLargeError
            return message

        return limited


class _TooLargeError(Exception):
    pass


async def _refuse(send: _Send, status: int, reason: str) -> None:
    body = reason.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close"), (b"retry-after", b"60")]
    # The response may have begun, or the visitor may be gone.
    with suppress(RuntimeError, OSError):
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
