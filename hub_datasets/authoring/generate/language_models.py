"""Language models: an OpenAI-compatible endpoint, or a checkpoint of `transformers` on this machine.

Any object with a `name` and the method `complete` of `LanguageModel` can take their place.
"""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ....metrics.common.errors import ModelError
from ....metrics.common.user_files import list_files
from ...chat.client import KEY_VARIABLE, Completion, Endpoint, Refused
from ...core.pretrained import load_part

if TYPE_CHECKING:
    from .prompts import Messages

LOCAL = "local:"


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
            self._tokenizer: Any = load_part(AutoTokenizer, path)
            model: Any = load_part(AutoModelForCausalLM, path, dtype="auto", weights_only=True)
        except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
            raise ModelError(f"{path} cannot be loaded as a causal language model: {error}") from error
        self._model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
        self._limit = getattr(self._model.config, "max_position_embeddings", None) or 1 << 30
        self._lock = threading.Lock()
        # Answers of another checkpoint in the same folder are not reused.
        files = sorted((file.name, file.stat()) for file in list_files(path) if file.is_file())
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
