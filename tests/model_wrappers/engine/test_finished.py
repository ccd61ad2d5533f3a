"""A complete run is not computed again, unless anything that determines its predictions has changed."""

from __future__ import annotations

import os

import pytest
from support import UNVERIFIED

from vl_assay.model_wrappers import predict
from vl_assay.model_wrappers.engine import finished


@pytest.fixture
def again(tmp_path, coco, tiny_clip, monkeypatch):
    """A function that predicts in the same folder, and returns whether anything was computed."""
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path / "cache"))
    folder, out = coco(categories=("swap_obj",)), tmp_path / "out"

    def predict_again(model=str(tiny_clip), **changes):
        options = {"data_dir": folder, "options": UNVERIFIED, "progress": False, **changes}
        [file] = predict(model, "sugarcrepe/swap_obj", out=out, **options)
        before = again.written
        again.written = file.stat().st_mtime_ns
        assert file == out / "sugarcrepe.swap_obj.parquet"
        return again.written != before

    again = predict_again
    again.written, again.sources, again.file = None, folder, out / "sugarcrepe.swap_obj.parquet"
    assert predict_again()
    return predict_again


def test_the_same_command_computes_nothing(again):
    assert not again()
    assert again(cache=False)


def test_an_edited_file_is_computed_again(again):
    content = again.file.read_bytes()
    again.file.write_bytes(content.replace(b"PAR1", b"PAR2"))
    again.written = None
    assert again()
    again.file.unlink()
    assert again()


@pytest.mark.parametrize("changes", [{"batch_size": 3}, {"dtype": "bfloat16"}, {"limit": 5}])
def test_other_options_are_computed(again, changes):
    again.file.unlink()
    assert again(**changes)


@pytest.mark.parametrize("changed", ["sources", "model", "device", "code"])
def test_other_sources_models_devices_and_code_are_computed(changed, again, tiny_clip, monkeypatch, tmp_path):
    if changed == "sources":
        path = again.sources / "data" / "swap_obj.json"
        path.write_text(path.read_text() + " ")
    elif changed == "model":
        os.utime(tiny_clip / "config.json", ns=(1, 1))  # the files of a checkpoint are known by name, size and time
    elif changed == "device":
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    else:
        (tmp_path / "package" / "metrics").mkdir(parents=True)
        monkeypatch.setattr(finished, "_PACKAGE", tmp_path / "package")
    assert again()


def test_a_name_on_the_hub_is_never_taken_as_known():
    assert finished.run_key("openai/clip-vit-base-patch32", ["sugarcrepe"], None, {}) is None
    assert finished.run_key("mock:oracle", ["sugarcrepe"], None, {}) is not None
