"""Settings from a YAML file: what is read and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest

from vl_assay.metrics.common.config_file import read_config
from vl_assay.metrics.common.errors import UnknownNameError, VLAssayError


@dataclass(frozen=True)
class Settings:
    workers: Annotated[int | None, "processes that decode", 0] = None
    rate: Annotated[float, "requests a minute"] = 1.5
    names: Annotated[list[str] | None, "people"] = None
    folder: Annotated[Path | None, "where"] = None
    cache: Annotated[bool, "keep embeddings"] = True


def read(tmp_path, text):
    file = tmp_path / "run.yaml"
    file.write_text(text)
    return read_config(file, Settings)


def test_settings_of_the_file_replace_the_defaults(tmp_path):
    assert read_config(None, Settings) == Settings()
    text = "workers: 3\nrate: 2\nnames: [ana, ben]\nfolder: there\ncache: false\n"
    assert read(tmp_path, text) == Settings(3, 2.0, ["ana", "ben"], Path("there"), False)
    assert read(tmp_path, "workers: null") == Settings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workers: two", "workers in .* is 'two'; give a whole number of at least 0"),
        ("workers: -1", "workers in .* is -1; give a whole number of at least 0"),
        ("workers: true", "workers in .* is True; give a whole number"),
        ("cache: 1", "cache in .* is 1; give true or false"),
        ("names: ana", "names in .* is 'ana'; give a list"),
        ("rate: null", "rate in .* is None; give a number"),
        ("- workers", "has no settings; write lines such as `workers: VALUE`"),
        ("", "has no settings"),
        ("workers: 1\nrate: 2\nworkers: 2", "a setting comes twice"),
        ("workers: [1", "cannot read --config .*run.yaml"),
    ],
)
def test_a_wrong_file_says_what_is_allowed(tmp_path, text, message):
    with pytest.raises(VLAssayError, match=message):
        read(tmp_path, text)


def test_an_unknown_setting_and_a_missing_file_are_named(tmp_path):
    with pytest.raises(UnknownNameError, match=r"unknown setting in .* 'worker'.*Did you mean 'workers'\?"):
        read(tmp_path, "worker: 1")
    with pytest.raises(VLAssayError, match=r"nowhere\.yaml: No such file"):
        read_config(tmp_path / "nowhere.yaml", Settings)
