"""The client of OpenAI-compatible servers for chat completions.

It validates answers and limits their size and time. Errors are of three kinds: `Unanswered` may be retried, `Refused`
concerns one request, and a `ModelError` concerns all requests.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from ...metrics.common.command_line import printable
from ...metrics.common.errors import ModelError

KEY_VARIABLE = "VL_ASSAY_API_KEY"
# The limit for an answer: thousands of tokens are a few kilobytes, and parsed JSON takes 30 times its size in memory.
MOST_BYTES = 1 << 20
_RETRIED_STATUSES = (408, 409, 425, 429)
_REFUSED_STATUSES = (400, 413, 422)
T = TypeVar("T")


class Completion(NamedTuple):
    """An answer and its numbers of tokens, 0 if the endpoint does not report them."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Unanswered(Exception):
    """Raised without an answer if a retry may succeed, after `wait` seconds (0 if the endpoint does not set a time)."""

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


class Refused(Exception):
    """The endpoint rejects this request; a retry would not help."""


class Endpoint:
    """A model behind an OpenAI-compatible endpoint for chat completions.

    Args:
        name: the endpoint's name of the model.
        base_url: the address; ``/v1`` is added to an address without a path.
        key: the API key, if the endpoint needs one. It appears in no log and no message.
        timeout: seconds for each read of an answer; from the name of the host to the last byte there are four times as
            many.
        options: how the user names the address, the model and the variable of the key, for messages.
    """

    def __init__(
        self,
        name: str,
        base_url: str,
        key: str | None = None,
        timeout: float = 120,
        options: tuple[str, str, str] = ("--base-url", "--model", "--key-variable"),
    ) -> None:
        try:
            from openai import AsyncOpenAI
        except ModuleNotFoundError as error:
            raise ModelError(f"an endpoint needs {error.name}: pip install 'vl-assay[endpoint]'") from error
        address = base_url.rstrip("/").removesuffix("/chat/completions")
        self.name, self._key, self._options = name, key, options
        self.base_url = address if urlsplit(address).path else f"{address}/v1"
        self._seconds = 4 * timeout
        # Without a key the client would send the key of the user's OpenAI account.
        self._client = AsyncOpenAI(
            api_key=key or "none",
            base_url=self.base_url,
            timeout=timeout,
            max_retries=0,  # `JournaledCalls` retries
            default_headers={"Accept-Encoding": "identity"},
            http_client=_bounded_client(timeout),
        )

    def complete(
        self, messages: list[dict[str, str]], temperature: float, max_tokens: int, seed: int | None = None
    ) -> Completion:
        """Return the answer to messages; raise as `send`."""
        options = {} if seed is None else {"seed": seed}
        request = {"messages": messages, "temperature": temperature, "max_tokens": max_tokens, **options}
        return self.send(lambda answer: Completion(text_of(answer), *tokens_of(answer)), request)

    def send(self, read: Callable[[Any], T], request: dict[str, Any]) -> T:
        """Send a request for a chat completion; return what `read` makes of the answer.

        Args:
            read: takes the JSON of the answer, which is not checked; raises ValueError, TypeError, AttributeError or
                LookupError if it is not a chat completion.
            request: the fields of the request, without the model.

        Raises:
            Unanswered: a retry may succeed.
            Refused: this request will never be answered.
            ModelError: no request will be answered.
        """
        body = {"model": self.name, **request}
        content = self._ask(self._client.post("/chat/completions", body=body, cast_to=bytes))
        try:
            return read(json.loads(content))
        # It is not JSON, or JSON of another form.
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
            raise Unanswered(
                f"the answer is not a chat completion ({self._redacted(str(error))}); check {self._options[0]}"
            ) from error

    def get(self, path: str) -> Any:
        """Return the JSON of a page of the server by its relative path; None without such a page.

        Raises:
            Unanswered: a retry may succeed.
        """
        try:
            return json.loads(self._ask(self._client.get(path, cast_to=bytes)))
        except (Refused, ValueError, RecursionError):  # no such page, or another one than JSON
            return None

    def _ask(self, request: Any) -> bytes:
        """Return the content of an answer, within the limits of time and size; raises as `send`."""
        import openai

        async def answer() -> bytes:
            async with asyncio.timeout(self._seconds):
                return await request

        try:
            return asyncio.run_coroutine_threadsafe(answer(), _loop()).result()
        except TimeoutError as error:
            raise Unanswered(f"no whole answer within {self._seconds:g} seconds") from error
        except openai.APIStatusError as error:
            raise self._classify(error) from error
        except openai.APIError as error:
            cause = f": {error.__cause__}" if error.__cause__ else ""
            raise Unanswered(self._redacted(f"{error}{cause}")) from error

    def _classify(self, error: Any) -> Exception:
        text, status = str(error), error.status_code
        if error.body and " - " not in text:  # the client shows OpenAI's form only
            text = f"{text} - {error.body}"
        text = text if str(status) in text else f"HTTP {status}: {text}"
        if to := error.response.headers.get("location"):
            text = f"HTTP {status}: it redirects to {to}, and requests go to the address that was given alone"
        text = self._redacted(text)
        if status in _RETRIED_STATUSES or status >= 500:
            try:
                wait = max(0.0, float(error.response.headers.get("retry-after", "")))
            except ValueError:  # without the header, or with a date, which few endpoints send
                wait = 0.0
            return Unanswered(text, wait)
        if status in _REFUSED_STATUSES:
            return Refused(text)
        address, model, key = self._options
        return ModelError(
            f"the endpoint of {self.name} answered: {text}. Check {address}, {model} and the key in the variable that "
            f"{key} names"
        )

    def _redacted(self, text: str) -> str:
        text = one_line(text, len(text))
        return (text.replace(self._key, "***") if self._key else text)[:400]


