"""Files appear whole or not at all, whatever happens while they are written."""

import errno
import os

import pytest

from vl_assay.metrics.common.errors import StorageError
from vl_assay.metrics.common.storage import write_atomically


def test_the_content_is_on_the_disk_before_the_name_points_to_it(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    seen = []
    real = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda number: (real(number), seen.append((os.fstat(number).st_size, path.read_bytes())))
    )
    write_atomically(path, b"longer")
    assert seen == [(6, b"old")]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(
        StorageError, match=rf"cannot write {path}: No space left on device.* run the same command again"
    ):
        write_atomically(path, b"new")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("file", b"old")]
