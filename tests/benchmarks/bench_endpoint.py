"""Throughput of runs against a local server, with and without faults, next to what the server can do.

    python tests/benchmarks/bench_endpoint.py [--questions 1000] [--latency 0.1] [--slots 8]

The server answers `slots` questions at once, each after `latency` seconds. Its own throughput is that of so many
threads that send a request each and do nothing else. A tenth of the requests of the second run meet a fault. Exits with
1 when a run takes more than 1.2 times as long as the server's own time for the requests that it was sent.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from pathlib import Path

import numpy as np
from harness import check_goals, read_options, workplace
from vision_model_stand_in import QUICK_FAULTS, VisionModelStandIn, start_run, yes_or_no

MOST_RATIO = 1.2


def bare_seconds(server: VisionModelStandIn, body: bytes, requests: int, threads: int) -> float:
    """The time of so many requests from threads that send the next when they have an answer."""
    left = iter(range(requests))

    def send() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", int(server.url.split(":")[2].split("/")[0]))
        for _ in left:
            connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
            connection.getresponse().read()

    pool = [threading.Thread(target=send) for _ in range(threads)]
    start = time.monotonic()
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    return time.monotonic() - start


def request_body(server: VisionModelStandIn) -> bytes:
    """A request of ordinary size, with an image of toy_scenes."""
    from vl_assay.hub_datasets import load_examples
    from vl_assay.model_wrappers.engine.plan import ScoringPlan

    content = ScoringPlan(load_examples("toy_scenes/vqa", limit=1)).image_bytes(0)
    return json.dumps(server.request(content, "Is there a dog? Please answer yes or no.")).encode()


def main() -> int:
    options = read_options(__doc__, questions=1000, latency=0.1, slots=8)
    rng = np.random.default_rng(0)
    faulty = {n: QUICK_FAULTS[n % len(QUICK_FAULTS)] for n in range(10 * options.questions) if rng.random() < 0.1}
    goals = []
    for name, faults in (("without faults", {}), ("with faults in 10 % of the requests", faulty)):
        with workplace() as folder:
            settings = {"latency": options.latency, "slots": options.slots, "fault": lambda n, _, f=faults: f.get(n)}
            with VisionModelStandIn(lambda image, prompt: yes_or_no(0.7), **settings) as server:
                run = start_run(server, folder / "out", Path(folder) / "cache", limit=options.questions,
                                concurrency=options.slots)  # fmt: skip
                assert run.wait() == 0
                taken, sent = server.last - server.first, len(server.requests)
                assert len(server.answered) == server.answered.total() == options.questions + 1
                server.fault = None
                own = bare_seconds(server, request_body(server), sent, options.slots)
        print(f"{name}: {sent:,} requests, {options.questions / taken:.1f} answers a second; the server's own time "
              f"for them {own:.1f} s, the run's {taken:.1f} s")  # fmt: skip
        goals.append((f"run / server, {name}", taken / own, "<=", MOST_RATIO))
    return check_goals("Endpoint", goals)


if __name__ == "__main__":
    sys.exit(main())
