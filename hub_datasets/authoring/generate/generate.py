"""Candidates for a benchmark: hard negatives and hard positives of captions, written by a language model.

Each candidate is made by the workflow of its kind (`_generate_kinds`), checked to be a minimal change of that kind, put
into its caption's dress, and compared with the other candidates and true captions of its image. What does not pass is
left out and counted with its reason. People then judge the candidates (`review`): no text tells whether a hard negative
happens to be true of the image.

A run's folder holds ``candidates.jsonl``, written at the end, ``report.json``, and ``journal.jsonl``, in which every
question and answer is written down as it comes: after a kill the same command goes on there and asks nothing twice.

Source: SugarCrepe (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), section 4.1 and appendix C.2; The Hard Positive
Truth (Kamath et al., ECCV 2024), section 3.4 and appendix C.1.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ....metrics.common.errors import ScoresError, UnknownNameError
from ....metrics.common.storage import alone_in, write_text
from ..data.candidates import CANDIDATES_FILE, Candidate, write_candidates
from ..data.sources import Captioned
from ..text.perturb import caption_rng
from .asking import JOURNAL_FILE, Asker, Journal, Stopped, Usage
from .checks import KINDS, NEGATIVE_KINDS, POSITIVE_KINDS, Rejected, split
from .endpoint import LanguageModel
from .kinds import STEPS, make
from .prompts import PROMPTS, write_messages

__all__ = ["KINDS", "NEGATIVE_KINDS", "POSITIVE_KINDS", "Estimate", "Report", "generate", "generate_by_rule", "plan"]

REPORT_FILE = "report.json"
# Questions that wait for their turn, for each that is under way: enough that a slow one holds up no other.
_WAITING = 64
# An English token has about four characters; a turn has some more for its role.
_CHARACTERS_PER_TOKEN = 4
_TOKENS_PER_TURN = 4
_T = TypeVar("_T")


class Job(NamedTuple):
    """A candidate that is wanted: of which caption, which kind, and the how many-th of it."""

    item: Captioned
    kind: str
    number: int


@dataclass
class Report:
    """What came of a run.

    Attributes:
        source: the model or rules.
        kinds: what was asked for.
        captions: how many captions there were.
        made: candidates by kind.
        rejected: of each kind how many were left out, by reason.
        usage: what was asked for in this run; None where no model was.
        candidates: the candidates.
    """

    source: str
    kinds: list[str]
    captions: int
    made: Counter[str] = field(default_factory=Counter)
    rejected: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    usage: Usage | None = None
    candidates: list[Candidate] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The report without the candidates."""
        return {
            "source": self.source,
            "kinds": self.kinds,
            "captions": self.captions,
            "made": dict(self.made),
            "rejected": {kind: dict(reasons) for kind, reasons in self.rejected.items()},
            "usage": None if self.usage is None else asdict(self.usage),
        }


class Estimate(NamedTuple):
    """How much a run asks for if every step of it succeeds at once.

    Attributes:
        calls: questions, by kind. Concepts that two kinds locate alike are asked for once, and count for the first.
        prompt_tokens, completion_tokens: about how many tokens are read and written, by kind.
        most_calls: how many questions there are if each step of chance is asked as often as it may be.
    """

    calls: dict[str, int]
    prompt_tokens: dict[str, int]
    completion_tokens: dict[str, int]
    most_calls: int


def plan(captions: Sequence[Captioned], kinds: Sequence[str] = KINDS, *, each: int = 1, tries: int = 3) -> Estimate:
    """How many questions and tokens a run takes; nothing is asked.

    Arguments and errors are those of `generate`. Tokens are characters by four.
    """
    _check_options(kinds, each=each, tries=tries)
    calls, prompt_tokens, completion_tokens = Counter[str](), Counter[str](), Counter[str]()
    anew = 0
    sizes = {step: _size(step) for kind in kinds for step in STEPS[kind]}
    asked: set[tuple[str, str]] = set()
    for item, kind, _ in _jobs(captions, kinds, each):
        length = len(item.caption)
        for step in STEPS[kind]:
            if PROMPTS[step].temperature == 0 and step == STEPS[kind][0]:
                if (step, item.caption) in asked:  # the journal has the answer by then
                    continue
                asked.add((step, item.caption))
            elif PROMPTS[step].temperature > 0:
                anew += tries - 1
            calls[kind] += 1
            prompt, answer = sizes[step]
            prompt_tokens[kind] += prompt + length // _CHARACTERS_PER_TOKEN
            completion_tokens[kind] += answer + (
                length // _CHARACTERS_PER_TOKEN if "caption" in PROMPTS[step].fields else 0
            )
    return Estimate(dict(calls), dict(prompt_tokens), dict(completion_tokens), calls.total() + anew)


