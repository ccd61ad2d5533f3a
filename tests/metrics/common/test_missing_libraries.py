"""Imports of large libraries."""

import gc
import subprocess
import sys

import pytest

from vl_assay.metrics.common.imports import extra_with, gc_paused


@pytest.mark.parametrize("was_enabled", [True, False])
def test_collections_rest_and_go_on_whatever_an_import_raises(was_enabled):
    (gc.enable if was_enabled else gc.disable)()
    try:
        with pytest.raises(ImportError, match="False"), gc_paused():
            raise ImportError(gc.isenabled())
        assert gc.isenabled() == was_enabled
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        *(("google.protobuf", "models"), ("matplotlib.figure", "plots"), ("open_clip", "open-clip")),
        *(("sentence_transformers", "sentence-transformers"), ("numpy", ""), ("no_such_library", "")),
    ],
)
def test_a_module_is_found_in_the_extra_that_brings_it(module, extra):
    assert extra_with(module) == extra


def test_a_command_without_its_library_names_the_extra_that_brings_it(tmp_path):
    (tmp_path / "pairs.csv").write_text("positive,negative\n" + "a red circle,a blue circle\n" * 40)
    code = "import sys; sys.modules['sklearn'] = None\nfrom vl_assay.metrics.common.command_line import main; main()"
    command = [sys.executable, "-c", code, "audit", str(tmp_path / "pairs.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: this needs sklearn")
    assert done.stderr.endswith("pip install 'vl-assay[authoring]'\n")
