"""Every family: a tiny checkpoint of each model type is loaded, refused and scored by the same rules."""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import asdict
from importlib.metadata import metadata
from pathlib import Path

import numpy as np
import pytest
import torch
from bare_forwards import bare_scores, score
from PIL import Image
from tiny_models import ANSWERS, CHECKPOINTS, DETECTS
from transformers.models.auto import modeling_auto

from vl_assay import model_wrappers
from vl_assay.metrics.common.errors import ModelError, UnknownNameError
from vl_assay.model_wrappers import LoadOptions, family_names, load_model
from vl_assay.model_wrappers.engine import families
from vl_assay.model_wrappers.engine.checking import check
from vl_assay.model_wrappers.engine.families import families_of, get_family
from vl_assay.model_wrappers.engine.protocol import CrossEncoder, DualEncoder, TextScorer, VQAModel, abilities

HEADS = {
    "blip": ({"first": "enc"}, {"head": "itc"}, {"head": "sum"}, {"head": "aro"}),
    "blip2": ({"head": "itc"},),
    "flava": ({"head": "itm"},),
    "gpt2": ({"normalise": "none"},),
    "vera": ({"score": "logit"},),
    "cola": ({"score": "logit"},),
    "xvlm": ({"head": "itm"}, {"head": "itc"}),
}
CASES = [
    pytest.param(name, settings, id="-".join([name, *settings.values()]))
    for name in CHECKPOINTS
    for settings in ({}, *HEADS.get(name, ()))
]
# Models whose scores are compared with bare forwards here. Detectors and generative models have references, for each
# of their settings, in test_detectors.py, test_released_systems.py and test_generative.py.
BARE = [name for name, tiny in CHECKPOINTS.items() if tiny.abilities != DETECTS and tiny.family != "vqascore"]
FAMILIES = sorted({tiny.family for tiny in CHECKPOINTS.values()})
CAPTIONS = ["a red cat", "a big dog near two red cat and one blue box of the man", "dog", "the two cat right of a man "]
LONG = "a red box near the dog " * 40
# Images out of order and more than once, captions of unlike length.
PAIRS = [(2, 1), (0, 0), (1, 2), (2, 3)]


def load(name, folder, **options):
    """A checkpoint by the name of its family, which is needed where its model type is not the family's own."""
    return load_model(f"{CHECKPOINTS[name].family}:{folder / CHECKPOINTS[name].file}", LoadOptions(**options))


@pytest.mark.parametrize("name", ["open_clip", "sentence_transformers"])
def test_a_family_without_its_library_names_its_own_extra(name, monkeypatch):
    extra = name.replace("_", "-")
    assert extra in metadata("vl-assay").get_all("Provides-Extra", [])
    monkeypatch.setattr(families, "find_spec", lambda library: None)
    assert families.family_constants(name).problem.endswith(f"pip install 'vl-assay[{extra}]'")
    assert families.family_constants("clip").problem.endswith("pip install 'vl-assay[models]'")
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModelError, match=rf"the family {name} needs its library .*'vl-assay\[{extra}\]'"):
        load_model(f"{name}:google/siglip-so400m-patch14-384")


def test_no_family_is_left_out():
    """Families of torch; those of extras are tested separately, as is one that writes no boxes with random weights."""
    folder = Path(model_wrappers.__file__).parent
    sources = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.py")}
    assert sorted(name for name in family_names() if ".loading" in sources.get(name, "")) == sorted(
        [*FAMILIES, "open_clip", "sentence_transformers", "written_boxes"]
    )