def generate(
    captions: Sequence[Captioned],
    model: LanguageModel,
    out: str | Path,
    kinds: Sequence[str] = KINDS,
    *,
    each: int = 1,
    tries: int = 3,
    seed: int = 0,
    concurrency: int = 8,
    per_minute: float | None = None,
    progress: bool = True,
) -> Report:
    """Make candidates of captions with a language model, and write them to ``out/candidates.jsonl``.

    Args:
        captions: from `_sources.read_captions`.
        model: from `_endpoint.open_model`, or anything that follows its protocol.
        out: the folder of the run. Its journal is gone on with.
        kinds: of what kinds, some of ``KINDS``.
        each: how many candidates of each kind a caption gets at most, at least 1; kinds without a step of chance have
            one.
        tries: how often a step of chance is asked until its answer can be used, at least 1.
        seed: any integer. With the same answers of the model the candidates depend on it, on the captions and on
            `kinds`, `each` and `tries`, not on `concurrency` or on how often a run was broken off.
        concurrency: how many questions are under way at once, at least 1.
        per_minute: how many questions a minute may have; None for no limit.
        progress: whether a bar is shown on standard error.

    Returns:
        The report. Candidates are in the order of captions, then of kinds; they are not compared with those of other
        images.

    Raises:
        UnknownNameError: a kind that does not exist.
        ScoresError: a number below 1.
        ModelError: the model answers nothing.
        StorageError: the folder cannot be written, or another run has it.
    """
    _check_options(kinds, each=each, tries=tries, concurrency=concurrency)
    out = Path(out)
    jobs = list(_jobs(captions, kinds, each))
    with alone_in(out):
        asker = Asker(model, Journal(out / JOURNAL_FILE), per_minute=per_minute)

        def work(job: Job) -> Candidate | Rejected:
            rng = caption_rng(seed, f"{job.kind}#{job.number}", job.item.id)
            try:
                text, detail = make(job.kind, job.item.caption, asker, rng, tries)
            except Rejected as error:
                return error
            return candidate(job, text, model.name, detail)

        try:
            with _bar(len(jobs), show=progress) as advance:
                made = list(_in_order(work, jobs, concurrency, advance, asker.stop))
        except Stopped:
            raise asker.failure or Stopped from None
        report = collect(captions, jobs, made, model.name)
        report.usage = asker.usage
        write(report, out)
    return report


def generate_by_rule(
    captions: Sequence[Captioned],
    out: str | Path,
    kinds: Sequence[str] = KINDS,
    *,
    each: int = 1,
    seed: int = 0,
    lexicon: str = "builtin",
) -> Report:
    """Make candidates by rule, without a model, and write them to ``out/candidates.jsonl``.

    Arguments, result and errors are those of `generate` and `_rules.make_by_rule`, whose ``RULE_KINDS`` are the kinds.
    """
    from .rules import make_by_rule

    _check_numbers(each=each)
    out = Path(out)
    source = f"rules ({lexicon})"
    texts = [item.caption for item in captions]
    by_kind = {kind: make_by_rule(kind, texts, seed, most=each, lexicon=lexicon) for kind in dict.fromkeys(kinds)}
    jobs: list[Job] = []
    made: list[Candidate | Rejected] = []
    for place, item in enumerate(captions):
        for kind, found in by_kind.items():
            for number, outcome in enumerate(found[place]):
                jobs.append(Job(item, kind, number))
                made.append(
                    outcome if isinstance(outcome, Rejected) else candidate(jobs[-1], outcome[0], source, outcome[1])
                )
    with alone_in(out):
        report = collect(captions, jobs, made, source)
        write(report, out)
    return report


def candidate(job: Job, text: str, source: str, detail: dict[str, Any]) -> Candidate:
    """The candidate of a job."""
    item, kind, number = job
    id = f"{item.id}/{kind}" + (f"#{number}" if number else "")
    return Candidate(id, item.image, item.caption, text, kind, kind in POSITIVE_KINDS, source, detail)


