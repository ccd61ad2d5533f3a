"""Language models that answer messages: an OpenAI-compatible endpoint, or a `transformers` checkpoint on this machine.

Another one needs a `name` and the method `complete` of `LanguageModel`, which raises `Unanswered` where another try may
succeed, `Refused` where this question never will, and `ModelError` where no question will.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from ....metrics.common.errors import ModelError

if TYPE_CHECKING:
    from .prompts import Messages

KEY_VARIABLE = "VL_ASSAY_API_KEY"
LOCAL = "local:"
_NO_KEY = "none"
# Of the statuses that are no success; all others of 400 to 499 concern every question.
_PASSING = (408, 409, 425, 429)
_REFUSALS = (400, 413, 422)


class Completion(NamedTuple):
    """An answer, and how many tokens were read and written for it (0 where the endpoint does not say)."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Unanswered(Exception):
    """No answer came, and one may come later: after `wait` seconds, if the endpoint says so, else 0."""

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


class Refused(Exception):
    """The endpoint does not answer this question."""


class LanguageModel(Protocol):
    """What `generate` asks; `complete` may be called from several threads."""

    @property
    def name(self) -> str:
        """What tells this model from others."""
        ...

    def complete(self, messages: Messages, temperature: float, max_tokens: int, seed: int | None = None) -> Completion:
        """The model's answer; `seed` asks for the same one again where chance has a part in it."""
        ...


def open_model(
    model: str, base_url: str | None, *, key_variable: str = KEY_VARIABLE, timeout: float = 120
) -> LanguageModel:
    """The model of that name at an endpoint, or that of a folder where the name starts with ``local:``.

    Raises:
        ModelError: no endpoint, no such folder, or a checkpoint that cannot be loaded.
    """
    if model.startswith(LOCAL):
        return LocalModel(model.removeprefix(LOCAL))
    if not (base_url or "").startswith(("http://", "https://")):
        raise ModelError(
            f"the model {model!r} needs --base-url, the address of an OpenAI-compatible endpoint such as "
            f"http://localhost:8000/v1, and {base_url!r} came; a checkpoint on this machine is --model {LOCAL}FOLDER"
        )
    return Endpoint(model, cast(str, base_url), os.environ.get(key_variable), timeout)


class Endpoint:
    """A model behind an OpenAI-compatible endpoint for chat completions.

    Args:
        name: what the endpoint calls it.
        base_url: the address, with or without ``/v1`` and ``/chat/completions``.
        key: what the endpoint wants to be shown, if anything; it is in no log and no message.
        timeout: seconds after which an answer is given up.
    """

    def __init__(self, name: str, base_url: str, key: str | None = None, timeout: float = 120) -> None:
        from huggingface_hub import InferenceClient

        self.name = name
        # Without a key the client would show the user's login at the Hub to whatever endpoint this is.
        self._key = key or _NO_KEY
        self._client = InferenceClient(base_url=base_url, api_key=self._key, timeout=timeout)

    def complete(self, messages: Messages, temperature: float, max_tokens: int, seed: int | None = None) -> Completion:
        """The answer of the endpoint.

        Raises:
            Unanswered: busy, broken, too slow, not reachable, or an answer of another form.
            Refused: this question cannot be answered, such as one that is too long.
            ModelError: no question can: a wrong key, address or model.
        """
        from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

        # The HTTP client's own error depends on the version; answers that are no JSON, or of another form, end in
        # ValueError, TypeError and the like.
        passing = cast(
            "tuple[type[Exception], ...]", (*HfHubHTTPError.__bases__, ValueError, TypeError, AttributeError)
        )
        try:
            answer = self._client.chat_completion(
                cast(Any, messages), model=self.name, temperature=temperature, max_tokens=max_tokens, seed=seed
            )
            usage = answer.usage
            return Completion(
                _text(answer),
                int(getattr(usage, "prompt_tokens", None) or 0),
                int(getattr(usage, "completion_tokens", None) or 0),
            )
        except OfflineModeIsEnabled as error:
            raise ModelError(
                f"{self._told(error)}: an endpoint, local ones too, is reached with HF_HUB_OFFLINE=0"
            ) from error
        except (*passing, LookupError) as error:
            raise self._sorted(error) from error

    def _sorted(self, error: Exception) -> Exception:
        response = getattr(error, "response", None)
        status = getattr(response, "status_code", None)
        if isinstance(error, json.JSONDecodeError | TypeError | AttributeError | LookupError):
            return Unanswered(f"the answer is no chat completion ({self._told(error)}); check --base-url")
        if status is None or status in _PASSING or status >= 500:
            return Unanswered(self._told(error), _asked_wait(response.headers) if response is not None else 0.0)
        if status in _REFUSALS:
            return Refused(self._told(error))
        return ModelError(
            f"the endpoint of {self.name} refuses to answer: {self._told(error)}. Check --base-url, --model and the "
            "key in the variable that --key-variable names"
        )

    def _told(self, error: Exception) -> str:
        text = " ".join(str(error).split())
        if self._key != _NO_KEY:
            text = text.replace(self._key, "***")
        return text[:400] or type(error).__name__


