"""Calls of the Hub: valid names, which errors are tried again and when, and the message for errors that are final."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ...metrics.common.errors import DataError, StorageError, VLAssayError

_Result = TypeVar("_Result")
# Temporary statuses below 500, including the conflicts with a commit that came first.
_TEMPORARY = {408, 409, 412, 425, 429}
_MOST_SECONDS = 300.0  # of all attempts of one call together
_FIRST_WAIT, _SHORTEST_WAIT, _LONGEST_WAIT = 0.5, 0.1, 30.0
_MOST_TEXT = 500


def hub_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of huggingface_hub: OSError, and its HTTP client's, whose base depends on its version.

    Uploads of large files end in RuntimeError, and answers that are not the expected JSON in ValueError.
    """
    from huggingface_hub.errors import HfHubHTTPError

    return *HfHubHTTPError.__bases__, RuntimeError, ValueError


def check_repo_name(repo: str) -> None:
    """Raise `DataError` unless `repo` has the form ``owner/name``."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise DataError(f"{repo!r} is not a valid repository name ({error}); expected owner/name") from error
    if repo.count("/") != 1:
        raise DataError(f"{repo!r} has no owner; expected owner/name")


def call_hub(
    action: Callable[[], _Result],
    task: str,
    repo: str,
    kind: str = "model",
    *,
    attempts: int = 6,
    before_retry: str = "",
    sleep: Callable[[float], None] = time.sleep,
) -> _Result:
    """Return the result of a repeatable action, which is retried while its errors are temporary.

    Waits grow exponentially with jitter, and are at least as long as the Hub asks for. All together take at most five
    minutes.

    Args:
        action: calls the Hub; each attempt begins with what is there.
        task: what it does, such as "write me/toy", for messages.
        repo: the repository that it is about, and its `kind`: "model", "dataset" or "space".
        attempts: how often it is tried at most.
        before_retry: advice to the user that precedes "try again" in the message.
        sleep: called with the seconds to wait.

    Raises:
        StorageError: it failed for good, too often or for too long; the message is one line and has the next step.
        VLAssayError: the action's own.
    """
    end = time.monotonic() + _MOST_SECONDS
    attempt = 0
    while True:
        attempt += 1
        try:
            return action()
        except VLAssayError:
            raise
        except hub_errors() as error:
            jitter = random.uniform(_SHORTEST_WAIT, min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (attempt - 1)))
            wait = max(_asked_wait(error), jitter)
            if attempt == attempts or not _is_temporary(error) or time.monotonic() + wait > end:
                raise StorageError(f"cannot {task} on the Hub: {_explain(error, repo, kind, before_retry)}") from error
        sleep(wait)


def _explain(error: Exception, repo: str, kind: str, before_retry: str) -> str:
    """Return why a call has failed, and what to do, on one line."""
    from huggingface_hub.errors import OfflineModeIsEnabled

    response = _response(error)
    if _is_caused_by(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set, or the network was found to be missing; connect and unset it"
    if not _is_temporary(error):
        return (
            f"{_text(error)}; check the name of the {kind} {repo}, and log in with `hf auth login`, or set HF_TOKEN, "
            "with a token that may do this there"
        )
    network = "" if response is not None else "check the network, and "
    return f"{_text(error)}; {network}{before_retry}try again in {max(30, _asked_wait(error)):.0f} seconds or later"


def _text(error: Exception) -> str:
    """Return the message on one line, without the query strings of URLs, which may contain signatures."""
    line = re.sub(r"(https?://[^\s?]+)\?[^\s'\"]*", r"\1", " ".join(str(error).split()))
    return line[:_MOST_TEXT].rstrip(".") or type(error).__name__


def _is_temporary(error: BaseException) -> bool:
    """Return whether the same call may succeed later."""
    from huggingface_hub.errors import HFValidationError, LocalTokenNotFoundError, OfflineModeIsEnabled

    response = _response(error)
    if response is not None:
        return response.status_code in _TEMPORARY or response.status_code >= 500
    return not _is_caused_by(error, HFValidationError, LocalTokenNotFoundError, OfflineModeIsEnabled)


def _asked_wait(error: BaseException) -> float:
    """Return the seconds that the Hub asks to wait in Retry-After or its rate limit's reset, or 0."""
    from huggingface_hub.utils import parse_ratelimit_headers

    response = _response(error)
    if response is None:
        return 0.0
    asked = response.headers.get("retry-after", "").strip()
    limit = parse_ratelimit_headers(response.headers)
    return float(asked) if asked.isdecimal() else float(limit.reset_in_seconds) if limit else 0.0


def _response(error: BaseException) -> Any:
    """Return the Hub's response in an error or its causes; None if there was no response."""
    responses = (getattr(cause, "response", None) for cause in _causes(error))
    return next((response for response in responses if response is not None), None)


def _is_caused_by(error: BaseException, *kinds: type[BaseException]) -> bool:
    return any(isinstance(cause, kinds) for cause in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