def test_the_reference_tells_of_every_class_of_transformers_which_family_takes_it():
    text = (Path(model_wrappers.__file__).parents[1] / "docs" / "reference.md").read_text(encoding="utf-8")
    table = text.partition("| task of `transformers` |")[2].partition("## Python API")[0]
    rows = [[cell.strip() for cell in line.split("|")[2:4]] for line in table.splitlines() if line.count("|") == 4]
    told = {kind: answer for kinds, answer in rows for kind in kinds.partition(", with")[0].split(", ")}
    kinds = ("ZERO_SHOT_IMAGE_CLASSIFICATION", "ZERO_SHOT_OBJECT_DETECTION", "RETRIEVAL")
    for kind in (name for each in kinds for name in getattr(modeling_auto, f"MODEL_FOR_{each}_MAPPING_NAMES")):
        families = [f"`{name}`" for name in families_of(kind)]
        # A class that is newer than the table has no family.
        assert [told.get(kind)] == families or (not families and told.get(kind, "refused: ").startswith("refused: ")), (
            kind
        )


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.filterwarnings("ignore:Please use the new API settings to control TF32")  # torch 2.9
@pytest.mark.parametrize(("name", "settings"), CASES)
def test_a_score_is_that_of_a_bare_forward_in_a_batch_and_alone(name, settings, folders, images):
    model = load(name, folders[name], settings=settings)
    if not settings:
        check_protocols(name, model, folders[name])
    captions = [*CAPTIONS[:3], LONG] if name in BARE else CAPTIONS
    batched = score(model, images, captions, PAIRS)
    assert batched.dtype == np.float64
    assert len(batched) == len(PAIRS)
    assert np.ptp(batched) > 1e-3, "scores that hardly differ would show little"
    pairs, batched = PAIRS[2:], batched[2:]  # with the shortest caption and the longest
    if CHECKPOINTS[name].abilities != DETECTS:
        exact = [score(model, [images[i]], [captions[j]], [(0, 0)], exact=True)[0] for i, j in pairs]
        np.testing.assert_allclose(exact, batched, rtol=1e-5, atol=1e-5)
        if name in BARE:
            bare = bare_scores(name, settings, folders[name], images, captions, pairs, model.max_tokens, torch.float64)
            np.testing.assert_allclose(exact, bare, rtol=0, atol=1e-9)
    alone = [score(model, [images[i]], [captions[j]], [(0, 0)])[0] for i, j in pairs]
    np.testing.assert_allclose(batched, alone, rtol=1e-6, atol=1e-6)


def check_protocols(name, model, folder):
    """Check that a model follows its protocols and describes itself."""
    tiny = CHECKPOINTS[name]
    assert abilities(model) == tiny.abilities
    assert isinstance(model, VQAModel) == (tiny.abilities == ANSWERS)
    assert not (isinstance(model, DualEncoder) and isinstance(model, CrossEncoder))
    assert model.info.family == tiny.family
    if get_family(tiny.family).MODEL_TYPES:
        assert tiny.family in families_of(json.loads((folder / "config.json").read_text())["model_type"])
    assert model.info.parameters > 1000
    assert str(folder.parent) not in json.dumps(asdict(model.info)), "predictions are published"
    assert model.info.settings.keys() == getattr(get_family(tiny.family), "SETTINGS", {}).keys()
    assert tiny.max_tokens in (None, model.max_tokens)
    assert model.prepare_captions([]) == []
    if isinstance(model, TextScorer):
        assert model.score_captions([]).shape == (0,)
        return
    assert model.info.preprocessing["backend"] == "pil"
    for mode in ("L", "RGBA", "P"):
        model.prepare_image(Image.new(mode, (40, 40)))  # converted to RGB


@pytest.mark.parametrize("name", ["blip", "siglip2", "llava", "owlvit"])
def test_the_settings_that_predictions_record_load_the_same_model(name, folders):
    recorded = load(name, folders[name]).info.settings
    assert load(name, folders[name], settings=recorded).info.settings == recorded


def test_a_cross_encoder_passes_the_check_that_users_run_first(folders, toy):
    """engine/test_checking.py has a dual encoder and a detector."""
    result = check(str(folders["blip"]), ())
    assert result.is_passed, result.findings


# One model of each way to load; flava and vera change what transformers ignores.
@pytest.mark.parametrize("name", ["clip", "flava", "vera", "mdetr"])
def test_weights_missing_misshapen_or_unknown_are_an_error_that_lists_them(name, folders, tmp_path):
    tiny, folder = CHECKPOINTS[name], tmp_path / "changed"
    shutil.copytree(folders[name], folder)
    weights = tiny.weights(folder)
    [key] = [key for key in weights if key.endswith(tiny.weight)]
    value = weights.pop(key)
    tiny.write(folder, {**weights, "adapter.weight": torch.zeros(2)})
    with pytest.raises(ModelError) as error:
        load(name, folder)
    assert re.search(rf"not have the weights of {tiny.family} \(1 missing keys: \S*{tiny.weight}", str(error.value))
    assert "1 unexpected keys: adapter.weight" in str(error.value)
    tiny.write(folder, {**weights, key: torch.zeros(3, value.ndim + 4)})
    with pytest.raises(ModelError, match=rf"1 mismatched keys: \S*{tiny.weight}"):
        load(name, folder)


