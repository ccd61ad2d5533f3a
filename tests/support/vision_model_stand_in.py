"""A local HTTP server that answers questions about images like an OpenAI-compatible endpoint, well or badly."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
from language_model_stand_in import LanguageModelStandIn, Reply

from vl_assay.hub_datasets.core.images import decode

QUOTED = 'Does this figure show "'
QUICK_FAULTS = ("5xx", "429", "html", "no choices", "cut", "dropped", "no logprobs", "positive", "too many")


class VisionModelStandIn(LanguageModelStandIn):
    """Use it with `with`; `url` is the endpoint.

    Args:
        judge: the tokens with which an answer to (image, prompt) may begin, with their log-probabilities; it answers
            with the likeliest.
        most: how many of them it lists; 0 for a server that gives none.
        fault: of (request number, times that this prompt was asked about this image): a name of a fault, or None.
        latency, slots: seconds for an answer, and how many it can make at once.
    """

    def __init__(self, judge, *, most=20, fault=None, latency=0.0, slots=64, token=None):
        super().__init__(token=token)
        self.judge, self.most, self.fault, self.latency = judge, most, fault, latency
        self.slots = threading.Semaphore(slots)
        self.pages = {"/v1/models": {"object": "list", "data": [{"id": "tiny", "root": "me/tiny"}]}}
        self.asked, self.answered = Counter(), Counter()
        self.faults = Counter()

    def answer(self, request):
        [turn] = request["messages"]
        image, text = turn["content"]
        head, content = image["image_url"]["url"].split(",")
        file, prompt = base64.b64decode(content), text["text"]
        key = hashlib.sha256(file).hexdigest()[:16], prompt
        with self.lock:
            times = self.asked[key]
            self.asked[key] += 1
            self.requests.append({**request, "messages": prompt, "head": head})
            fault = self.fault(len(self.requests) - 1, times) if self.fault else None
            self.faults.update([fault] if fault else [])
        if request.get("top_logprobs", 0) > self.most > 0:
            return Reply(status=422, body=b'{"error": "top_n_tokens is too large"}'), {}
        with self.slots:
            time.sleep(self.latency)
            tokens = sorted(self.judge(decode(file), prompt), key=lambda pair: -pair[1])
        listed = tokens[: min(request.get("top_logprobs", 0), self.most)] if self.most else []
        reply = faulty(fault, self.body(request["model"], tokens[0][0], listed, fault))
        with self.lock:
            self.answered[key] += fault is None
        return reply, {}

    def body(self, model, text, listed, fault=None):
        entries = [{"token": token, "logprob": value, "bytes": None} for token, value in listed]
        if fault == "no logprobs":
            entries = []
        elif fault in ("positive", "too many"):
            entries = [{**each, "logprob": 0.5 if fault == "positive" else -0.01} for each in [*entries, *entries]]
        content = [{"token": text, "logprob": 0.0, "bytes": None, "top_logprobs": entries}] if entries else None
        choice = {"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": text}}
        choice["logprobs"] = {"content": content}
        usage = {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101}
        made = {"id": "1", "object": "chat.completion", "created": 0, "model": model, "choices": [choice]}
        return {**made, "usage": usage, "system_fingerprint": "fp_1"}


def faulty(fault, body):
    """The reply with one of `QUICK_FAULTS`, "late" or "refused"."""
    whole = json.dumps(body).encode()
    replies = {
        "5xx": Reply(status=503, body=b"busy"),
        "429": Reply(status=429, headers={"Retry-After": "0.05"}, body=b"{}"),
        "html": Reply(body=b"<html>the proxy is busy</html>"),
        "no choices": Reply(body=json.dumps({**body, "choices": []}).encode()),
        "cut": Reply(body=whole, cut=True),
        "dropped": Reply(dropped=True),
        "late": Reply(body=whole, delay=15),
        "refused": Reply(status=400, body=b'{"error": "the filter refuses this"}'),
    }
    return replies.get(fault, Reply(body=whole))


def yes_or_no(p, rest=0.02):
    """Tokens of an answer that is yes with probability p (1 - rest), no else, or something else."""
    words = (("Yes", 0.75 * p), (" yes", 0.25 * p), ("No", 0.9 * (1 - p)), ("no", 0.1 * (1 - p)))
    tokens = [(word, math.log((1 - rest) * q)) for word, q in words if q > 0]
    return [*tokens, *((f"w{i}", math.log(rest / 30)) for i in range(30))]


@cache
def _mock():
    from vl_assay.model_wrappers import load_model

    return load_model("mock:oracle")


def oracle(image, prompt):
    """A model that reads the scenes of toy_scenes, and chooses among captions, too."""
    mock = _mock()
    if prompt.startswith("Which caption"):
        captions = [line.partition(". ")[2] for line in prompt.splitlines()[1:-1]]
        return [("ABCDEF"[int(np.argmax(mock.score(image, captions)))], -0.1)]
    if prompt.startswith(QUOTED):
        caption = prompt.removeprefix(QUOTED).rpartition('"')[0]
        return yes_or_no(0.9 if mock.score(image, [caption])[0] else 0.2)
    question = prompt.removesuffix(" Please answer yes or no.")
    if question == "Is this image grey?":
        return yes_or_no(0.95)
    return yes_or_no(0.9 if mock.prepare_image(image).answer(question) > 0 else 0.2)


class TinyVisionModel:
    """A checkpoint of `transformers` as a judge, one question at a time."""

    def __init__(self, folder):
        import transformers

        self.model = transformers.AutoModelForImageTextToText.from_pretrained(folder).eval()
        self.processor = transformers.AutoProcessor.from_pretrained(folder, backend="pil")
        self.tokens = [self.processor.tokenizer.decode([i]) for i in range(len(self.processor.tokenizer))]
        self.lock = threading.Lock()

    def __call__(self, image, prompt):
        import torch

        turn = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": prompt}]}]
        text = self.processor.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
        with self.lock, torch.inference_mode():
            inputs = self.processor(images=image, text=text, return_tensors="pt")
            logs = self.model(**inputs).logits[0, -1].log_softmax(-1)
        return list(zip(self.tokens, logs.tolist(), strict=False))


def start_run(server, out, cache, *, limit, **settings):
    """A process that asks the questions of toy_scenes/vqa."""
    words = ["predict", "endpoint:tiny", "toy_scenes/vqa", "--limit", limit, "--out", out]
    words += [f"--setting={name}={value}" for name, value in {"base_url": server.url, **settings}.items()]
    environment = {**os.environ, "VL_ASSAY_CACHE": str(cache)}
    return subprocess.Popen([str(Path(sys.executable).with_name("vl-assay")), *map(str, words)], env=environment)
