"""Language models: an OpenAI-compatible endpoint, or a checkpoint of `transformers` on this machine.

Any object with a `name` and the method `complete` of `LanguageModel` can take their place.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from ....metrics.common.errors import ModelError

if TYPE_CHECKING:
    import openai

    from .prompts import Messages

KEY_VARIABLE = "VL_ASSAY_API_KEY"
# Of an answer; thousands of tokens have some kilobytes.
MOST_BYTES = 16 << 20
LOCAL = "local:"
_RETRIED_STATUSES = (408, 409, 425, 429)
_REFUSED_STATUSES = (400, 413, 422)


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


class LanguageModel(Protocol):
    """A model that `generate` can ask. `complete` is called from several threads."""

    @property
    def name(self) -> str:
        """Identifies the model; answers are reused only for the same name."""
        ...

    def complete(self, messages: Messages, temperature: float, max_tokens: int, seed: int | None = None) -> Completion:
        """Answer messages.

        Raises:
            Unanswered: a retry may succeed.
            Refused: this request will never be answered.
            ModelError: no request will be answered.
        """
        ...


def open_model(
    model: str, base_url: str | None, *, key_variable: str = KEY_VARIABLE, timeout: float = 120
) -> LanguageModel:
    """The model of that name at an endpoint, or the checkpoint in a folder, ``local:FOLDER``.

    Raises:
        ModelError: no endpoint, no such folder, a missing library, or a checkpoint that cannot be loaded.
    """
    if model.startswith(LOCAL):
        return LocalModel(model.removeprefix(LOCAL))
    if base_url is None or not base_url.startswith(("http://", "https://")):
        raise ModelError(
            f"the model {model!r} needs --base-url, the address of an OpenAI-compatible endpoint such as "
            f"http://localhost:8000/v1, and got {base_url!r}; a checkpoint on this machine is --model {LOCAL}FOLDER"
        )
    return Endpoint(model, base_url, os.environ.get(key_variable), timeout)


class Endpoint:
    """A model behind an OpenAI-compatible endpoint for chat completions.

    Args:
        name: the endpoint's name of the model.
        base_url: the address; ``/v1`` is added to an address without a path.
        key: the API key, if the endpoint needs one. It appears in no log and no message.
        timeout: seconds to wait for an answer.
    """

    def __init__(self, name: str, base_url: str, key: str | None = None, timeout: float = 120) -> None:
        try:
            from openai import OpenAI
        except ModuleNotFoundError as error:
            raise ModelError(f"an endpoint needs {error.name}: pip install 'vl-assay[authoring]'") from error
        address = base_url.rstrip("/").removesuffix("/chat/completions")
        self.name, self._key = name, key
        # Without a key the client would send that of the user's OpenAI account.
        self._client = OpenAI(
            api_key=key or "none",
            base_url=address if urlsplit(address).path else f"{address}/v1",
            timeout=timeout,
            max_retries=0,  # `Asker` retries, any model
            default_headers={"Accept-Encoding": "identity"},
            http_client=_bounded_client(timeout),
        )

    def complete(self, messages: Messages, temperature: float, max_tokens: int, seed: int | None = None) -> Completion:
        """See `LanguageModel`."""
        import openai

        options: dict[str, Any] = {} if seed is None else {"seed": seed}
        request: Any = messages
        try:
            answer = self._client.chat.completions.create(
                model=self.name, messages=request, temperature=temperature, max_tokens=max_tokens, **options
            )
            text: Any = answer.choices[0].message.content
            if not isinstance(text, str | None):
                raise TypeError(f"its content is a {type(text).__name__}")
            usage = answer.usage
            return Completion(
                text or "", getattr(usage, "prompt_tokens", None) or 0, getattr(usage, "completion_tokens", None) or 0
            )
        except openai.APIStatusError as error:
            raise self._classify(error) from error
        except openai.APIConnectionError as error:
            cause = f": {error.__cause__}" if error.__cause__ else ""
            raise Unanswered(self._redacted(f"{error}{cause}")) from error
        # An answer that is not JSON, or JSON of another form.
        except (openai.APIError, ValueError, TypeError, AttributeError, LookupError) as error:
            raise Unanswered(
                f"the answer is not a chat completion ({self._redacted(str(error))}); check --base-url"
            ) from error

    def _classify(self, error: openai.APIStatusError) -> Exception:
        text, status = self._redacted(str(error)), error.status_code
        if status in _RETRIED_STATUSES or status >= 500:
            try:
                wait = max(0.0, float(error.response.headers.get("retry-after", "")))
            except ValueError:  # without the header, or with a date, which few endpoints send
                wait = 0.0
            return Unanswered(text, wait)
        if status in _REFUSED_STATUSES:
            return Refused(text)
        return ModelError(
            f"the endpoint of {self.name} answered: {text}. Check --base-url, --model and the key in the variable that "
            "--key-variable names"
        )

    def _redacted(self, text: str) -> str:
        text = " ".join(text.split())
        return (text.replace(self._key, "***") if self._key else text)[:400]


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


class LocalModel:
    """A causal language model of `transformers` in a folder; it answers one request at a time.

    The prompt follows the tokenizer's chat template, or is made of ``role: content`` lines where there is none.

    Raises:
        ModelError: no such folder, or no such checkpoint in it.
    """

    def __init__(self, folder: str | Path) -> None:
        path = Path(folder).expanduser()
        if not (path / "config.json").is_file():
            raise ModelError(f"{path} is not a checkpoint: it has no config.json; give --model {LOCAL}FOLDER")
        try:
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer
        except ImportError as error:
            raise ModelError(
                f"a local model needs torch and transformers ({error}): pip install 'vl-assay[models]'"
            ) from error
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(path)
            model: Any = AutoModelForCausalLM.from_pretrained(path, dtype="auto")
        except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
            raise ModelError(f"{path} cannot be loaded as a causal language model: {error}") from error
        self._model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
        self._limit = getattr(self._model.config, "max_position_embeddings", None) or 1 << 30
        self._lock = threading.Lock()
        # Answers of another checkpoint in the same folder are not reused.
        files = sorted((file.name, file.stat()) for file in path.iterdir() if file.is_file())
        identity = repr([(name, stat.st_size, stat.st_mtime_ns) for name, stat in files])
        self.name = f"{LOCAL}{path.resolve()}@{hashlib.sha256(identity.encode()).hexdigest()[:12]}"

    def complete(self, messages: Messages, temperature: float, max_tokens: int, seed: int | None = None) -> Completion:
        """See `LanguageModel`; refused are requests that do not fit the model's context."""
        import torch

        if self._tokenizer.chat_template:
            prompt = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        else:
            turns = [f"{message['role']}: {message['content']}\n" for message in messages]
            prompt = (self._tokenizer.bos_token or "") + "\n".join([*turns, "assistant:"])
        ids = self._tokenizer(prompt, return_tensors="pt", add_special_tokens=False)["input_ids"]
        if ids.shape[1] + max_tokens > self._limit:
            raise Refused(f"{ids.shape[1]} tokens and an answer of {max_tokens} exceed the context of {self._limit}")
        ids = ids.to(self._model.device)
        sampling: dict[str, Any] = {"temperature": temperature} if temperature else {}
        end, padding = self._tokenizer.eos_token_id, self._tokenizer.pad_token_id
        # The random generator belongs to the process, so that only one thread may seed it.
        with self._lock, torch.inference_mode(), torch.random.fork_rng():
            torch.manual_seed(seed or 0)
            written = self._model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=max_tokens,
                pad_token_id=end if padding is None else padding,
                do_sample=temperature > 0,
                **sampling,
            )[0, ids.shape[1] :]
        text = self._tokenizer.decode(written, skip_special_tokens=True)
        return Completion(text, int(ids.shape[1]), int(written.shape[0]))
