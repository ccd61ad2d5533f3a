"""What is given as a model and is none: pointers of git-lfs, files of weights, folders of other libraries."""

from __future__ import annotations

import json
import re
import shutil

import pytest
import torch
from tiny_models import CHECKPOINTS

from vl_assay.hub_datasets.authoring.data.pairs import read_pairs
from vl_assay.hub_datasets.core.images import DECODING_ERRORS, decode
from vl_assay.hub_datasets.sources.stored_images import open_parquet
from vl_assay.metrics.common.errors import DataError, ModelError, PredictionsError, VLAssayError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import LoadOptions, load_model
from vl_assay.model_wrappers.engine.families import check_model

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12\n"


def test_a_pointer_in_place_of_a_file_of_a_model_is_told(folders, tiny_open_clip, tmp_path):
    for name in sorted(path.name for path in folders["clip"].iterdir()):
        folder = shutil.copytree(folders["clip"], tmp_path / name)
        (folder / name).write_bytes(POINTER)
        with pytest.raises(ModelError, match=rf"{re.escape(name)}: it is a pointer of git-lfs.*git lfs pull"):
            load_model(str(folder))
    for suffix in (".pt", ".safetensors", ".npz"):
        file = tmp_path / f"weights{suffix}"
        file.write_bytes(POINTER)
        for model, settings in (("open_clip:tiny", {"pretrained": str(file)}), (f"xvlm:{file}", {})):
            with pytest.raises(ModelError, match="git lfs pull"):
                load_model(model, LoadOptions(settings=settings))


def test_a_pointer_in_place_of_an_image_or_a_table_is_told(tmp_path):
    with pytest.raises(DECODING_ERRORS, match="git lfs pull"):
        decode(POINTER)
    file = tmp_path / "captions.parquet"
    file.write_bytes(POINTER)
    for read, error in ((open_parquet, DataError), (read_pairs, DataError), (read_predictions, PredictionsError)):
        with pytest.raises(error, match="git lfs pull"):
            read(file)


@pytest.mark.parametrize("suffix", [".pt", ".safetensors", ""])
def test_a_file_in_place_of_a_folder_is_told_with_what_to_do(suffix, tiny_open_clip, tmp_path):
    file = tmp_path / f"epoch_5{suffix}"
    torch.save({"state_dict": {"module.x": torch.zeros(2)}, "epoch": 5}, file)
    families = {tiny_model.family for tiny_model in CHECKPOINTS.values() if not tiny_model.file}
    for prefix in ("", *(f"{family}:" for family in families), "open_clip:", "written_boxes:", "open_clip:local-dir:"):
        with pytest.raises(ModelError, match=rf"epoch_5{suffix} is a file, .*-s pretrained=.*save_pretrained"):
            load_model(f"{prefix}{file}")


def test_a_file_of_a_model_leads_to_its_folder(folders):
    folder = folders["clip"]
    for model in (f"{folder}/config.json", f"clip:{folder}/model.safetensors"):
        with pytest.raises(ModelError, match=f"is a file of a model; name its folder, {folder}"):
            load_model(model)


@pytest.mark.parametrize("name", ["runs/epoch_5.pt", "clip:model.safetensors", "./epoch_5"])
def test_a_file_that_is_not_there_is_not_looked_for_on_the_hub(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="there is no file or folder"):
        check_model(name)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["open_clip_config.json", "open_clip_pytorch_model.bin"], "name it open_clip:local-dir:"),
        (["modules.json", "0_CLIPModel/config.json"], "name it sentence_transformers:"),
        (["checkpoint-500/config.json"], "name one of its folders, such as .*checkpoint-"),
        (["checkpoints/epoch_1.pt", "params.txt"], "-s pretrained=.*epoch_1.pt"),
        (["notes.txt"], "not a transformers checkpoint folder$"),
    ],
)
def test_a_folder_of_another_kind_leads_to_its_family(files, message, tmp_path):
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(json.dumps({"model_type": "clip"}))
    with pytest.raises(VLAssayError, match=message):
        load_model(str(tmp_path))