def one_line(text: str, most: int) -> str:
    """Return a server's text on one line of limited length, without control characters of terminals."""
    return " ".join(printable(text).split())[:most]


def text_of(answer: Any) -> str:
    """Return the text of a chat completion, empty without content; raises as `read` of `Endpoint.send`."""
    text = answer["choices"][0]["message"].get("content")
    if not isinstance(text, str | None):
        raise TypeError(f"its content is a {type(text).__name__}")
    return text or ""


def tokens_of(answer: Mapping[str, Any]) -> tuple[int, int]:
    """Return the tokens read and written for a chat completion, 0 if the endpoint does not report them."""
    usage = answer.get("usage") or {}
    read, written = (usage.get(name) or 0 for name in ("prompt_tokens", "completion_tokens"))
    if not (isinstance(read, int) and isinstance(written, int)):
        raise TypeError("its numbers of tokens are no numbers")
    return read, written


def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of all requests, in a thread: only there a request can be given up at any moment."""
    with _starting:  # with only `cache`, two threads could start a loop each
        return _started_loop()


@cache
def _started_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


def _forget_loop() -> None:
    _started_loop.cache_clear()  # a forked process has no other threads
    _starting.release()


_starting = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_starting.acquire, after_in_parent=_starting.release, after_in_child=_forget_loop)


def _bounded_client(seconds: float) -> Any:
    """Return an HTTP client that rejects answers of more than `MOST_BYTES` and follows no redirect."""
    from openai import DefaultAsyncHttpxClient

    # httpx or httpx2, by the version of openai.
    http: Any = import_module(DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0])

    class Bounded(http.AsyncByteStream):
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in self._stream:
                size += len(chunk)
                if size > MOST_BYTES:
                    raise http.ReadError(f"the answer has more than {MOST_BYTES:,} bytes")
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def bound(response: Any) -> None:
        response.headers.pop("content-encoding", None)  # unrequested, and could expand hugely
        response.stream = Bounded(response.stream)

    return DefaultAsyncHttpxClient(timeout=seconds, follow_redirects=False, event_hooks={"response": [bound]})
