"""Homes and caches that cannot be written: a run takes temporary ones, and an error names the variable HF_HOME."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from vl_assay.hub_datasets.core.build import data_errors
from vl_assay.hub_datasets.core.examples import load_examples
from vl_assay.hub_datasets.sources.downloads import download
from vl_assay.metrics.common.errors import StorageError
from vl_assay.metrics.common.storage import writable_cache
from vl_assay.model_wrappers.loading.checkpoints import loading_errors

CACHES = ("HOME", "XDG_CACHE_HOME", "HF_HOME", "HF_DATASETS_CACHE", "HF_HUB_CACHE", "VL_ASSAY_CACHE", "MPLCONFIGDIR")


def test_a_run_needs_no_cache_that_can_be_written(coco, tmp_path):
    (tmp_path / "file").touch()
    environment = {**os.environ, **dict.fromkeys(CACHES, str(tmp_path / "file" / "cache")), "HF_HUB_OFFLINE": "1"}
    program = [sys.executable, "-c", "from vl_assay.metrics.common.command_line import main; main()"]
    command = ["run", "mock:constant", "sugarcrepe/add_att", "--data-dir", str(coco()), "-o", "verify=false"]
    command = [*program, *command, "--out", str(tmp_path / "out")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"the cache {tmp_path / 'file' / 'cache'} cannot be written" in done.stderr
    assert "HF_HOME" in done.stderr


@pytest.mark.parametrize("place", ["folder/deeper", "file/cache", "file", "~no-such-user/cache"])
def test_a_cache_that_cannot_be_written_is_a_temporary_folder(place, tmp_path, capsys):
    (tmp_path / "file").touch()
    asked = Path(place) if place.startswith("~") else tmp_path / place
    found = writable_cache(asked)
    is_temporary = place != "folder/deeper"
    assert found.is_absolute()
    assert (found != asked) == is_temporary
    assert found == writable_cache(asked)
    assert capsys.readouterr().err.count("HF_HOME names another folder") == is_temporary


def test_a_dataset_that_was_built_is_read_from_a_cache_that_cannot_be_written(coco, monkeypatch):
    wanted = {"data_dir": coco(), "options": {"verify": False}}
    [built] = load_examples("sugarcrepe/add_att", **wanted)
    monkeypatch.setattr("os.access", lambda place, how: how == os.R_OK)
    monkeypatch.setattr("vl_assay.hub_datasets.core.build.download_config", None)  # which another build would call
    [again] = load_examples("sugarcrepe/add_att", **wanted)
    assert again.fingerprint == built.fingerprint


def _fetch(error):
    def fail(url):
        raise error

    download(SimpleNamespace(download=fail), "https://a.org", "help")


def _within(block, error):
    with block:
        raise error


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOSPC])
@pytest.mark.parametrize(
    "read",
    [
        lambda error: _within(data_errors("the data"), error),
        lambda error: _within(loading_errors("ada/clip", "clip"), error),
        _fetch,
    ],
)
def test_an_error_names_the_file_and_how_to_name_another_cache(read, number):
    own = OSError(number, os.strerror(number), "/home/ada/.cache/x.lock")
    wrapped = OSError("PermissionError at /home/ada when downloading")  # as transformers raises it
    wrapped.__cause__ = own
    for error in (own, wrapped):
        with pytest.raises(StorageError, match=r"cannot write /home/ada/\.cache/x\.lock: .*HF_HOME"):
            read(error)
