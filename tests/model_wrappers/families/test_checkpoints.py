"""CLIP checkpoints: scored as transformers would score them, or refused with a reason."""

from __future__ import annotations

import json

import pytest
from PIL import Image
from support import run_quietly, scores_of

from vl_assay.metrics.common.errors import ModelError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import LoadOptions, load_model


def test_a_checkpoint_of_another_type_is_refused_with_the_types_that_exist(tmp_path):
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ModelError, match=r"'bert' checkpoint and no family answers.*clip \(clip, metaclip_2, "):
        load_model(str(tmp_path / "bert"))
    with pytest.raises(ModelError, match=r"is a 'bert' checkpoint, not one for clip .*its family is no family here"):
        load_model(f"clip:{tmp_path / 'bert'}")


def test_an_unknown_dtype_is_refused_with_those_that_there_are(tiny_clip):
    with pytest.raises(ModelError, match="unknown dtype 'int8'; known: float32"):
        load_model(str(tiny_clip), LoadOptions(dtype="int8"))


def test_checkpoints_that_would_score_nonsense_are_refused(tiny_clip, tmp_path):
    import shutil

    shutil.copytree(tiny_clip, tmp_path / "wordless")
    for file in (tmp_path / "wordless").glob("tokenizer*"):
        file.unlink()
    with pytest.raises(ModelError, match="tokenizer"):
        load_model(str(tmp_path / "wordless"))
    shutil.copytree(tiny_clip, tmp_path / "broken")
    weights = tmp_path / "broken" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelError, match=r"cannot load .*broken as clip"):
        load_model(str(tmp_path / "broken"))


def test_the_revision_of_a_folder_changes_with_its_configuration(tiny_clip, tmp_path):
    import shutil

    shutil.copytree(tiny_clip, tmp_path / "other")
    config = tmp_path / "other" / "config.json"
    config.write_text(config.read_text().replace("quick_gelu", "gelu"))
    one, other = (load_model(str(folder)).info.revision for folder in (tiny_clip, tmp_path / "other"))
    assert one != other


def test_long_captions_are_cut_as_the_tokenizer_would_and_counted(tiny_clip, coco, tmp_path):
    folder = coco()
    path = folder / "data" / "swap_obj.json"
    records = json.loads(path.read_text())
    records["0"]["caption"] = "a red box " * 30
    path.write_text(json.dumps(records))
    [predictions] = run_quietly(str(tiny_clip), folder, tmp_path / "out", ["sugarcrepe/swap_obj"])
    model = load_model(str(tiny_clip))
    [cut] = model.encode_captions(model.prepare_captions([records["0"]["caption"]]))
    ids = model._tokenizer(records["0"]["caption"], truncation=True, max_length=32)["input_ids"]
    [expected] = model.encode_captions([ids])
    assert (cut == expected).all()
    facts = read_predictions(predictions).metadata["run"]
    longer = [
        ids
        for ids in model.prepare_captions([r[c] for r in records.values() for c in ("caption", "negative_caption")])
        if len(ids) > 32
    ]
    assert facts["truncated_captions"] == len({tuple(ids) for ids in longer}) >= 1


def test_scores_equal_a_bare_forward_of_one_pair_at_a_time(tiny_clip, coco, tmp_path):
    import torch
    from transformers import AutoImageProcessor, AutoTokenizer, CLIPModel

    folder = coco()
    [path] = run_quietly(str(tiny_clip), folder, tmp_path / "out", ["sugarcrepe/swap_obj"])
    ours = scores_of(path)
    model = CLIPModel.from_pretrained(tiny_clip).eval()
    tokenizer = AutoTokenizer.from_pretrained(tiny_clip)
    processor = AutoImageProcessor.from_pretrained(tiny_clip, backend="pil")
    records = json.loads((folder / "data" / "swap_obj.json").read_text())
    assert len(ours) == len(records) == 24
    for key, record in records.items():
        image = Image.open(folder / "val2017" / record["filename"])
        pixels = processor(image, return_tensors="pt")["pixel_values"]
        for position, caption in enumerate((record["caption"], record["negative_caption"])):
            tokens = tokenizer(caption, truncation=True, max_length=32, return_tensors="pt")
            with torch.inference_mode():
                output = model(**tokens, pixel_values=pixels)
            theirs = float(output.image_embeds[0] @ output.text_embeds[0])
            assert ours[f"swap_obj/{key}"][0][position] == pytest.approx(theirs, abs=1e-5)
