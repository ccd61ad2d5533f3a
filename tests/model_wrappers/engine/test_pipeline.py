"""Chunks and the pipeline: work is split, shared among processes, and fitted to the device's memory."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vl_assay.metrics.common.errors import ModelError, StorageError
from vl_assay.model_wrappers.engine.chunks import ChunkStore, cut, cut_by_cost, run_chunks
from vl_assay.model_wrappers.engine.distributed import Processes
from vl_assay.model_wrappers.engine.pipeline import Pipeline
from vl_assay.model_wrappers.engine.progress import Progress


@dataclass(frozen=True)
class Member(Processes):
    """One of several processes of a run, as a thread; they meet at barriers."""

    barrier: Any = None

    def share_token(self):
        self.barrier.wait()
        return "token"

    def wait(self):
        self.barrier.wait()

    @contextlib.contextmanager
    def raise_on_all_ranks(self):
        yield
        self.barrier.wait()


def stages(tmp_path, batch_size=8, processes=None):
    return Pipeline("model", ChunkStore(tmp_path / "parts"), processes or Processes(), Progress(show=False), batch_size)


def double(batch):
    return np.array([[2.0 * item] for item in batch])


@given(st.lists(st.floats(0.1, 20), max_size=40), st.floats(1, 50))
def test_parts_by_cost_hold_every_item_once_and_no_more_than_the_limit(costs, limit):
    parts = cut_by_cost(costs, limit)
    assert [number for part in parts for number in part] == list(range(len(costs)))
    assert all(len(part) == 1 or sum(costs[i] for i in part) <= limit * (1 + 1e-9) for part in parts)
    # No two neighbours would have fitted into one part.
    for first, second in itertools.pairwise(parts):
        assert sum(costs[i] for i in first) + costs[second[0]] > limit * (1 - 1e-9)


def test_64_processes_with_skewed_costs_end_within_a_tenth_of_the_mean():
    """Greedy claims, as `run_chunks` makes them: a free process claims the next chunk."""
    rng = np.random.default_rng(0)
    costs = rng.lognormal(0, 1.5, 100_000)
    parts = [costs[list(part)].sum() for part in cut_by_cost(costs, costs.sum() / 64 / 40)]
    ends = [0.0] * 64
    for cost in parts:
        heapq.heappush(ends, heapq.heappop(ends) + cost)
    assert max(ends) < 1.1 * np.mean(ends)
    # Cut by count and dealt out beforehand, as many parts would not do.
    by_count = np.array([costs[list(part)].sum() for part in cut(len(costs), -(-len(costs) // len(parts)))])
    dealt = [by_count[rank::64].sum() for rank in range(64)]
    assert max(dealt) > 1.1 * np.mean(dealt)


@pytest.mark.parametrize("world", [2, 5])
def test_processes_share_the_parts_and_each_sees_all_rows(world, tmp_path):
    barrier, parts, taken, results = threading.Barrier(world), cut(60, 3), [], {}

    def member(rank):
        def compute(claims, left, save):
            for number, part in claims:
                taken.append(number)
                save(number, np.array([[float(item)] for item in part]))

        store = ChunkStore(tmp_path)
        results[rank] = np.concatenate(run_chunks(store, "stage", parts, Member(rank, world, barrier=barrier), compute))

    threads = [threading.Thread(target=member, args=(rank,)) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(taken) == list(range(20))
    assert all(results[rank][:, 0].tolist() == list(range(60)) for rank in range(world))


def test_claims_of_a_killed_run_do_not_hold_back_the_next(tmp_path):
    store = ChunkStore(tmp_path)
    assert store.claim("stage", 0, "first")
    assert not store.claim("stage", 0, "first")
    assert store.claim("stage", 0, "second")


def test_batches_are_halved_where_memory_ends_and_the_rows_stay_the_same(tmp_path):
    seen = []

    def compute(batch):
        seen.append(len(batch))
        if len(batch) > 3:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        return double(batch)

    small = stages(tmp_path, batch_size=16)
    rows = small.run("stage", cut(40, 16), float, compute)
    assert rows[:, 0].tolist() == [2.0 * i for i in range(40)]
    assert small.batch_size == 2
    assert max(seen[seen.index(2) :]) <= 8  # the rest of the first batch, and never again as large as it was


def test_an_item_that_does_not_fit_alone_is_an_error_that_says_so(tmp_path):
    def compute(batch):
        raise MemoryError("cannot allocate")

    with pytest.raises(ModelError, match="even with one item at a time"):
        stages(tmp_path, batch_size=4).run("stage", cut(4, 4), float, compute)


def test_other_errors_are_not_taken_for_a_lack_of_memory(tmp_path):
    def compute(batch):
        raise RuntimeError("shapes do not agree")

    with pytest.raises(RuntimeError, match="shapes do not agree"):
        stages(tmp_path).run("stage", cut(4, 4), float, compute)


def test_no_more_than_three_batches_are_in_memory(tmp_path):
    loaded, used, most = [], [], []

    def load(number):
        loaded.append(number)
        return float(number)

    def compute(batch):
        most.append(len(loaded) - len(used))
        used.extend(batch)
        return double(batch)

    stages(tmp_path, batch_size=5).run("stage", cut(200, 20), load, compute)
    assert used == [float(i) for i in range(200)]
    assert max(most) <= 15


def test_no_part_but_the_next_is_claimed(tmp_path):
    claimed, begun, ahead = [], [], []

    class Counting(ChunkStore):
        def claim(self, stage, number, session):
            claimed.append(number)
            return super().claim(stage, number, session)

    def compute(batch):
        begun.append(batch[0] // 4)
        ahead.append(len(claimed) - len(set(begun)))
        return double(batch)

    many = Pipeline("model", Counting(tmp_path), Member(0, 2, barrier=threading.Barrier(1)), Progress(show=False), 32)
    many.run("stage", cut(80, 4), int, compute)
    assert len(claimed) == 20
    assert max(ahead) <= 1


def test_seconds_of_each_stage_are_told(tmp_path):
    timed = stages(tmp_path)
    timed.run("stage", cut(20, 5), float, double)
    assert timed.seconds["stage"]["total"] >= timed.seconds["stage"]["waiting"] >= 0


@pytest.mark.parametrize("terminal", [True, False])
def test_stages_are_named_in_words_and_a_log_has_a_line_for_each(terminal, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR" if terminal else "NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    pipeline = Pipeline("model", ChunkStore(tmp_path), Processes(), Progress(show=True))
    for stage in ("images", "recheck-captions-1a2b"):
        pipeline.run(stage, cut(3, 2), float, lambda batch: np.array(batch)[:, None])
    shown = capsys.readouterr().err
    assert "encoding images" in shown
    assert "re-checking near-ties: captions" in shown
    assert "1a2b" not in shown
    assert ("3/3" in shown) is terminal
    if not terminal:
        assert shown.splitlines() == ["encoding images: 3", "re-checking near-ties: captions: 3"]


def test_processes_of_one_model_all_compute_all_chunks_and_the_first_writes_them(tmp_path):
    computed = {}

    def run(rank):
        def compute(claims, left, save):
            computed[rank] = [number for number, _ in claims]
            for number in computed[rank]:
                save(number, np.full((2, 1), number))

        processes = Processes(rank=rank, world=2, together=True)
        return run_chunks(ChunkStore(tmp_path / str(rank)), "pairs", [range(2), range(2, 4)], processes, compute)

    assert [rows[0, 0] for rows in run(0)] == [0, 1]
    with pytest.raises(StorageError, match="finished by another process"):
        run(1)  # whose first process has written nothing here
    assert computed == {0: [0, 1], 1: [0, 1]}
