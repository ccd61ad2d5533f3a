"""A local HTTP server that answers like an OpenAI-compatible endpoint for chat completions.

It is told how to answer by a function.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from vl_assay.hub_datasets.authoring.generate.prompts import PROMPTS, read_template

NOUNS = ("cat", "dog", "box", "star", "ring", "man", "horse", "lamp", "cup", "boat")
COLOURS = ("red", "blue", "green", "pink", "small", "large", "old", "wet")
RELATIONS = ("near", "behind", "under", "above")
_NAMES = {read_template(name)[0]: name for name in PROMPTS}


@dataclass
class Reply:
    """What is sent back: a text as an answer, or another body or status; `delay` seconds later, or never.

    Of a `cut` reply half is sent.
    """

    text: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    delay: float = 0
    dropped: bool = False
    cut: bool = False


class LanguageModelStandIn:
    """Use it with `with`; `url` is the endpoint.

    Args:
        reply: makes a `Reply` or a text of a request (its JSON) and of how often the same one came before.
        token: what requests must bear, if anything.
    """

    def __init__(self, reply=None, token=None):
        self.reply = reply or (lambda request, times: answer_well(request))
        self.token = token
        self.pages = {}  # what GET finds, by path
        self.requests = []
        self.authorizations = Counter()
        self.lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *about: None  # clients that are killed
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *error):
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request):
        key = json.dumps(request, sort_keys=True)
        with self.lock:
            times = sum(key == other for other in self.requests)
            self.requests.append(key)
        reply = self.reply(request, times)
        return (Reply(reply) if isinstance(reply, str) else reply), {}


class _Handler(BaseHTTPRequestHandler):
    owner: LanguageModelStandIn
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a body waits 40 ms for the acknowledgement of its headers

    def log_message(self, format, *args):
        pass

    def do_GET(self):
        page = self.owner.pages.get(self.path)
        self.send(404 if page is None else 200, {}, json.dumps(page).encode())

    def do_POST(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        authorization = self.headers.get("Authorization")
        with self.owner.lock:
            self.owner.authorizations[authorization] += 1
        if self.owner.token and authorization != f"Bearer {self.owner.token}":
            return self.send(401, {}, json.dumps({"error": f"wrong key: {authorization}"}).encode())
        if self.path != "/v1/chat/completions":
            return self.send(404, {}, b'{"error": "no such path"}')
        request = json.loads(content)
        reply, usage = self.owner.answer(request)
        time.sleep(reply.delay)
        if reply.dropped:
            self.close_connection = True
            return None
        body = reply.body
        if body is None:
            body = json.dumps(completion(request["model"], reply.text, usage)).encode()
        self.send(reply.status, reply.headers, body, reply)
        return None

    def send(self, status, headers, body, reply=None):
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if reply is not None and reply.cut:
                self.close_connection = True
                body = body[: len(body) // 2]
            self.wfile.write(body)
        except ConnectionError:  # the client has gone, killed or out of patience
            self.close_connection = True


def completion(model, text, usage):
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 100, "completion_tokens": 10} | usage
    return {"id": "1", "object": "chat.completion", "created": 0, "model": model, "choices": [choice], "usage": usage}


def read_request(request):
    """Which prompt it is, and the texts that it is about."""
    system, *_, question = request["messages"]
    return _NAMES[system["content"]], json.loads(question["content"])


def answer_well(request):
    """What a good model says of a caption such as "a red cat near a blue dog"."""
    name, asked = read_request(request)
    answer = _good_answer(name, asked, request.get("seed") or 0)
    if "caption" in answer:
        fitting = re.sub(r"\b([Aa])n?(?= [^aeiou\W])", r"\1", answer["caption"])
        answer["caption"] = re.sub(r"\b([Aa])n?(?= [aeiou])", r"\1n", fitting)
    return json.dumps(answer)


def _good_answer(name, asked, seed):
    caption = asked["caption"]
    words = re.findall(r"\w+", caption)
    nouns, colours, relations = ([w for w in words if w.lower() in group] for group in (NOUNS, COLOURS, RELATIONS))
    located = {"locate_obj": nouns, "locate_att": colours, "locate_rel": relations}
    if name in located:
        return {"concepts": located[name]}
    if name.startswith("concept"):
        group = {"obj": NOUNS, "att": COLOURS, "rel": RELATIONS}[name[-3:]]
        fresh = [word for word in group if word not in words]
        return {"concept": fresh[seed % len(fresh)]}
    old, new = next((asked[key] for key in ("old", "object") if key in asked), ""), asked.get("new", "")
    composed = {"replace": new, "add_obj": f"{old} and a {new}", "add_att": f"{new} {old}"}
    if name.startswith("compose"):
        return {"caption": re.sub(rf"\b{old}\b", composed[name.removeprefix("compose_")], caption, count=1)}
    if name == "positive_replace" and "near" in words:
        return {"possible": True, "old": "near", "new": "close to", "caption": caption.replace("near", "close to")}
    if name.startswith("positive"):
        match = re.fullmatch(r"(\w+ \w+ \w+) and (\w+ \w+ \w+)", caption)
        if name == "positive_replace" or not match:
            return {"possible": False}
        first, second = match.groups()
        return {"possible": True, "first": first, "second": second, "caption": f"{second} and {first}"}
    first, second = nouns if name == "swap_obj" else colours
    exchanged = re.sub(rf"\b({first}|{second})\b", lambda m: second if m[0] == first else first, caption)
    return {"possible": True, "first": first, "second": second, "caption": exchanged}
