"""Dataset repositories: portable, deterministic, atomic, and opened by load_dataset, also by bare name."""

import hashlib
import os
import re
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sources_toy_scenes
from console import invoke
from support import UNVERIFIED

from vl_assay.hub_datasets import build, load_examples
from vl_assay.hub_datasets.core.examples import build_folder, cached_build
from vl_assay.hub_datasets.core.repository import compare_with_card, read_build, shipped_build
from vl_assay.metrics.common.errors import DataError, StorageError, UnknownNameError

SMALL, CONFIGS = {"train_scenes": 3}, ["detection", "groups"]


def tree(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module", autouse=True)
def few_scenes():
    with pytest.MonkeyPatch.context() as patch:
        sources_toy_scenes.shrink(patch)
        yield


@pytest.fixture(scope="module")
def toy(tmp_path_factory, few_scenes):
    return build("toy_scenes", tmp_path_factory.mktemp("built") / "toy", configs=CONFIGS, options=SMALL)


def test_the_same_sources_give_the_same_bytes(toy, tmp_path):
    again = build("toy_scenes", tmp_path / "again", configs=CONFIGS, options=SMALL)
    assert tree(again) == tree(toy)


def test_a_failed_build_leaves_what_was_there(coco, tmp_path):
    folder, options = coco(), {"verify": False}
    out = build("sugarcrepe", tmp_path / "sc", configs=["swap_obj"], data_dir=folder, options=options)
    before = tree(out)
    (folder / "val2017" / "000000000001.jpg").unlink()
    with pytest.raises(DataError, match=r"sugarcrepe/swap_obj: .*000000000001\.jpg"):
        build("sugarcrepe", out, configs=["swap_obj"], data_dir=folder, options=options)
    assert tree(out) == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_rows_of_another_build_of_equal_size_are_not_served_from_the_cache(coco, tmp_path):
    folder, options = coco(), {"verify": False}
    file = folder / "data" / "swap_obj.json"
    texts = [file.read_text(), file.read_text().replace("number 12", "number 21")]
    captions = []
    for number, text in enumerate(texts):
        file.write_text(text)
        out = build("sugarcrepe", tmp_path / str(number) / "sc", configs=["swap_obj"], data_dir=folder, options=options)
        # As if both had compressed to the same number of bytes.
        card = out / "README.md"
        card.write_text(re.sub(r"download_size: \d+", "download_size: 1", card.read_text()))
        captions.append(datasets.load_dataset(str(out), "swap_obj", split="test")[12]["caption"])
    assert [caption.split()[-1] for caption in captions] == ["12", "21"]


def test_a_folder_that_is_no_build_is_not_overwritten(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StorageError, match="is not empty and was not written by a build"):
        build("toy_scenes", tmp_path, options=SMALL)
    assert (tmp_path / "thesis.tex").exists()


def test_missing_images_are_counted_in_the_card_and_the_record(coco, tmp_path):
    folder = coco(rows=24, images=8)
    (folder / "val2017" / "000000000001.jpg").unlink()
    options = {"verify": False, "allow_missing": True}
    out = build("sugarcrepe", tmp_path / "sc", configs=["swap_obj"], data_dir=folder, options=options)
    assert read_build(out)["configs"]["swap_obj"]["test"] == {
        "rows": 24, "images": 7, "missing_images": 3, "captions": 48,
    }  # fmt: skip
    assert "| swap_obj | test | 24 | 7 (3 missing) | 48 |" in (out / "README.md").read_text()


def test_unknown_configurations_and_options_answer_with_the_known_ones(tmp_path):
    with pytest.raises(UnknownNameError, match="unknown configuration of toy_scenes 'x'; known: itm"):
        build("toy_scenes", tmp_path / "x", configs=["x"])
    with pytest.raises(UnknownNameError, match="unknown option of toy_scenes 'sead'; known: seed, train_scenes"):
        build("toy_scenes", tmp_path / "x", options={"sead": 1})
    with pytest.raises(DataError, match=r"has no build\.json"):
        read_build(tmp_path)


def test_a_benchmark_with_sources_of_the_users_own_gets_its_bare_name_too(coco, tmp_path, monkeypatch):
    from vl_assay.hub_datasets import install
    from vl_assay.hub_datasets.sugarcrepe import builder, release

    folder = coco(categories=("swap_obj",))
    monkeypatch.setattr(
        builder.SugarCrepe,
        "BUILDER_CONFIGS",
        [config for config in builder.SugarCrepe.BUILDER_CONFIGS if config.name in ("swap_obj", "unrefined_swap_obj")],
    )
    content = (folder / "data" / "swap_obj.json").read_bytes()
    monkeypatch.setitem(release.SHA256, "data/swap_obj.json", hashlib.sha256(content).hexdigest())
    installed, left_out = install(["sugarcrepe"], data_dir=folder)
    assert installed == 'load_dataset("sugarcrepe", "swap_obj")'
    assert left_out.startswith("left out: sugarcrepe/unrefined_swap_obj: ")
    assert len(datasets.load_dataset("sugarcrepe", "swap_obj", split="test")) == 24
    # The folder is not remembered for builds to come.
    assert builder.SugarCrepe(config_name="swap_obj").config.data_dir is None


def test_what_was_built_by_other_code_is_built_anew(coco, monkeypatch):
    folder = coco(rows=4, images=2)
    first = cached_build("sugarcrepe", "swap_obj", folder, UNVERIFIED)
    assert cached_build("sugarcrepe", "swap_obj", folder, UNVERIFIED) == first
    monkeypatch.setattr("vl_assay.hub_datasets.core.examples.code_hash", lambda name: f"another {name}")
    assert cached_build("sugarcrepe", "swap_obj", folder, UNVERIFIED) != first


def test_one_of_several_processes_builds_and_the_others_wait(coco, monkeypatch):
    folder, builds, both = coco(rows=4, images=2), [], threading.Barrier(2)

    def counted(*arguments, **options):
        builds.append(build(*arguments, **options))

    def ask(_):
        both.wait()
        return cached_build("sugarcrepe", "swap_obj", folder, UNVERIFIED)

    monkeypatch.setattr("vl_assay.hub_datasets.core.examples.build", counted)
    with ThreadPoolExecutor(2) as pool:  # the lock is of the file, for threads as for processes
        assert [*pool.map(ask, range(2))] == builds * 2
    assert len(builds) == 1


def test_rows_are_written_in_groups_small_enough_for_memory(coco, tmp_path):
    out = build("sugarcrepe", tmp_path / "out", configs=["swap_obj"], data_dir=coco(rows=250), options=UNVERIFIED)
    [parquet] = out.rglob("*.parquet")
    groups = pq.ParquetFile(parquet).metadata
    assert [groups.row_group(number).num_rows for number in range(groups.num_row_groups)] == [100, 100, 50]


def test_a_file_that_was_edited_or_is_lacking_is_told_of_and_no_script_in_the_folder_runs(toy, tmp_path):
    folder = shutil.copytree(toy, tmp_path / "toy [1]")  # whose name `datasets` would take for a pattern
    before = [example.captions for example in load_examples(str(folder))[0].examples]
    (folder / "toy.py").write_text("raise SystemExit('a script ran')")
    assert [example.captions for example in load_examples(str(folder))[0].examples] == before
    [path] = (folder / CONFIGS[0]).glob("test-*.parquet")
    content = path.read_bytes()
    rows = pq.read_table(path)
    pq.write_table(rows.slice(1), path)
    with pytest.raises(DataError, match=r"test-00000-of-00001-\w{16}\.parquet was changed since it was built"):
        load_examples(f"{folder}")
    path.unlink()
    with pytest.raises(DataError, match="lacks files of the split test; build the dataset again"):
        load_examples(f"{folder}")
    path.write_bytes(content)
    assert [example.captions for example in load_examples(str(folder))[0].examples] == before


def test_a_build_is_compared_with_its_card(coco, tmp_path):
    folder = coco(categories=("swap_obj",))
    command = ("build", "sugarcrepe/swap_obj", "--check", "--data-dir", folder, "-o", "verify=false")
    result = invoke(*command, folder=tmp_path)
    assert result.exit_code == 1
    assert "swap_obj, test: 24 rows, but the card says 245" in result.output
    assert list(tmp_path.iterdir()) == [folder]  # without --out nothing is kept
    assert compare_with_card(shipped_build("toy_scenes")) == ([], [])


def _predictions(folder):
    table = pa.table({"id": ["a"]}).replace_schema_metadata({"vl_assay": "{}"})
    pq.write_table(table, folder / "sugarcrepe.itm.parquet")


def _replaced(path):
    path.write_bytes(b"other")
    os.utime(path, ns=(0, 0))  # surely another time


@pytest.mark.parametrize(
    ("change", "is_new"),
    [
        pytest.param(lambda at: _replaced(at / "test-0.parquet"), True, id="a Parquet file of the same size"),
        pytest.param(lambda at: _replaced(at / "linked" / "x.parquet"), True, id="behind a link"),
        pytest.param(lambda at: _replaced(at / "test-1.parquet"), True, id="a new one"),
        pytest.param(lambda at: (at / "test-0.parquet").unlink(), True, id="one less"),
        pytest.param(lambda at: _replaced(at / "rows.json"), True, id="another file"),
        pytest.param(_predictions, False, id="predictions"),
        pytest.param(lambda at: _replaced(at / "report.md"), False, id="a report"),
        pytest.param(lambda at: _replaced(at / "built" / "more.parquet"), False, id="in a build"),
        pytest.param(lambda at: _replaced(at / ".DS_Store"), False, id="a hidden file"),
    ],
)
def test_the_key_of_a_build_covers_what_is_read_and_nothing_else(change, is_new, tmp_path):
    folder, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    for each in (folder / "inner", folder / "built", elsewhere):
        each.mkdir(parents=True)
    for path in (folder / "test-0.parquet", folder / "inner" / "test-0.parquet", elsewhere / "x.parquet"):
        path.write_bytes(b"first")
    (folder / "rows.json").write_text("[]")
    (folder / "built" / "build.json").write_text("{}")
    (folder / "linked").symlink_to(elsewhere)
    (elsewhere / "loop").symlink_to(folder)

    def key():
        return build_folder("sugarcrepe", "swap_obj", folder, {}, None)

    first = key()
    assert key() == first
    change(folder)
    assert (key() != first) is is_new


@pytest.fixture
def unreadable():
    """A function that makes a file or folder unreadable for this process, which is nobody's until the test ends."""
    is_root, modes = os.geteuid() == 0, {}

    def forbid(path):
        # What is imported has to stay readable too.
        above = {*path.parents, *Path(sys.prefix, "x").parents, *Path(__file__).parents}
        modes.update((each, each.stat().st_mode) for each in sorted(above))
        modes[path] = path.stat().st_mode
        for each in above if is_root else ():
            each.chmod(modes[each] | 0o055)
        path.chmod(0)
        os.seteuid(65534) if is_root else None

    yield forbid
    os.seteuid(0) if is_root else None
    for path, mode in modes.items() if is_root else [[*modes.items()][-1]]:
        path.chmod(mode)


@pytest.mark.parametrize("inner", ["", "data/swap_obj.json", "val2017"])
def test_a_source_that_cannot_be_read_is_named_and_nothing_is_said_of_writing(
    inner, coco, unreadable, tmp_path, monkeypatch
):
    folder = coco(rows=4, images=2)
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    monkeypatch.setenv("VL_ASSAY_CACHE", str(cache))
    unreadable(folder / inner)
    with pytest.raises(DataError, match=re.escape(f"cannot read {folder / inner}: Permission denied; allow")):
        cached_build("sugarcrepe", "swap_obj", folder, UNVERIFIED)
