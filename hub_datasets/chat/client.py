"""The client of OpenAI-compatible servers for chat completions.

Its answers are checked and bounded in size and time, and what goes wrong is told apart: `Unanswered` may be retried,
`Refused` concerns one request, a `ModelError` all of them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from ...metrics.common.errors import ModelError

KEY_VARIABLE = "VL_ASSAY_API_KEY"
# Of an answer; thousands of tokens have some kilobytes.
MOST_BYTES = 16 << 20
_RETRIED_STATUSES = (408, 409, 425, 429)
_REFUSED_STATUSES = (400, 413, 422)
T = TypeVar("T")


class Completion(NamedTuple):
    """An answer and its numbers of tokens, 0 where the endpoint does not report them."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Unanswered(Exception):
    """No answer, but a retry may succeed: after `wait` seconds, where the endpoint says so, else 0."""

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
        timeout: seconds to wait for an answer.
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
            from openai import OpenAI
        except ModuleNotFoundError as error:
            raise ModelError(f"an endpoint needs {error.name}: pip install 'vl-assay[endpoint]'") from error
        address = base_url.rstrip("/").removesuffix("/chat/completions")
        self.name, self._key, self._options = name, key, options
        self.base_url = address if urlsplit(address).path else f"{address}/v1"
        # Without a key the client would send that of the user's OpenAI account.
        self._client = OpenAI(
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
        """The answer to messages; raises as `send`."""
        options = {} if seed is None else {"seed": seed}
        request = {"messages": messages, "temperature": temperature, "max_tokens": max_tokens, **options}
        return self.send(lambda answer: Completion(text_of(answer), *tokens_of(answer)), request)

    def send(self, read: Callable[[Any], T], request: dict[str, Any]) -> T:
        """What `read` makes of the answer to a request for a chat completion.

        Args:
            read: raises ValueError, TypeError, AttributeError or LookupError for an answer that is none, which the
                client does not check.
            request: the fields of the request, without the model.

        Raises:
            Unanswered: a retry may succeed.
            Refused: this request will never be answered.
            ModelError: no request will be answered.
        """
        import openai

        create: Any = self._client.chat.completions.create
        try:
            return read(create(model=self.name, **request))
        except openai.APIStatusError as error:
            raise self._classify(error) from error
        except openai.APIConnectionError as error:
            cause = f": {error.__cause__}" if error.__cause__ else ""
            raise Unanswered(self._redacted(f"{error}{cause}")) from error
        # An answer that is not JSON, or JSON of another form.
        except (openai.APIError, ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
            raise Unanswered(
                f"the answer is not a chat completion ({self._redacted(str(error))}); check {self._options[0]}"
            ) from error

    def get(self, path: str) -> Any:
        """The JSON of a page of the server, whose path is relative to the address; None where there is none.

        Raises:
            Unanswered: a retry may succeed.
        """
        import openai

        try:
            return json.loads(self._client.get(path, cast_to=bytes))
        except openai.APIStatusError as error:
            failure = self._classify(error)
            if isinstance(failure, Unanswered):
                raise failure from error
        except openai.APIConnectionError as error:
            raise Unanswered(self._redacted(str(error))) from error
        except (ValueError, RecursionError):  # another page than JSON
            pass
        return None

    def _classify(self, error: Any) -> Exception:
        text, status = str(error), error.status_code
        if error.body and " - " not in text:  # the client shows OpenAI's form only
            text = f"{text} - {error.body}"
        text = text if str(status) in text else f"HTTP {status}: {text}"
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
        text = " ".join(text.split())
        return (text.replace(self._key, "***") if self._key else text)[:400]


def text_of(answer: Any) -> str:
    """The text of a chat completion, empty without content; raises as `read` of `Endpoint.send`."""
    text = answer.choices[0].message.content
    if not isinstance(text, str | None):
        raise TypeError(f"its content is a {type(text).__name__}")
    return text or ""


def tokens_of(answer: Any) -> tuple[int, int]:
    """The tokens read and written for a chat completion, 0 where the endpoint does not report them."""
    usage = answer.usage
    return getattr(usage, "prompt_tokens", None) or 0, getattr(usage, "completion_tokens", None) or 0


def _bounded_client(seconds: float) -> Any:
    """An HTTP client that gives up answers of more than `MOST_BYTES`, or that take four times `seconds`.

    The client's own limit is for each read, so that a byte now and then would hold it for ever.
    """
    from openai import DefaultHttpxClient

    # httpx or httpx2, by the version of openai.
    http: Any = import_module(DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])

    class Bounded(http.SyncByteStream):
        def __init__(self, stream: Any) -> None:
            self._stream, self._end = stream, time.monotonic() + 4 * seconds

        def __iter__(self) -> Iterator[bytes]:
            size = 0
            for chunk in self._stream:
                size += len(chunk)
                if size > MOST_BYTES or time.monotonic() > self._end:
                    raise http.ReadError(
                        f"the answer has more than {MOST_BYTES:,} bytes or takes longer than {4 * seconds:g} seconds"
                    )
                yield chunk

        def close(self) -> None:
            self._stream.close()

    def bound(response: Any) -> None:
        response.headers.pop("content-encoding", None)  # none was asked for; a small one may become a huge one
        response.stream = Bounded(response.stream)

    return DefaultHttpxClient(timeout=seconds, event_hooks={"response": [bound]})
