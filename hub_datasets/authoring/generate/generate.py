"""Candidates for a benchmark: hard negatives and hard positives of captions, written by a language model or by rule.

How a model makes a candidate of each kind:

- replace (SugarCrepe, appendix C.2, three steps): locate the concepts of the caption; think of a new one for one of
  them, chosen at random; rewrite the caption with it.
- add (three steps): locate the objects; think of a new object, or of an attribute of one of them; rewrite the caption.
- swap (one step): decide whether two concepts can be exchanged, and rewrite the caption.
- positive_replace, positive_swap (Hard Positives, section 3.4 and appendix C.1, one step): decide whether a word has a
  synonym, or whether two joined parts can be exchanged, and rewrite the caption.

Locating and rewriting use temperature 0. A new concept uses 1.5, and is requested again if it cannot be used.

The steps and temperatures are the papers', the prompts are ours (`prompts`).

Each candidate is validated as a minimal change of its kind, given its caption's punctuation and capitals, and
deduplicated against the other candidates and captions of its image. Rejected candidates are counted by reason. Whether
a hard negative happens to be true of the image cannot be decided from text: people decide it (`review`).

A run's folder holds ``candidates.jsonl`` and ``report.json``, written at the end, and ``journal.jsonl``, to which every
question and answer is appended at once. A run that was killed continues with the same command, and repeats only the
questions that had no answer yet.

Source: SugarCrepe (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), section 4.1 and appendix C.2; The Hard Positive
Truth (Kamath et al., ECCV 2024), section 3.4 and appendix C.1.
"""

from __future__ import annotations

import functools
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import Progress

from ....metrics.common.documents import Part, print_tables, simple_table
from ....metrics.common.errors import DataError, ScoresError, check_known
from ....metrics.common.storage import alone_in, write_text
from ...chat.calls import Stopped, Usage, read_answers
from ...chat.client import Endpoint
from ..data.candidates import Candidate
from ..data.made import CANDIDATES_FILE, PAIRS_FILE, REVIEWED_FILE, relative_image
from ..data.sources import Captioned
from ..data.tables import write_rows
from ..text.perturb import caption_rng
from ..text.words import split
from .asking import JOURNAL_FILE, Asker, parse_answer
from .checks import KINDS, POSITIVE_KINDS
from .concepts import check_concept, locatable
from .formatting import accept
from .prompts import PROMPTS, STEPS, read_answer, write_prompt
from .rejected import REASONS, Rejected

REPORT_FILE = "report.json"
_SEEDS = 2**31
# How often a random step is asked until its answer can be used.
_TRIES = 3
# For estimates: an English token has about four characters, and a message some tokens of overhead.
_CHARACTERS_PER_TOKEN = 4
_TOKENS_PER_TURN = 4


# A candidate to make: its caption, its kind, and its number among candidates of both.
_Job = tuple[Captioned, str, int]


