"""From shard to shard: reading, resuming, parts of a run, damaged shards, and what cannot be opened."""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
from contextlib import nullcontext
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from console import invoke
from ray_support import import_ray, nodes_of_which_one_is_killed, ray_cluster

from vl_assay.hub_datasets.corpora.running import read_record, run_shards
from vl_assay.hub_datasets.corpora.shards import find_shards, read_batches
from vl_assay.hub_datasets.corpora.statistics import CaptionStatistics
from vl_assay.metrics.common.errors import DataError, StorageError, VLAssayError

CAPTIONS = ["A dog runs.", None, "two cats", "", "a dog runs"]


def write_tar(file, captions, images=()):
    with tarfile.open(fileobj=file, mode="w") as archive:
        for number, caption in enumerate(captions):
            members = {"json": json.dumps({"url": "x", "title": caption}).encode()}
            if caption is not None:
                members["txt"] = f"{caption}\n".encode()
            if number < len(images):
                members["JPG"] = images[number]
            for suffix, content in members.items():
                member = tarfile.TarInfo(f"part/{number:03d}.{suffix}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def write_parquet(path, captions, **columns):
    pq.write_table(pa.table({"caption": pa.array(captions, pa.string()), **columns}), path, row_group_size=2)


def texts(shard, columns=None, image=None):
    batches = list(read_batches(shard, columns or {"caption": "caption"}, image))
    return [text for batch in batches for text in batch.texts["caption"]], [f for b in batches for f in b.images]


def test_parquet_and_webdataset_give_the_same_rows_here_and_at_an_address(tmp_path):
    write_parquet(tmp_path / "a.parquet", CAPTIONS)
    fs = fsspec.filesystem("memory")
    with fs.open("/corpus/b.tar", "wb") as file:
        write_tar(file, CAPTIONS, [b"one", b"two"])
    here, there = find_shards([str(tmp_path), "memory://corpus/*.tar"])
    assert there.path == "memory:///corpus/b.tar"
    assert texts(here) == texts(there) == (CAPTIONS, [])
    assert texts(there, {"caption": "title"}, image="image") == (CAPTIONS, [b"one", b"two", None, None, None])
    fs.rm("/corpus", recursive=True)


def test_many_rows_come_in_batches_with_their_numbers(tmp_path):
    captions = [f"caption {number}" for number in range(4100)]
    pq.write_table(pa.table({"caption": captions}), tmp_path / "a.parquet")
    with (tmp_path / "b.tar").open("wb") as file:
        write_tar(file, captions[:130])
    for name, image, places in (("a.parquet", None, (0, 4096)), ("b.tar", "image", (0, 64, 128))):
        [shard] = find_shards([str(tmp_path / name)])
        batches = list(read_batches(shard, {"caption": "caption"}, image))
        assert tuple(batch.first for batch in batches) == places
        assert batches[-1].texts["caption"][0] == f"caption {places[-1]}"


@pytest.fixture
def corpus(tmp_path):
    for number in range(4):
        write_parquet(tmp_path / f"corpus-{number}.parquet", [f"a dog and cat {number}", *CAPTIONS])
    return f"{tmp_path}/corpus-*.parquet"


def test_a_finished_shard_is_kept_until_it_or_the_settings_change(corpus, tmp_path):
    def kept(column="caption"):
        return [each.is_kept for each in run_shards(find_shards([corpus]), CaptionStatistics(column), tmp_path / "out")]

    assert kept() == [False] * 4
    assert kept() == [True] * 4
    write_parquet(tmp_path / "corpus-1.parquet", ["another"], other=["a column"])
    assert kept() == [True, False, True, True]
    [*_, last] = (tmp_path / "out" / "shards").iterdir()
    os.truncate(last, last.stat().st_size - 5)  # no Parquet file any more
    assert sorted(kept()) == [False, True, True, True]
    write_parquet(tmp_path / "corpus-1.parquet", ["text"], text=["a column"])
    [outcome] = run_shards(find_shards([f"{tmp_path}/corpus-1.parquet"]), CaptionStatistics("text"), tmp_path / "out")
    assert not outcome.is_kept


def test_parts_and_processes_give_what_one_run_gives(corpus, tmp_path):
    for part, done in {"2/3": 1, "1/3": 2, "3/3": 1, "5/5": 0}.items():
        result = invoke(
            "corpus", "statistics", corpus, "--out", tmp_path / "parts", "--shard", part, "--workers", 1 + (not done)
        )
        assert f"{done} shards done" in result.output, result.output
        assert not (tmp_path / "parts" / "statistics.json").exists()
    merged = invoke("corpus", "statistics", corpus, "--out", tmp_path / "parts")
    assert "0 shards done" in merged.output
    pooled = invoke("corpus", "statistics", corpus, "--out", tmp_path / "pooled", "--workers", 2)
    assert "4 shards done" in pooled.output, (pooled.output, pooled.exception)
    first, second = (
        {
            path.name: path.read_bytes()
            for path in (tmp_path / name).rglob("*.*")
            if path.suffix in (".json", ".parquet")
        }
        for name in ("parts", "pooled")
    )
    assert first == second
    assert len(first) == 5


def test_another_engine_or_one_that_is_not_installed_is_refused(corpus, tmp_path, monkeypatch):
    for engine, message in (("spark", "unknown engine 'spark'; known: ray"), ("ray", "pip install 'vl-assay")):
        monkeypatch.setitem(sys.modules, "ray", None)
        result = invoke("corpus", "statistics", corpus, "--out", tmp_path / "out", "--engine", engine)
        assert message in str(result.exception)


def test_an_engine_takes_no_workers(corpus, tmp_path):
    result = invoke("corpus", "statistics", corpus, "--out", tmp_path / "out", "--engine", "ray", "--workers", 2)
    assert "--engine ray takes all CPUs of its cluster, not --workers 2; give one of them" in str(result.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("is_there", [False, True], ids=["started here", "of RAY_ADDRESS"])
def test_a_ray_cluster_is_joined_or_started_and_gives_what_one_process_gives(is_there, corpus, tmp_path, monkeypatch):
    ray, shards = import_ray(monkeypatch), find_shards([corpus])
    with ray_cluster() if is_there else nullcontext() as joined:
        if joined:
            monkeypatch.setenv("RAY_ADDRESS", joined.address)
        found = run_shards(shards, CaptionStatistics(), tmp_path / "ray", engine="ray")
        assert not ray.is_initialized()
    assert [outcome.counts for outcome in found] == [
        outcome.counts for outcome in run_shards(shards, CaptionStatistics(), tmp_path / "alone")
    ]
    assert not any(outcome.problem for outcome in found)


@pytest.mark.slow
def test_what_fails_in_ray_is_told_with_what_to_do(corpus, tmp_path, monkeypatch):
    class Dying(CaptionStatistics):
        def run(self, batches, counts):
            os._exit(1)

    import_ray(monkeypatch)
    with pytest.raises(DataError, match=r"Ray failed: .*Finished shards are kept: .*run the same command again"):
        run_shards(find_shards([corpus])[:1], Dying(), tmp_path / "out", engine="ray")
    monkeypatch.setenv("RAY_ADDRESS", "auto")  # and there is none
    with pytest.raises(VLAssayError, match=r"no Ray cluster to be had .*RAY_ADDRESS is auto: name one that"):
        run_shards(find_shards([corpus]), CaptionStatistics(), tmp_path / "out", engine="ray")


@pytest.mark.slow
def test_a_ray_cluster_that_loses_a_node_gives_what_one_process_gives(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(60):
        write_parquet(tmp_path / f"corpus-{number}.parquet", [f"a dog and cat {number} {n}" for n in range(20_000)])
    shards = find_shards(["corpus-*.parquet"])  # paths from here
    with nodes_of_which_one_is_killed(tmp_path / "ray", "*.parquet", monkeypatch):
        found = run_shards(shards, CaptionStatistics(), Path("ray"), engine="ray")
    assert [outcome.shard for outcome in found] == shards
    run_shards(shards, CaptionStatistics(), tmp_path / "alone", workers=2)
    # What was being written on the lost node stays as a hidden file, which nobody reads.
    one, other = (
        {path.name: path.read_bytes() for path in Path(name).rglob("[!.]*.parquet")} for name in ("ray", "alone")
    )
    assert one == other
    assert len(one) == 60


def damage_header(path):
    content = bytearray(path.read_bytes())
    content[2048:2058] = b"\xff" * 10
    path.write_bytes(content)


def test_damaged_shards_are_named_and_the_others_are_done(corpus, tmp_path):
    for name in ("header.tar", "cut.tar"):
        with (tmp_path / name).open("wb") as file:
            write_tar(file, CAPTIONS)
    damage_header(tmp_path / "header.tar")
    os.truncate(tmp_path / "cut.tar", 3000)
    os.truncate(tmp_path / "corpus-2.parquet", 100)
    (tmp_path / "corpus-3.parquet").write_bytes(b"")
    write_parquet(tmp_path / "corpus-1.parquet", CAPTIONS)
    pq.write_table(pa.table({"title": ["x"]}), tmp_path / "corpus-4.parquet")
    result = invoke("corpus", "statistics", corpus, f"{tmp_path}/*.tar", "--out", tmp_path / "out", width=200)
    assert result.exit_code == 1
    for name in ("header.tar", "cut.tar", "corpus-2.parquet", "corpus-3.parquet"):
        assert f"damaged: {tmp_path / name}: " in result.output
    assert "has no column 'caption'; it has title. Name it with --column" in result.output
    assert "5 of 7 shards cannot be read; all figures are of the others" in result.output
    record = json.loads((tmp_path / "out" / "statistics.json").read_text())
    assert (record["rows"], record["shards"], len(record["damaged"])) == (11, 7, 5)
    assert len([*(tmp_path / "out" / "shards").iterdir()]) == 2  # nothing half written


def test_a_row_that_breaks_a_step_is_told_and_a_full_disk_stops_the_run(corpus, tmp_path, monkeypatch):
    class Failing(CaptionStatistics):
        error: Exception = ZeroDivisionError("bad caption")

        def run(self, batches, counts):
            yield from super().run(batches, counts)
            raise self.error

    shards = find_shards([corpus])
    assert {each.problem for each in run_shards(shards, Failing(), tmp_path / "out")} == {
        "ZeroDivisionError: bad caption"
    }
    Failing.error = OSError(28, "No space left on device")
    with pytest.raises(StorageError, match="No space left"):
        run_shards(shards, Failing(), tmp_path / "out")
    assert [*(tmp_path / "out" / "shards").iterdir()] == []


def test_the_record_of_a_file_of_others_is_empty(tmp_path):
    pq.write_table(pa.table({"a": np.arange(3)}), tmp_path / "a.parquet")
    assert read_record(tmp_path / "a.parquet") == read_record(tmp_path / "none.parquet") == {}


def test_what_cannot_be_opened_is_told(tmp_path):
    (tmp_path / "a.csv").write_text("caption")
    write_parquet(tmp_path / "00000.parquet", CAPTIONS)
    (tmp_path / "00000.tar").write_bytes(b"")
    for pattern, message in {
        str(tmp_path / "none.parquet"): "cannot open .*none.parquet",
        f"{tmp_path}/*.npz": "names no shards",
        str(tmp_path / "a.csv"): "a.csv is no shard",
        str(tmp_path): "has Parquet and tar shards, which may be the same rows",
        "hf://datasets/me/pairs/*.parquet": "cannot open hf://datasets/me/pairs",
        "nonsense://a.tar": "cannot open nonsense",
    }.items():
        with pytest.raises(DataError, match=message):
            find_shards([pattern])
    result = invoke("corpus", "statistics", tmp_path, "--out", tmp_path / "out", "--shard", "3/2")
    assert "the shard is '3/2'" in str(result.exception)
    result = invoke("corpus", "statistics", tmp_path, "--out", tmp_path / "out", "--column", "text=title")
    assert "unknown column 'text'" in str(result.exception)
