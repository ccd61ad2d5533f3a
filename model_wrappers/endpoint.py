"""Models behind OpenAI-compatible servers for chat completions: vLLM, TGI, llama.cpp, commercial ones.

``endpoint:MODEL`` is the server's name of the model, and the setting ``base_url`` its address, such as
``http://localhost:8000/v1``. ``endpoint:hf/PROVIDER/OWNER/NAME`` is a model at an inference provider of the Hub
(``auto`` lets the Hub choose it), with the key in ``HF_TOKEN``.

| setting | default | meaning |
|---|---|---|
| ``base_url`` | | address of the server |
| ``score`` | auto | ``logprobs``, ``answers`` or ``choice``; auto: logprobs if the server gives them, else answers |
| ``template`` | VQAScore's | the question about a caption, which replaces ``{}`` |
| ``top_logprobs`` | 20 | how many tokens the server lists; 5 if it refuses that, as TGI does |
| ``concurrency`` | 16 | requests under way |
| ``timeout`` | 120 | seconds for each read of an answer, and four times that altogether |
| ``max_requests`` | none | the most requests; a run that needs more is refused before it sends any |
| ``key_variable`` | VL_ASSAY_API_KEY | environment variable with the API key |

Scores of a caption, asked with the ``template``, and of a yes-or-no question:

- ``logprobs``: log p / (1 - p) of the probability that the answer begins with "Yes" or "yes", after a space or not, as
  in VQAScore; for a question log P(yes) - log P(no). A caption whose "Yes" is not among the listed tokens scores below
  all captions whose "Yes" is listed, and ties with the other unlisted ones. For a question, the probability of a word
  that is not listed is bounded (see `yes_no_log_odds`). Both cases are counted (`bounded_answers`).
- ``answers``: 1 for yes, else 0; for a question 1 for yes and -1 for no. Ties are frequent here, and wrong by default.
  An answer that is neither yes nor no counts as not yes, and scores 0 for a question (`no_answer`).
- ``choice``: the model chooses the right caption, in the dataset's order and in the reverse; a caption's score is the
  share of orders in which it was chosen. If an answer chooses no caption, all captions of the image score 0, a tie
  (`no_answer`).

Requests that the server refuses, for example by a content filter, count as answers that are neither yes nor no
(`refused_requests`). Every answer is cached in the folder ``answers``, so that no run of the same model, as described
by the server, asks again, even after an interruption. A JPEG or PNG file in RGB is sent unchanged, other images as PNG.
The metadata have the server's description of itself and the number of answers by served model (`served`).

Source: VQAScore (Lin et al., ECCV 2024), section 3.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from PIL import Image

from ..hub_datasets.chat.calls import TRIES, JournaledCalls, Stopped
from ..hub_datasets.chat.client import KEY_VARIABLE, Endpoint, Refused, Unanswered
from ..hub_datasets.core.repository import cache_folder
from ..metrics.common.errors import ModelError
from .engine.protocol import LoadOptions, ModelInfo, RemoteImage, RemoteItem, RequestPlan, choose
from .serving.answers import (
    UNLISTED,
    Answer,
    answer_score,
    choice_scores,
    is_bounded,
    parse_answer,
    read_answer,
    yes_log_odds,
    yes_no_log_odds,
)
from .serving.replies import chosen_captions
from .serving.server import describe

MODEL_TYPES = ()
CHECKPOINTS = ("hf/auto/Qwen/Qwen2.5-VL-7B-Instruct", "gpt-4o-mini")
LIBRARY = "openai"
SETTINGS: dict[str, tuple[str, ...]] = {
    "base_url": ("", "…"),
    "score": ("auto", "logprobs", "answers", "choice"),
    "template": ('Does this figure show "{}"? Please answer yes or no.', "…"),
    "top_logprobs": ("20", "…"),
    "concurrency": ("16", "…"),
    "timeout": ("120", "…"),
    "max_requests": ("", "…"),
    "key_variable": ("", "…"),
}
# The settings that determine the scores.
_DETERMINING = ("base_url", "score", "template", "top_logprobs")

QUESTION = "{} Please answer yes or no."
CHOICE = "Which caption describes the image?\n{}\nAnswer with the letter of the caption alone."
ROUTER = "https://router.huggingface.co/v1"
_MOST_CAPTIONS = 26
# TGI lists no more by default.
_FEWER_LOGPROBS = 5
_ANSWER_TOKENS = 16
# Threads per concurrent request, so that threads waiting for a retry do not delay other requests.
_THREADS = 4
# For estimates: characters of a token, and pixels, as of Qwen2-VL.
_CHARACTERS, _PIXELS = 4, 28 * 28


class _Request(NamedTuple):
    """A prompt about an image."""

    image: RemoteImage
    prompt: str


class EndpointModel:
    """A model behind a server as a `RemoteModel`."""

    device = "remote"

    def __init__(self, server: Endpoint, info: ModelInfo, options: dict[str, str]) -> None:
        self.info = info
        self.compares_texts = info.settings["score"] == "choice"
        self.task_types = ("matching", "vqa") if self.compares_texts else ("matching", "retrieval", "vqa")
        concurrency = _number(options, "concurrency")
        self.threads = _THREADS * concurrency
        self._most = _number(options, "max_requests")
        self._server = server
        name = hashlib.sha256(json.dumps([server.base_url, server.name]).encode()).hexdigest()[:16]
        self._calls: JournaledCalls[Answer] = JournaledCalls(
            server.name,
            cache_folder() / "answers" / f"{name}.jsonl",
            parse_answer,
            at_once=concurrency,
            most=self._most,
        )
        self._description: dict[str, Any] | None = None  # the server's description of itself
        top = int(info.settings["top_logprobs"])
        by_score = {"logprobs": (top, _FEWER_LOGPROBS), "auto": (top, _FEWER_LOGPROBS, 0)}
        tokens = by_score.get(info.settings["score"], (0,))
        self._numbers = [*dict.fromkeys(number for number in tokens if number <= top)]
        self._logprobs = self._numbers[0]  # how many log-probabilities are requested

    def plan(self, items: Iterable[RemoteItem]) -> RequestPlan:
        """See `RemoteModel`; asks the server for its description, which costs nothing."""
        self._describe()
        for number in self._numbers:
            if (answer := self._known(_GREY, number)) is not None:
                self._logprobs = number if answer.logprobs else 0
                break
        requests = {(request.image.key, request.prompt): request for item in items for request in self._requests(item)}
        unanswered = [request for request in requests.values() if self._known(request) is None]
        images = {request.image.key: request.image for request in unanswered}
        pixels = {key: math.prod(image.size()) for key, image in images.items()}
        read = sum(len(request.prompt) / _CHARACTERS + pixels[request.image.key] / _PIXELS for request in unanswered)
        answered = len(requests) - len(unanswered)
        request_plan = RequestPlan(len(requests), answered, len(images), math.ceil(read), len(unanswered))
        if self._most is not None and len(unanswered) > self._most:
            raise ModelError(
                f"{self.info.name} may be sent {self._most:,} requests (max_requests), and needs more: {request_plan}. "
                "Raise max_requests, or score fewer examples with --limit"
            )
        return request_plan

    def connect(self) -> None:
        """See `RemoteModel`; asks one question, about a small grey image.

        Raises:
            ModelError: no server, no such model, a wrong key, a model that refuses images, or no log-probabilities.
        """
        if not self._describe():
            raise ModelError(f"cannot reach a server at {self._server.base_url}; start it, or check -s base_url")
        answer, refusal = None, ""
        for number in self._numbers:
            self._logprobs = number
            try:
                answer = self._answer(_GREY, needs_logprobs=False)
                break
            except Refused as error:
                refusal = str(error)
        if answer is None:
            raise ModelError(f"{self.info.name} refuses a question about an image: {refusal}")
        score = self.info.settings["score"]
        if not answer.logprobs:
            if score == "logprobs":
                raise ModelError(
                    f"{self.info.name} gives no log-probabilities; choose -s score=answers or score=choice"
                )
            self._logprobs = 0
        if score == "auto":
            score = "logprobs" if answer.logprobs else "answers"
        asked = str(self._logprobs or self.info.settings["top_logprobs"])
        described = self._description or {}
        names = [answer.served, *(str(described[key]) for key in ("root", "model_sha") if key in described)]
        self.info = replace(
            self.info,
            revision=", ".join(dict.fromkeys(names)) or self.info.revision,
            settings={**self.info.settings, "score": score, "top_logprobs": asked},
            preprocessing={**self.info.preprocessing, "server": described},
        )

    def ask(self, item: RemoteItem) -> list[float]:
        """See `RemoteModel`.

        Raises:
            ModelError: a question has no answer after several tries, or the limit of requests is reached.
        """
        answers = [self._answer_or_none(request) for request in self._requests(item)]
        if self._chooses(item):
            return choice_scores([answer and answer.text for answer in answers], item.texts)
        return [self._score(answer, item.are_questions) for answer in answers]

    def facts(self, items: Iterable[RemoteItem]) -> dict[str, Any]:
        """See `RemoteModel`."""
        self._calls.refresh()
        counts = dict.fromkeys(("refused_requests", "bounded_answers" if self._logprobs else "no_answer"), 0)
        served: dict[tuple[str, str], str] = {}
        for item in items:
            for number, request in enumerate(self._requests(item)):
                asked = request.image.key, request.prompt
                if asked in served:
                    continue
                answer = self._known(request)
                served[asked] = answer.served if answer else ""
                if answer is None:
                    counts["refused_requests"] += 1
                elif self._logprobs:
                    counts["bounded_answers"] += is_bounded(answer.logprobs, is_question=item.are_questions)
                elif self._chooses(item):
                    texts = item.texts[::-1] if number else item.texts
                    counts["no_answer"] += not chosen_captions(answer.text, texts)
                else:
                    counts["no_answer"] += not answer_score(answer.text, is_question=True)
        usage = self._calls.usage
        sent = {"sent_requests": usage.calls, "prompt_tokens": usage.prompt_tokens}
        by = {name: count for name, count in sorted(Counter(served.values()).items()) if name}
        return {**counts, "requests": len(served), **sent, "completion_tokens": usage.completion_tokens, "served": by}

    def stop(self) -> None:
        """See `RemoteModel`."""
        self._calls.stop()

    def _describe(self) -> bool:
        """Return whether the server has described itself; if it does not answer now, it may later."""
        if self._description is None:
            try:
                self._description = describe(self._server, self._calls.retried)
            except Unanswered:
                return False
        return True

    def _chooses(self, item: RemoteItem) -> bool:
        return self.compares_texts and not item.are_questions

    def _requests(self, item: RemoteItem) -> Iterator[_Request]:
        if self._chooses(item):
            if len(item.texts) > _MOST_CAPTIONS:
                raise ModelError(
                    f"score=choice takes up to {_MOST_CAPTIONS} captions, and an example has {len(item.texts)}"
                )
            for texts in (item.texts, item.texts[::-1]):
                lines = (f"{chr(ord('A') + number)}. {text}" for number, text in enumerate(texts))
                yield _Request(item.image, CHOICE.replace("{}", "\n".join(lines)))
            return
        template = QUESTION if item.are_questions else self.info.settings["template"]
        for text in item.texts:
            yield _Request(item.image, template.replace("{}", text))

    def _score(self, answer: Answer | None, is_question: bool) -> float:
        if answer is None:
            return UNLISTED if self._logprobs and not is_question else 0.0
        if self._logprobs:
            return yes_no_log_odds(answer.logprobs) if is_question else yes_log_odds(answer.logprobs)
        return answer_score(answer.text, is_question=is_question)

    def _key(self, request: _Request, logprobs: int | None = None) -> str:
        number = self._logprobs if logprobs is None else logprobs
        parts = [self._description, request.image.key, request.prompt, number]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def _known(self, request: _Request, logprobs: int | None = None) -> Answer | None:
        return self._calls.known(self._key(request, logprobs))

    def _answer_or_none(self, request: _Request) -> Answer | None:
        """Return the answer; None if the request is refused."""
        try:
            return self._answer(request, needs_logprobs=bool(self._logprobs))
        except Refused:
            return None

    def _answer(self, request: _Request, *, needs_logprobs: bool) -> Answer:
        def send() -> Answer:
            kind, content = request.image.file()
            url = f"data:{kind};base64,{base64.b64encode(content).decode()}"
            turn = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": request.prompt}]
            fields: dict[str, Any] = {"max_tokens": _ANSWER_TOKENS}
            if self._logprobs:
                fields = {"max_tokens": 1, "logprobs": True, "top_logprobs": self._logprobs}
            asked = {"messages": [{"role": "user", "content": turn}], "temperature": 0, **fields}
            return self._server.send(partial(read_answer, needs_logprobs=needs_logprobs), asked)

        about = {"image": request.image.key, "prompt": request.prompt, "logprobs": self._logprobs}
        try:
            return self._calls.call(self._key(request), about, send)
        except Unanswered as error:
            raise ModelError(
                f"{self.info.name} did not answer {request.prompt!r} after {TRIES} tries: {error}. Answers are kept: "
                "run the same command to continue"
            ) from error
        except Stopped:
            raise self._calls.failure or ModelError("the run was stopped") from None


def load(checkpoint: str, options: LoadOptions) -> EndpointModel:
    """Return the model of a name at a server, without sending a request.

    Raises:
        ModelError: no address, an address with a key in it, a malformed number, or a missing library.
        UnknownNameError: an unknown setting or value.
    """
    settings = choose("endpoint", options, SETTINGS)
    if options.revision is not None or options.dtype != LoadOptions.dtype:
        raise ModelError("the server chooses revision and dtype: leave them out")
    if settings["template"].count("{}") != 1:
        raise ModelError(f"the template of endpoint has {{}} once, for the caption; got {settings['template']!r}")
    name, variable = checkpoint, KEY_VARIABLE
    if checkpoint.startswith("hf/"):
        _, provider, *parts = checkpoint.split("/")
        if len(parts) != 2 or not all((provider, *parts)):
            raise ModelError(f"expected endpoint:hf/PROVIDER/OWNER/NAME, and got endpoint:{checkpoint}")
        name, variable = "/".join(parts) + ("" if provider == "auto" else f":{provider}"), "HF_TOKEN"
        settings["base_url"] = settings["base_url"] or ROUTER
    address = urlsplit(settings["base_url"])
    if address.scheme not in ("http", "https") or not address.netloc or "@" in address.netloc or address.query:
        raise ModelError(
            f"endpoint:{checkpoint} needs the server's address, such as -s base_url=http://localhost:8000/v1, without "
            f"user or key; got {address.hostname or 'none'!r}. Keys are read from the variable of -s key_variable"
        )
    _number(settings, "top_logprobs")
    server = Endpoint(
        name,
        settings["base_url"],
        os.environ.get(settings["key_variable"] or variable),
        _number(settings, "timeout", float),
        ("-s base_url", "the name of the model", "-s key_variable"),
    )
    settings["base_url"] = server.base_url
    info = ModelInfo(
        f"endpoint:{checkpoint}",
        "endpoint",
        checkpoint,
        dtype="unknown",
        preprocessing={"image": "the file, or PNG", "question": QUESTION},
        settings={setting: settings[setting] for setting in _DETERMINING},
    )
    return EndpointModel(server, info, settings)


def _number(settings: dict[str, str], name: str, kind: type[int] | type[float] = int) -> Any:
    """Return a setting as a number above 0; None if it is empty, as by default."""
    try:
        number = None if settings[name] == SETTINGS[name][0] == "" else kind(settings[name])
    except ValueError:
        number = 0
    if number is not None and not 0 < number < math.inf:
        raise ModelError(f"{name} of endpoint is a number above 0; got {settings[name]!r}")
    return number


def _grey_file() -> tuple[str, bytes]:
    buffer = io.BytesIO()
    Image.new("RGB", (64, 64), "grey").save(buffer, "PNG")
    return "image/png", buffer.getvalue()


# The first question, to find out what the server supports.
_GREY = _Request(RemoteImage("grey", lambda: (64, 64), _grey_file), QUESTION.replace("{}", "Is this image grey?"))