def collect(
    captions: Sequence[Captioned], jobs: Sequence[Job], made: Iterable[Candidate | Rejected], source: str
) -> Report:
    """The report of a run: of candidates of one image with equal words the first stays, and none that a caption has."""
    report = Report(source, list(dict.fromkeys(job.kind for job in jobs)), len(captions))
    taken: dict[str, dict[tuple[str, ...], str]] = defaultdict(dict)
    for item in captions:
        taken[_image(item)][_words(item.caption)] = "a true caption"
    for job, outcome in zip(jobs, made, strict=True):
        if isinstance(outcome, Rejected):
            report.rejected[job.kind][outcome.reason] += 1
            continue
        words = taken[_image(job.item)]
        reason = words.setdefault(_words(outcome.candidate), "")
        if reason:
            report.rejected[job.kind][reason] += 1
            continue
        words[_words(outcome.candidate)] = "duplicate"
        report.made[job.kind] += 1
        report.candidates.append(outcome)
    return report


def write(report: Report, out: Path) -> None:
    """Write the candidates and the report to the run's folder; the candidates last, so that they show its end."""
    write_text(out / REPORT_FILE, json.dumps(report.as_json(), indent=1, ensure_ascii=False) + "\n")
    here = [each._replace(image=_relative(each.image, out)) for each in report.candidates]
    write_candidates(here, out / CANDIDATES_FILE)


def _check_options(kinds: Sequence[str], **numbers: int) -> None:
    for kind in kinds:
        if kind not in STEPS:
            raise UnknownNameError("kind of candidates", kind, STEPS)
    _check_numbers(**numbers)


def _check_numbers(**numbers: int) -> None:
    for name, value in numbers.items():
        if value < 1:
            raise ScoresError(f"{name} is {value}; it must be at least 1")


def _jobs(captions: Sequence[Captioned], kinds: Sequence[str], each: int) -> Iterator[Job]:
    for item in captions:
        for kind in dict.fromkeys(kinds):
            yield from (Job(item, kind, number) for number in range(each if len(STEPS[kind]) > 1 else 1))


def _in_order(
    work: Callable[[Job], _T],
    jobs: Iterable[Job],
    concurrency: int,
    advance: Callable[[], None],
    stop: Callable[[], None],
) -> Iterator[_T]:
    """What `work` makes of the jobs, in their order, with so many at once."""
    with ThreadPoolExecutor(concurrency) as pool:
        waiting: deque[Future[_T]] = deque()
        try:
            for job in jobs:
                waiting.append(pool.submit(work, job))
                if len(waiting) >= _WAITING * concurrency:
                    yield waiting.popleft().result()
                    advance()
            while waiting:
                yield waiting.popleft().result()
                advance()
        except BaseException:
            # What was asked is paid for, so its answers are waited for and written down; nothing more is asked.
            stop()
            for future in waiting:
                future.cancel()
            raise


@contextmanager
def _bar(total: int, *, show: bool) -> Iterator[Callable[[], None]]:
    """A bar on standard error for so many candidates; yields what advances it by one."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True, quiet=not show)
    with Progress(*Progress.get_default_columns(), console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("candidates", total=total)
        yield lambda: bar.advance(task)


def _image(item: Captioned) -> str:
    """What captions of one image share; where it is unknown, each caption is an image of its own."""
    return item.image or f"caption:{item.caption}"


def _words(text: str) -> tuple[str, ...]:
    return tuple(split(text).lower)


def _relative(image: str, folder: Path) -> str:
    """The path of an image as seen from a folder; a URL, and what is no file here, stays as it is."""
    if not image or "://" in image or not Path(image).is_file():
        return image
    return Path(os.path.relpath(Path(image).resolve(), folder.resolve())).as_posix()


def _size(step: str) -> tuple[int, int]:
    """Tokens of a prompt without its caption, and of an answer to it."""
    names = ("caption", "old", "new")
    messages = write_messages(step, **dict.fromkeys(names, ""))
    prompt = sum(len(message["content"]) // _CHARACTERS_PER_TOKEN + _TOKENS_PER_TURN for message in messages)
    return prompt, 8 * len(PROMPTS[step].fields) + 4