@dataclass
class GenerationReport:
    """The result of a run: by kind, the numbers of candidates made and, by reason, of those rejected.

    `source` is the model or the rules, `captions` the number of captions, and `usage` None without a model.
    """

    source: str
    kinds: list[str]
    captions: int
    made: Counter[str] = field(default_factory=Counter)
    rejected: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    usage: Usage | None = None
    candidates: list[Candidate] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the report without the candidates."""
        fields = {name: value for name, value in vars(self).items() if name != "candidates"}
        return fields | {"usage": self.usage and asdict(self.usage)}


class RequestEstimate(NamedTuple):
    """An estimate of the requests of a run in which every step succeeds at the first try.

    Attributes:
        by_kind: the numbers of questions and, estimated, of tokens read and written. A question that two kinds share
            counts for the first.
        most_calls: the number of questions if each random step is asked as often as allowed.
    """

    by_kind: dict[str, tuple[int, int, int]]
    most_calls: int


def plan(captions: Sequence[Captioned], kinds: Sequence[str] = KINDS, *, each: int = 1) -> RequestEstimate:
    """Estimate the questions and tokens of a run without sending a request.

    Takes arguments of `generate` and raises the same errors.
    """
    _check_options(kinds, each=each)
    by_kind: dict[str, tuple[int, int, int]] = dict.fromkeys(kinds, (0, 0, 0))
    repeated = 0
    asked: set[tuple[str, str]] = set()
    for item, kind, _ in _jobs(captions, kinds, each):
        length = len(item.caption) // _CHARACTERS_PER_TOKEN
        for number, step in enumerate(STEPS[kind]):
            if number == 0 and (step, item.caption) in asked:  # by then the journal has the answer
                continue
            asked.add((step, item.caption))
            repeated += (_TRIES - 1) * (PROMPTS[step].temperature > 0)
            fields = PROMPTS[step].fields
            calls, read, written = by_kind[kind]
            written += 8 * len(fields) + 4 + length * ("caption" in fields)
            by_kind[kind] = calls + 1, read + _prompt_tokens(step) + length, written
    return RequestEstimate(by_kind, sum(calls for calls, _, _ in by_kind.values()) + repeated)


@functools.cache
def _prompt_tokens(step: str) -> int:
    """Return the tokens of a prompt without its caption."""
    messages = write_prompt(step, "", old="", new="")
    return sum(len(message["content"]) // _CHARACTERS_PER_TOKEN + _TOKENS_PER_TURN for message in messages)


def generate(
    captions: Sequence[Captioned],
    model: Endpoint,
    out: str | Path,
    kinds: Sequence[str] = KINDS,
    *,
    each: int = 1,
    seed: int = 0,
    concurrency: int = 8,
    per_minute: float | None = None,
    first_wait: float | None = None,
    progress: bool = True,
) -> GenerationReport:
    """Make candidates of captions with a language model, and write them to ``out/candidates.jsonl``.

    Args:
        captions: from `sources.read_captions`.
        model: from `asking.open_model`, or any object with its `name` and `complete`.
        out: the folder of the run; its journal is continued.
        kinds: some of ``KINDS``.
        each: at most so many candidates of each kind for a caption, at least 1; kinds without a random step have one.
        seed: any integer. With the same answers of the model, candidates depend on it, on the captions, `kinds` and
            `each`, and not on `concurrency` or on interruptions.
        concurrency: the number of questions under way at once, at least 1.
        per_minute: the largest number of questions per minute; None for no limit.
        first_wait: seconds before a question is retried for the first time, at most; None for the default.
        progress: whether to show a progress bar on standard error.

    Returns:
        The report. Candidates are in the order of captions, then of kinds; they are not compared across images.

    Raises:
        UnknownNameError: unknown kinds.
        ScoresError: a number below 1.
        DataError: the folder has reviewed or refined candidates.
        ModelError: the model answers no question.
        StorageError: the folder cannot be written, or another run uses it.
    """
    _check_options(kinds, each=each, concurrency=concurrency)
    out, jobs = Path(out), list(_jobs(captions, kinds, each))
    _refuse_old_results(out)
    console = Console(stderr=True, quiet=not progress)
    with alone_in(out):
        asker = Asker(model, out / JOURNAL_FILE, per_minute=per_minute, first_wait=first_wait)

        def make(job: _Job) -> Candidate | Rejected:
            item, kind, number = job
            try:
                made = _make(kind, item.caption, asker, caption_rng(seed, f"{kind}#{number}", item.id))
            except Rejected as error:
                return error
            return _candidate(job, model.name, *made)

        outcomes = []
        with (
            Progress(console=console, disable=not console.is_terminal) as bar,
            ThreadPoolExecutor(concurrency) as pool,
        ):
            task = bar.add_task("candidates", total=len(jobs))
            try:
                for future in [pool.submit(make, job) for job in jobs]:
                    outcomes.append(future.result())
                    bar.advance(task)
            except BaseException as error:
                # Answers under way are paid for: they are awaited and recorded.
                asker.stop()
                pool.shutdown(cancel_futures=True)
                raise (asker.failure if isinstance(error, Stopped) else None) or error from None
        return _write_report(captions, list(zip(jobs, outcomes, strict=True)), model.name, out, asker.usage)


def generate_by_rule(
    captions: Sequence[Captioned],
    out: str | Path,
    kinds: Sequence[str] = KINDS,
    *,
    each: int = 1,
    seed: int = 0,
) -> GenerationReport:
    """Make candidates by rule, without a model, and write them to ``out/candidates.jsonl``.

    For arguments, result and errors see `generate` and `rules.make_by_rule`; the kinds are ``RULE_KINDS``.
    """
    from .rules import make_by_rule

    _check_options((), each=each)
    out, source = Path(out), "rules"
    _refuse_old_results(out)
    texts = [item.caption for item in captions]
    by_kind = {kind: make_by_rule(kind, texts, seed, most=each) for kind in dict.fromkeys(kinds)}
    outcomes: list[tuple[_Job, Candidate | Rejected]] = []
    for row, item in enumerate(captions):
        for kind, candidates in by_kind.items():
            for number, outcome in enumerate(candidates[row]):
                job = (item, kind, number)
                outcomes.append((job, outcome if isinstance(outcome, Rejected) else _candidate(job, source, *outcome)))
    with alone_in(out):
        return _write_report(captions, outcomes, source, out)


def _refuse_old_results(out: Path) -> None:
    """Raise `DataError` if a folder has results of earlier candidates, which other commands would read instead."""
    for name in (REVIEWED_FILE, PAIRS_FILE):
        if (out / name).exists():
            raise DataError(
                f"{out} has {name}, made of earlier candidates, which would count instead of the new ones; give "
                "another --out, or remove the file"
            )


def _make(kind: str, caption: str, asker: Asker, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """Return the text of a candidate, and what was changed in it; raise `Rejected`."""

    def ask(step: str, seed: int | None = None, attempt: int = 0, **texts: str) -> dict[str, Any]:
        prompt, messages = PROMPTS[step], write_prompt(step, caption, **texts)
        return read_answer(step, asker.ask(messages, prompt.temperature, prompt.max_tokens, seed, attempt))

    steps = STEPS[kind]
    if len(steps) == 1:
        answer = ask(kind)
        detail = {name: answer[name] for name in ("old", "first", "second", "new") if name in answer}
    else:
        locate, think, compose = steps
        located = ask(locate)["concepts"]
        concepts = locatable(caption, located, "obj" if kind.startswith("add") else kind.removeprefix("replace_"))
        if not concepts and located:
            raise Rejected("wrong kind", f"located were {', '.join(located)[:60]}")
        if not concepts:
            raise Rejected("not possible", "nothing to change was located")
        concept = concepts[int(rng.integers(len(concepts)))]
        new, seed = "", int(rng.integers(_SEEDS))
        for attempt in range(_TRIES):
            try:
                new = check_concept(caption, concept, ask(think, seed + attempt, attempt, old=concept)["concept"])
                break
            except Rejected as error:
                if attempt == _TRIES - 1 or error.reason in ("no answer", "refused"):
                    raise
        detail = {"old": concept, "new": new}
        answer = ask(compose, old=concept, new=new)
    old = [text for name, text in detail.items() if name != "new"]
    return accept(kind, caption, answer["caption"], old, detail.get("new", "")), detail


def _candidate(job: _Job, source: str, text: str, detail: dict[str, Any]) -> Candidate:
    item, kind, number = job
    id = f"{item.id}/{kind}" + (f"#{number}" if number else "")
    return Candidate(id, item.image, item.caption, text, kind, kind in POSITIVE_KINDS, source, detail)


def _write_report(
    captions: Sequence[Captioned],
    made: Sequence[tuple[_Job, Candidate | Rejected]],
    source: str,
    out: Path,
    usage: Usage | None = None,
) -> GenerationReport:
    """Write the report of a run and, last, the candidates, whose file marks a finished run.

    Candidates of one image are deduplicated by their words, also against its captions.
    """
    report = GenerationReport(source, list(dict.fromkeys(kind for (_, kind, _), _ in made)), len(captions), usage=usage)
    taken = {_key(item, item.caption): "a true caption" for item in captions}
    for (item, kind, _), outcome in made:
        if isinstance(outcome, Rejected):
            report.rejected[kind][outcome.reason] += 1
        elif reason := taken.get(key := _key(item, outcome.candidate)):
            report.rejected[kind][reason] += 1
        else:
            taken[key] = "duplicate"
            report.made[kind] += 1
            report.candidates.append(outcome)
    write_text(out / REPORT_FILE, json.dumps(report.as_json(), indent=1, ensure_ascii=False) + "\n")
    moved = (candidate._replace(image=relative_image(candidate.image, out)) for candidate in report.candidates)
    write_rows(moved, out / CANDIDATES_FILE)
    return report


def _key(item: Captioned, text: str) -> tuple[str, ...]:
    """Return a key that is equal for texts of the same words and image (if unknown, of the same caption)."""
    return item.image or f"caption:{item.caption}", *split(text).lower


def _check_options(kinds: Sequence[str], **numbers: int) -> None:
    """Raise `UnknownNameError` for an unknown kind, `ScoresError` for a number below 1."""
    check_known("kind of candidates", kinds, STEPS)
    for name, value in numbers.items():
        if value < 1:
            raise ScoresError(f"{name} is {value}; it must be at least 1")


def _jobs(captions: Sequence[Captioned], kinds: Sequence[str], each: int) -> Iterator[_Job]:
    for item in captions:
        for kind in dict.fromkeys(kinds):
            yield from ((item, kind, number) for number in range(each if len(STEPS[kind]) > 1 else 1))


def print_plan(estimate: RequestEstimate, captions: int, out: Path) -> None:
    """Print a table of the calls and tokens of a run, and how many answers the journal in its folder has."""
    headings = ("kind", "calls", "tokens read", "tokens written")
    journal = out / JOURNAL_FILE
    answers = len(read_answers(journal, parse_answer)[1]) if journal.exists() else 0
    note = (
        f"At most {estimate.most_calls:,} calls, if each new concept is asked for as often as allowed; fewer where "
        "captions offer nothing to change. Tokens are estimated at four characters each. "
        f"The journal has {answers:,} answers, which are not asked for again. Nothing was asked."
    )
    print_tables([_counts_table(f"Requests for {captions:,} captions", headings, estimate.by_kind), note])


def print_report(report: GenerationReport) -> None:
    """Print a table of made and rejected candidates, and the requests."""
    reasons = [reason for reason in REASONS if any(counter[reason] for counter in report.rejected.values())]
    counts = {kind: [report.made[kind], *map(report.rejected[kind].__getitem__, reasons)] for kind in report.kinds}
    title = f"Candidates of {report.captions:,} captions by {report.source}"
    parts: list[Part] = [_counts_table(title, ("kind", "made", *reasons), counts)]
    if usage := report.usage:
        parts.append(
            f"{usage.calls:,} calls of {usage.prompt_tokens:,} tokens read and {usage.completion_tokens:,} written; "
            f"{usage.reused:,} answers were there already"
        )
    print_tables(parts)


def _counts_table(title: str, headings: Sequence[str], counts: Mapping[str, Sequence[int]]) -> Part:
    """Return a table of the counts of each kind, and of their sums."""
    sums = [sum(column) for column in zip(*counts.values(), strict=True)]
    rows = [[name, *map("{:,}".format, counted)] for name, counted in (*counts.items(), ("all", sums))]
    return simple_table(headings, [*rows[:-1], None, rows[-1]], title=title, numbers=True)
