"""The cache of embeddings: nothing twice, nothing wrong, nothing lost."""

from __future__ import annotations

import os
import resource
import signal
import threading

import numpy as np
import pytest
from damage import flipped
from support import Recorder, all_scores, run_quietly

from vl_assay.model_wrappers import ModelInfo
from vl_assay.model_wrappers.engine.cache import cached_models, clear_cache, open_cache
from vl_assay.model_wrappers.engine.chunks import ChunkStore
from vl_assay.model_wrappers.engine.distributed import Processes

INFO = ModelInfo("m", "test", "m", "1", "float32")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path / "cache"))


def keys_of(count, start=0):
    return [f"{number:032x}" for number in range(start, start + count)]


def row_of(key):
    angle = int(key, 16)
    return np.array([np.cos(angle), np.sin(angle)], np.float32)


class Encoder:
    """Encodes keys and counts them."""

    def __init__(self, keys):
        self.keys, self.count = keys, 0

    def __call__(self, places, stage):
        self.count += len(places)
        return np.array([row_of(self.keys[place]) for place in places], np.float32)


def embed(tmp_path, keys, run, info=INFO):
    cache = open_cache(info, "cpu", {}, ChunkStore(tmp_path / "parts" / str(run)), Processes(), keep=True)
    encoder = Encoder(keys)
    rows = cache.embed("images", keys, encoder)
    assert (rows == np.array([row_of(key) for key in keys])).all()
    assert cache.facts() == {"cached_images": len(keys) - encoder.count}
    return encoder


def test_models_of_other_revisions_dtypes_or_settings_share_nothing(tmp_path):
    embed(tmp_path, keys_of(3), 1)
    for number, change in enumerate(({"revision": "2"}, {"dtype": "bfloat16"}, {"settings": {"head": "itc"}}), start=2):
        other = ModelInfo(**{**vars(INFO), **change})
        assert embed(tmp_path, keys_of(3), number, other).count == 3
    assert len(cached_models()) == 4


def test_no_shard_that_is_cut_or_has_a_flipped_bit_is_taken(tmp_path):
    embed(tmp_path, keys_of(10), 1)
    [shard] = (tmp_path / "cache").rglob("*.npz")
    content, rng = shard.read_bytes(), np.random.default_rng(0)
    cut = (b"", b"not an archive", content[: len(content) // 2], content[:-32])
    for number, damaged in enumerate([*cut, *(flipped(content, rng) for _ in range(500))]):
        shard.write_bytes(damaged)
        assert embed(tmp_path, keys_of(10), 2 + number).count == 10


def test_a_damaged_description_empties_the_models_folder(tmp_path):
    embed(tmp_path, keys_of(4), 1)
    [description] = (tmp_path / "cache").rglob("model.json")
    description.write_text("{")
    assert [model.name for model in cached_models()] == ["(damaged)"]
    assert embed(tmp_path, keys_of(4), 2).count == 4


def test_runs_at_once_lose_no_entry_and_spoil_none(tmp_path):
    errors = []

    def run(number):
        try:
            for turn in range(5):
                embed(tmp_path, keys_of(20, start=7 * ((number + turn) % 5)), f"{number}-{turn}")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert embed(tmp_path, keys_of(48), "last").count == 0


def test_the_least_recently_used_shards_go_when_the_limit_is_passed(tmp_path, monkeypatch):
    embed(tmp_path, keys_of(100), 1)
    [first] = (tmp_path / "cache").rglob("*.npz")
    os.utime(first, (1, 1))
    monkeypatch.setenv("VL_ASSAY_CACHE_LIMIT", str(1.5 * first.stat().st_size / 1e9))
    embed(tmp_path, keys_of(100, start=1000), 2)
    assert not first.exists()
    assert embed(tmp_path, keys_of(100, start=1000), 3).count == 0


def test_clearing_says_how_much_it_freed(tmp_path):
    embed(tmp_path, keys_of(10), 1)
    [model] = cached_models()
    assert (model.name, model.shards) == ("m", 1)
    assert clear_cache() == model.bytes > 0
    assert cached_models() == []


def test_a_second_run_encodes_nothing_and_gives_the_same_scores(coco, tmp_path):
    folder = coco(rows=60, images=30)
    first, second, without = Recorder(), Recorder(), Recorder()
    ours = all_scores(run_quietly(first, folder, tmp_path / "a", cache=True))
    theirs = all_scores(run_quietly(second, folder, tmp_path / "b", cache=True))
    assert (ours == theirs).all()
    assert first.images > 0
    assert (second.images, second.captions) == (0, 0)
    run_quietly(without, folder, tmp_path / "c")
    assert without.images == first.images


def test_a_full_disk_costs_the_cache_and_not_the_run(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        embed(tmp_path, keys_of(3), 1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))  # the description of the model fits, a shard not
        assert embed(tmp_path, keys_of(100, start=100), 2).count == 100
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert embed(tmp_path, keys_of(3), 3).count == 0
    assert embed(tmp_path, keys_of(100, start=100), 4).count == 100