def _text(answer: Any) -> str:
    text = answer.choices[0].message.content
    if text is not None and not isinstance(text, str):
        raise TypeError(f"the answer is a {type(text).__name__}")
    return text or ""


def _asked_wait(headers: Mapping[str, str]) -> float:
    """The seconds that an endpoint asks to wait, by Retry-After; 0 where it does not."""
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    asked = headers.get("retry-after", "").strip()
    try:
        return max(0.0, float(asked))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return 0.0


class LocalModel:
    """A causal language model of `transformers` in a folder; it answers one question at a time.

    Where the tokenizer has a chat template, it is used; else the turns are written one after the other with their
    roles before them.

    Raises:
        ModelError: the folder is none, or holds no such checkpoint.
    """

    def __init__(self, folder: str | Path) -> None:
        path = Path(folder).expanduser()
        if not (path / "config.json").is_file():
            raise ModelError(f"{path} is no folder of a checkpoint: it has no config.json; give --model {LOCAL}FOLDER")
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
        self.name = f"{LOCAL}{path.resolve()}@{_fingerprint(path)}"

    def complete(self, messages: Messages, temperature: float, max_tokens: int, seed: int | None = None) -> Completion:
        """The model's answer.

        Raises:
            Refused: the question and the longest answer are more than the model can read.
        """
        import torch

        ids = self._tokenizer(self._write(messages), return_tensors="pt", add_special_tokens=False)["input_ids"]
        if ids.shape[1] + max_tokens > self._limit:
            raise Refused(f"{ids.shape[1]} tokens came and {max_tokens} may follow; the model reads {self._limit}")
        ids = ids.to(self._model.device)
        choice: dict[str, Any] = {"do_sample": temperature > 0} | (
            {"temperature": temperature} if temperature > 0 else {}
        )
        end = self._tokenizer.eos_token_id
        padding = self._tokenizer.pad_token_id
        # The generator of random numbers is the process's: nobody else may draw from it meanwhile.
        with self._lock, torch.inference_mode(), torch.random.fork_rng():
            torch.manual_seed(seed or 0)
            written = self._model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=max_tokens,
                pad_token_id=end if padding is None else padding,
                **choice,
            )[0, ids.shape[1] :]
        text = self._tokenizer.decode(written, skip_special_tokens=True)
        return Completion(text, int(ids.shape[1]), int(written.shape[0]))

    def _write(self, messages: Messages) -> str:
        if self._tokenizer.chat_template:
            return self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        turns = [f"{message['role']}: {message['content']}\n" for message in messages]
        return (self._tokenizer.bos_token or "") + "\n".join([*turns, "assistant:"])


def _fingerprint(folder: Path) -> str:
    """What changes with the files of a checkpoint, so that answers of another one are not taken for this one's."""
    files = sorted(
        (path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in folder.iterdir() if path.is_file()
    )
    return hashlib.sha256(repr(files).encode()).hexdigest()[:12]
