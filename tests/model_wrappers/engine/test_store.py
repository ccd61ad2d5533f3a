"""The store of results: nothing twice, nothing wrong, nothing lost."""

from __future__ import annotations

import os
import resource
import signal
import threading

import numpy as np
import pytest
from damage import flipped
from support import Recorder, all_scores, run_quietly

from vl_assay.metrics.common.errors import ModelError, StorageError
from vl_assay.model_wrappers.engine.store import Store, StoredRows, cached_folder, cached_models, item_key, make_room

MODEL = {"name": "m", "revision": "1", "dtype": "float32"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path / "cache"))


def row_of(number, width=2):
    return np.cos(number + np.arange(width), dtype=np.float32)


def ask(numbers, model=MODEL, messages=None):
    """Return the positions of those of the numbered items that are missing, after which they are stored."""
    store = Store(cached_folder(model), (messages if messages is not None else []).append)
    keys, rows = [item_key(str(number)) for number in numbers], StoredRows(len(numbers))
    store.read("images", keys, rows)
    missing = rows.missing
    new = np.stack([row_of(numbers[i]) for i in missing]) if len(missing) else np.empty((0, 2), np.float32)
    store.add("images", [keys[i] for i in missing], new)
    rows.put(missing, new)
    assert (rows.filled() == np.stack([row_of(number) for number in numbers])).all()
    make_room(keep=store)
    return missing.tolist()


def test_only_what_is_missing_is_asked_for_again(tmp_path):
    assert ask(range(3)) == [0, 1, 2]
    assert ask(range(5)) == [3, 4]
    assert ask(range(5)) == []


def test_ragged_rows_come_back_with_their_lengths_and_kinds_apart():
    store, keys = Store(cached_folder(MODEL)), [item_key("image", str(number)) for number in range(4)]
    given = [np.arange(length, dtype=np.float64) for length in (6, 0, 12, 6)]
    store.add("boxes", keys, given)
    rows, others = StoredRows(4, ragged=True), StoredRows(4, ragged=True)
    store.read("boxes", keys, rows)
    store.read("float64-boxes", keys, others)
    assert all((ours == theirs).all() for ours, theirs in zip(rows.filled(), given, strict=True))
    assert others.missing.tolist() == [0, 1, 2, 3]


def test_no_part_that_is_cut_or_has_a_flipped_bit_is_taken(tmp_path):
    ask(range(10))
    [part] = (tmp_path / "cache").rglob("*.parquet")
    content, rng, messages = part.read_bytes(), np.random.default_rng(0), []
    cut = (b"", b"not a table", content[: len(content) // 2], content[:-32])
    for damaged in [*cut, *(flipped(content, rng) for _ in range(40))]:
        part.write_bytes(damaged)
        assert ask(range(10), messages=messages) == list(range(10))
    assert len(messages) == 44
    assert "is damaged" in messages[0]


def test_a_damaged_description_empties_the_models_folder(tmp_path):
    ask(range(4))
    [description] = (tmp_path / "cache").rglob("model.json")
    description.write_text("{")
    assert [model.name for model in cached_models()] == ["(damaged)"]
    assert ask(range(4)) == [0, 1, 2, 3]


def test_runs_at_once_lose_no_entry_and_spoil_none():
    errors = []

    def run(number):
        try:
            for turn in range(5):
                ask(range(7 * ((number + turn) % 5), 7 * ((number + turn) % 5) + 20))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert ask(range(48)) == []


def test_the_least_recently_used_models_go_when_the_limit_is_passed(tmp_path, monkeypatch):
    other = MODEL | {"name": "other"}
    ask(range(100))
    [first] = (tmp_path / "cache").rglob("model.json")
    os.utime(first, (1, 1))
    size = cached_models()[0].bytes
    monkeypatch.setenv("VL_ASSAY_CACHE_LIMIT", str(1.5 * size / 1e9))
    (first.parent / "images.gone.parquet").symlink_to("gone")  # another run deletes a part after it was listed
    ask(range(100), other)
    (first.parent / "images.gone.parquet").unlink()
    ask(range(100), other)
    assert [model.name for model in cached_models()] == ["other"]
    monkeypatch.setenv("VL_ASSAY_CACHE_LIMIT", "0")
    assert ask(range(100), other) == []  # the model in use stays, however small the limit
    monkeypatch.setenv("VL_ASSAY_CACHE_LIMIT", "much")
    with pytest.raises(StorageError, match="VL_ASSAY_CACHE_LIMIT is 'much'; give gigabytes as a number"):
        ask(range(3))


def test_rows_of_another_width_are_an_error():
    rows = StoredRows(2)
    rows.put(np.array([0]), np.zeros((1, 3)))
    with pytest.raises(ModelError, match="holds rows of width 3 and the model gives 2; clear it"):
        rows.put(np.array([1]), np.zeros((1, 2)))


def test_a_second_run_computes_nothing_and_gives_the_same_scores(coco, tmp_path):
    folder = coco(rows=60, images=30)
    first, second, without = Recorder(), Recorder(), Recorder()
    ours = all_scores(run_quietly(first, folder, tmp_path / "a", cache=True))
    theirs = all_scores(run_quietly(second, folder, tmp_path / "b", cache=True))
    assert (ours == theirs).all()
    assert first.images > 0
    assert (second.images, second.captions, second.exact) == (0, 0, 0)
    run_quietly(without, folder, tmp_path / "c")
    assert without.images == first.images


def test_a_full_disk_costs_the_store_and_not_the_run(coco, tmp_path):
    folder = coco(rows=60, images=30)
    theirs = all_scores(run_quietly(Recorder(), folder, tmp_path / "a"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, limits[1]))  # the predictions fit, the captions do not
        ours = all_scores(run_quietly(Recorder(), folder, tmp_path / "b", cache=True))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert (ours == theirs).all()
    again = Recorder()
    run_quietly(again, folder, tmp_path / "c", cache=True)
    assert again.images == 0
    assert again.captions > 0
