"""CLIP and models like it, SigLIP and SigLIP 2: what is particular to them, and checkpoints that are refused."""

from __future__ import annotations

import json
import shutil
import warnings

import numpy as np
import pytest
import tiny_models
import transformers
from hub_server import serving_hub
from transformers import AutoTokenizer

from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import LoadOptions, load_model


def test_predictions_record_the_preprocessing_of_images(folders):
    assert load_model(str(folders["align"])).info.preprocessing["rescale_offset"] is True
    assert load_model(str(folders["siglip2"])).info.preprocessing["max_num_patches"] == 16


@pytest.mark.parametrize("name", ["ada/clip", "vqascore:ada/llava"])
def test_all_of_a_model_is_of_the_recorded_commit_though_the_branch_moves(name, folders, tmp_path, monkeypatch):
    kind = name.rpartition("/")[2]
    shutil.copytree(folders[kind], tmp_path / "ada" / kind)
    with serving_hub(tmp_path, monkeypatch) as hub:
        hub.is_moving = True
        revision = load_model(name).info.revision
    assert [path.name for path in (tmp_path / ".cache").glob("models--*/snapshots/*")] == [revision]


def test_siglip_2_is_lower_cased_as_in_training_unless_told_otherwise(folders):
    capital = ["A Cat"]
    for kind in ("siglip", "siglip2"):
        model = load_model(str(folders[kind]))
        assert model.info.settings["lower_case"] == "yes"
        assert model.prepare_captions(capital) == model.prepare_captions(["a cat"])
    kept = load_model(str(folders["siglip"]), LoadOptions(settings={"lower_case": "no"}))
    assert kept.info.settings["lower_case"] == "no"
    assert kept.info.name == "siglip (lower_case=no)"
    assert kept.prepare_captions(capital) != kept.prepare_captions(["a cat"])


def test_siglip_with_a_tokenizer_of_its_own_is_left_to_it(tmp_path):
    folder = tiny_models.tiny_siglip(tmp_path / "one", tiny_models.xlmr_words())
    model = load_model(str(folder))
    assert (model.info.settings, model.info.preprocessing["end_token"]) == ({"lower_case": "no"}, "by the tokenizer")
    assert load_model(str(folder), LoadOptions(settings={"lower_case": "yes"})).info.settings["lower_case"] == "yes"


def test_siglip_captions_end_with_the_end_token_even_where_the_tokenizer_puts_none(tmp_path):
    tokenizer = tiny_models.gemma_words("GemmaTokenizer", add_eos_token=False)
    model = load_model(str(tiny_models.tiny_siglip(tmp_path / "endless", tokenizer)))
    assert model.info.preprocessing["end_token"] == "added"
    [ids] = model.prepare_captions(["a cat"])
    assert ids == [*tokenizer("a cat")["input_ids"], tokenizer.eos_token_id]


def test_a_tokenizer_whose_end_the_model_would_not_find_is_refused(tiny_clip, tmp_path):
    shutil.copytree(tiny_clip, tmp_path / "moved")
    config = json.loads((tmp_path / "moved" / "config.json").read_text())
    end = config["text_config"]["eos_token_id"]
    config["text_config"]["eos_token_id"] = end - 1
    (tmp_path / "moved" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=rf"by its configuration the id {end - 1} .* ends captions with {end}"):
        load_model(str(tmp_path / "moved"))
    # The historic 2 means the highest id, which here is the end token's: the scores stay.
    config["text_config"]["eos_token_id"] = 2
    (tmp_path / "moved" / "config.json").write_text(json.dumps(config))
    historic, today = load_model(str(tmp_path / "moved")), load_model(str(tiny_clip))
    ids = today.prepare_captions(["a red cat left of the blue dog", "a dog", "the red box " * 12])
    np.testing.assert_array_equal(historic.encode_captions(ids), today.encode_captions(ids))
    # A token added behind it, such as one for padding, would be read in its place.
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "moved")
    tokenizer.add_tokens(["<extra>"])
    tokenizer.save_pretrained(tmp_path / "moved")
    with pytest.raises(ModelError, match="the highest of its vocabulary"):
        load_model(str(tmp_path / "moved"))
    with pytest.raises(ModelError, match="by its configuration the id 5"):
        load_model(str(tiny_models.tiny_metaclip_2(tmp_path / "meta", eos_token_id=5)))


def test_a_longer_clip_whose_tokenizer_cuts_earlier_is_a_warning(tmp_path):
    long = tiny_models.tiny_clip(tmp_path / "long", positions=96)
    with pytest.warns(
        UserWarning, match="long reads 96 tokens of a caption, but its tokenizer cuts at 48: .*set model_max"
    ):
        assert load_model(str(long)).max_tokens == 48
    file = long / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"model_max_length": 96}))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert load_model(str(long)).max_tokens == 96


def test_a_tokenizer_that_lacks_its_library_says_which(folders, monkeypatch):
    def lacking(*_, **__):
        raise ImportError("SiglipTokenizer requires the SentencePiece library")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lacking)
    with pytest.raises(ModelError, match="pip install sentencepiece protobuf"):
        load_model(str(folders["siglip"]))


def test_a_checkpoint_of_another_type_is_refused_with_the_types_that_exist(tmp_path):
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ModelError, match=r"'bert' checkpoint and no family loads.*clip \(clip, metaclip_2, "):
        load_model(str(tmp_path / "bert"))


def test_checkpoints_that_would_score_nonsense_are_refused(tiny_clip, tmp_path):
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


def test_the_revision_of_a_folder_covers_weights_and_templates_below_it_and_no_record_of_training(tiny_clip, tmp_path):
    folder = shutil.copytree(tiny_clip, tmp_path / "own")
    revisions = [load_model(str(folder)).info.revision]
    others = ("training/run.json", ".cache/tree.json", "train.py")
    loaded = ("model-00002-of-00002.safetensors", "additional_chat_templates/short.jinja", "2_Dense/model.safetensors")
    for name in (*others, *loaded):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{}")
        revisions.append(load_model(str(folder)).info.revision)
    assert set(revisions[: 1 + len(others)]) == {revisions[0]}
    assert len(set(revisions)) == 1 + len(loaded)