@pytest.mark.parametrize("name", ["clip", "mdetr"])
def test_the_dtype_is_float32_whatever_the_file_holds(name, folders, tmp_path):
    folder = tmp_path / "half"
    shutil.copytree(folders[name], folder)
    tiny = CHECKPOINTS[name]
    weights = tiny.weights(folder)
    tiny.write(folder, {key: value.half() if value.is_floating_point() else value for key, value in weights.items()})
    if not tiny.file:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"dtype": "float16"}))
    assert {parameter.dtype for parameter in load(name, folder).module.parameters()} == {torch.float32}


# One model of each base class.
@pytest.mark.parametrize("name", ["clip", "blip2", "vera", "gpt2", "owlvit", "xvlm", "llava"])
def test_scores_in_half_precision_are_near_float32(name, folders, images):
    pairs, dtype = PAIRS[1:3], "float16" if name in ("blip2", "vera") else "bfloat16"
    low = load(name, folders[name], dtype=dtype)
    assert low.info.dtype == dtype
    # transformers keeps parts of some models in float32 where float16 is asked for.
    float32_parts = {*(getattr(low.module, "_keep_in_fp32_modules", None) or ())}
    named = low.module.named_parameters()
    dtypes = {parameter.dtype for path, parameter in named if not float32_parts & {*path.split(".")}}
    assert dtypes == {getattr(torch, dtype)}
    scores = score(low, images, CAPTIONS, pairs)
    assert np.isfinite(scores).all()
    if CHECKPOINTS[name].abilities != DETECTS:  # boxes may come in another order
        expected = score(load(name, folders[name]), images, CAPTIONS, pairs)
        np.testing.assert_allclose(scores, expected, rtol=0, atol=0.5 if dtype == "bfloat16" else 0.05)


@pytest.mark.parametrize("name", ["clip", "xvlm"])
def test_a_dual_encoder_in_mixed_precision_is_near_float32(name, folders, images):
    model = load(name, folders[name], settings={"head": "itc"} if name == "xvlm" else {})
    expected = score(model, images, CAPTIONS, PAIRS)
    model.use_mixed_precision()
    scores = score(model, images, CAPTIONS, PAIRS)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=0.05)
    assert (scores != expected).any()
    assert {parameter.dtype for parameter in model.module.parameters()} == {torch.bfloat16, torch.float32}


@pytest.mark.parametrize("family", ["clip", "causal_lm", "vqascore", "owlvit"])
def test_a_checkpoint_of_another_family_is_refused_with_the_right_one(family, folders):
    other = "vilt" if family == "clip" else "clip"
    with pytest.raises(ModelError, match=f"is a '{other}' checkpoint, not one for {family} .*its family is {other}"):
        load_model(f"{family}:{folders[other]}")


@pytest.mark.parametrize("family", [*FAMILIES, "endpoint", "precomputed"])
def test_unknown_settings_and_values_name_the_known_ones(family):
    known = getattr(get_family(family), "SETTINGS", {})
    with pytest.raises(UnknownNameError, match=rf"unknown setting of {family} 'colour'; known: {', '.join(known)}"):
        load_model(f"{family}:any", LoadOptions(settings={"colour": "red"}))
    for name, values in known.items():
        if "…" not in values:
            known_values = re.escape(", ".join(values))
            with pytest.raises(UnknownNameError, match=f"unknown {name} of {family} 'red'; known: {known_values}"):
                load_model(f"{family}:any", LoadOptions(settings={name: "red"}))


@pytest.mark.parametrize("name", ["blip", "blip2", "bridgetower", "flava"])
def test_an_image_passes_the_vision_tower_once_for_all_its_captions(name, folders, images):
    model = load(name, folders[name], settings={"head": "itm"} if name == "flava" else {})
    ends = ("vision_model", "image_model", "vision_tower", "visual.transformer.resblocks.0")
    towers = [module for path, module in model.module.named_modules() if path.endswith(ends)]
    calls = []
    for tower in towers:
        tower.register_forward_hook(lambda *_: calls.append(1))
    seen = model.encode_images([model.prepare_image(image) for image in images])
    before = len(calls)
    assert before > 0
    for _ in range(3):
        model.match(seen, [0, 0, 1, 2], model.prepare_captions(CAPTIONS))
    assert len(calls) == before
