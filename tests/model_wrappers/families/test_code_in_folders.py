"""No file of a model folder runs as code, whichever file names it, and nothing outside the folder is loaded."""

from __future__ import annotations

import ast
import io
import json
import re
import shutil
from pathlib import Path

import fake_open_clip
import pytest
import torch
from damage import Evil
from hub_server import serving_hub
from safetensors.torch import load_file
from tiny_models import CHECKPOINTS

from vl_assay import model_wrappers
from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import LoadOptions, load_model

# For each class of `transformers` that looks into `auto_map`.
AUTO = (
    *("AutoConfig", "AutoModel", "AutoTokenizer", "AutoProcessor", "AutoImageProcessor", "AutoVideoProcessor"),
    *("AutoModelForCausalLM", "AutoModelForImageTextToText", "AutoModelForSequenceClassification"),
)
AUTO_MAP = {"auto_map": {**dict.fromkeys(AUTO, "evil.Evil"), "AutoTokenizer": ["evil.Evil", "evil.Evil"]}}
# Each file of a folder that can name a Python file, and what it then holds.
NAMING_CODE = {
    "config.json": {"model_type": "evil", **AUTO_MAP},
    "tokenizer_config.json": {"tokenizer_class": "Evil", **AUTO_MAP},
    "preprocessor_config.json": {"image_processor_type": "Evil", "processor_class": "Evil", **AUTO_MAP},
    "processor_config.json": {"image_processor": {"image_processor_type": "Evil", **AUTO_MAP}, **AUTO_MAP},
    "video_preprocessor_config.json": {"video_processor_type": "Evil", **AUTO_MAP},
    "generation_config.json": {"custom_generate": "evil", **AUTO_MAP},
    "adapter_config.json": {
        "peft_type": "LORA",
        "base_model_name_or_path": "evil",
        "auto_mapping": {"parent_library": "evil", "base_model_class": "Evil"},
    },
}
# Two ways to load a folder; all of them end in one function, see the first test.
FOLDERS = {"clip": "clip", "vqascore": "llava"}
NEEDS_CODE = "needs Python code of its folder or repository, which never runs here; save"


@pytest.fixture
def evil(tmp_path, monkeypatch):
    """A function that puts Python files into a folder; the test fails if one runs, or if a question is asked."""
    monkeypatch.chdir(tmp_path)
    answers = io.StringIO("y\n" * 100)
    monkeypatch.setattr("sys.stdin", answers)
    marker = tmp_path / "it ran"

    def spoil(folder):
        code = f"from pathlib import Path\nPath({str(marker)!r}).touch()\nclass Evil: pass\ngenerate = None\n"
        for name in ("evil.py", "generate.py", "custom_generate/generate.py"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(code)
        return folder

    yield spoil
    assert not marker.exists()
    assert answers.tell() == 0
    assert not (tmp_path / "unpickled").exists()


def rewrite(file, **changes):
    """Change entries of a JSON file."""
    content = json.loads(file.read_text("utf-8")) if file.exists() else {}
    file.write_text(json.dumps(content | changes), "utf-8")


def outcome(load, *arguments):
    """The message of the `ModelError` that loading ends with; empty if the file is not read."""
    try:
        load(*arguments)
    except ModelError as error:
        return str(error)
    return ""


def test_all_parts_of_models_are_loaded_by_one_function():
    """Which passes `trust_remote_code=False` and checks the folder."""
    root = Path(model_wrappers.__file__).parents[1]
    parts = ("hub_datasets", "metrics", "model_wrappers", "space_app")
    calls = {
        file.relative_to(root).as_posix()
        for file in (file for part in parts for file in (root / part).rglob("*.py"))
        if "from_pretrained" in (source := file.read_text("utf-8"))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "from_pretrained"
    }
    assert calls == {"hub_datasets/core/pretrained.py"}


@pytest.mark.parametrize("file", NAMING_CODE)
@pytest.mark.parametrize("family", FOLDERS)
def test_no_file_makes_a_family_run_code(family, file, folders, evil, tmp_path):
    folder = evil(shutil.copytree(folders[FOLDERS[family]], tmp_path / "evil"))
    rewrite(folder / file, **NAMING_CODE[file])
    message = outcome(load_model, f"{family}:{folder}")
    required = {"config.json": NEEDS_CODE, "adapter_config.json": "merge_and_unload"}
    assert required.get(file, "") in message


@pytest.mark.parametrize("name", [*FOLDERS.values(), "mdetr"])
def test_a_pickle_runs_nothing(name, folders, evil, tmp_path):
    folder = evil(shutil.copytree(folders[name], tmp_path / "evil"))
    if file := CHECKPOINTS[name].file:
        torch.save({"model": Evil()}, folder / file)
    else:
        (folder / "model.safetensors").unlink()
        torch.save({"evil": Evil()}, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="pickle"):
        load_model(f"{CHECKPOINTS[name].family}:{folder / file}")


@pytest.mark.parametrize(
    ("family", "place"),
    [
        ("vqascore", "../elsewhere/w.safetensors"),
        *(("clip", place) for place in ("../elsewhere/w.safetensors", "/elsewhere/w.safetensors")),
        *(("clip", place) for place in (".hidden/w.safetensors", ".w.bin", 1, None)),
    ],
)
def test_weights_outside_the_folder_are_not_loaded(family, place, folders, tmp_path):
    folder = shutil.copytree(folders[FOLDERS[family]], tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    for target in ("elsewhere", "model/.hidden"):
        (tmp_path / target).mkdir()
        shutil.copy(folder / "model.safetensors", tmp_path / target / "w.safetensors")
    if place == "/elsewhere/w.safetensors":
        place = f"{tmp_path}{place}"
    (folder / "model.safetensors").unlink()
    index = {"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(weights, place)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match=rf"model\.safetensors\.index\.json names {re.escape(repr(place))}"):
        load_model(f"{family}:{folder}")


def test_only_links_that_stay_in_the_folder_are_followed(folders, tmp_path):
    original = folders["clip"]
    revision = load_model(str(original)).info.revision
    # The layout of the Hub's cache: a snapshot of links.
    snapshot = tmp_path / "models--ada--clip" / "snapshots" / ("a" * 40)
    shutil.copytree(original, tmp_path / "models--ada--clip" / "blobs")
    snapshot.mkdir(parents=True)
    inside, outside = (shutil.copytree(original, tmp_path / name) for name in ("inside", "outside"))
    for file in original.iterdir():
        (snapshot / file.name).symlink_to(f"../../blobs/{file.name}")
    (inside / "model.safetensors").rename(inside / "weights.safetensors")
    (inside / "model.safetensors").symlink_to("weights.safetensors")
    assert load_model(str(snapshot)).info.revision == revision
    assert load_model(str(inside)).info.parameters
    (outside / "model.safetensors").unlink()
    (outside / "model.safetensors").symlink_to(original / "model.safetensors")
    with pytest.raises(ModelError, match=r"model\.safetensors is a link to .*, outside the folder; copy"):
        load_model(str(outside))


def test_a_configuration_cannot_ask_for_attention_from_the_hub(folders, tmp_path):
    folder = shutil.copytree(folders["clip"], tmp_path / "clip")
    rewrite(folder / "config.json", attn_implementation="kernels-community/flash-attn2")
    with pytest.raises(ModelError, match="asks for the attention kernels-community/flash-attn2"):
        load_model(str(folder))


# open_clip: what its factory would hand on to transformers, to timm or to the file system.
OPEN_CLIP = {
    "code of a tokenizer": {"hf_tokenizer_name": "evil", "tokenizer_kwargs": {"trust_remote_code": True}},
    "an argument of the tokenizer": {"hf_tokenizer_name": "evil", "tokenizer_kwargs": {"code_revision": "main"}},
    "a tokenizer elsewhere": {"hf_tokenizer_name": "../evil"},
    "a text tower elsewhere": {"hf_model_name": "/evil"},
    "arguments of any other name": {"model_kwargs": {"trust_remote_code": True}},
    "an address": {"proj_type": "hf-hub:evil/evil"},
    "a flag": {"trust_remote_code": True},
}


@pytest.fixture
def open_clip(tiny_open_clip, tmp_path):
    """A folder of the family open_clip, with a tokenizer of transformers, by the stand-in for the library."""
    torch.manual_seed(0)
    torch.save(fake_open_clip.FakeClip(tiny_open_clip).state_dict(), tmp_path / "tiny.pt")
    model = load_model("open_clip:tiny", LoadOptions(settings={"pretrained": str(tmp_path / "tiny.pt")}))
    model.save(tmp_path / "model")
    return tmp_path / "model"


def change_text(folder, **changes):
    file = folder / "open_clip_config.json"
    config = json.loads(file.read_text())
    config["model_cfg"]["text_cfg"] |= changes
    file.write_text(json.dumps(config))


@pytest.mark.parametrize("attack", OPEN_CLIP)
def test_the_configuration_of_open_clip_is_checked_before_the_library_reads_it(attack, open_clip, evil):
    change_text(evil(open_clip), **OPEN_CLIP[attack])
    rewrite(open_clip / "tokenizer_config.json", **NAMING_CODE["tokenizer_config.json"])
    rewrite(open_clip / "config.json", model_type="evil", **AUTO_MAP)
    with pytest.raises(ModelError, match=r"open_clip_config\.json has model_cfg\.text_cfg\."):
        load_model(f"open_clip:local-dir:{open_clip}")


def test_repositories_are_refused_as_folders_are(open_clip, folders, evil, tmp_path, monkeypatch):
    for name in ("code", "adapter"):
        evil(shutil.copytree(folders["clip"], tmp_path / "ada" / name))
    change_text(evil(shutil.copytree(open_clip, tmp_path / "ada" / "open")), **OPEN_CLIP["code of a tokenizer"])
    rewrite(tmp_path / "ada" / "code" / "config.json", **NAMING_CODE["config.json"])
    rewrite(tmp_path / "ada" / "adapter" / "adapter_config.json", **NAMING_CODE["adapter_config.json"])
    with serving_hub(tmp_path, monkeypatch):
        for model, message in (
            ("clip:ada/code", NEEDS_CODE),
            ("clip:ada/adapter", "merge_and_unload"),
            ("open_clip:hf-hub:ada/open", r"open_clip_config\.json has model_cfg\.text_cfg\."),
        ):
            with pytest.raises(ModelError, match=message):
                load_model(model)


@pytest.mark.parametrize("key", ["hf_tokenizer_name", "hf_model_name"])
def test_a_tower_of_open_clip_from_transformers_runs_no_code(key, open_clip, evil, tmp_path):
    change_text(open_clip, **{key: "evil/tower"})
    for folder in (open_clip, tmp_path / "evil" / "tower"):
        folder.mkdir(exist_ok=True, parents=True)
        rewrite(evil(folder) / "config.json", **NAMING_CODE["config.json"])
        rewrite(folder / "tokenizer_config.json", **NAMING_CODE["tokenizer_config.json"])
    with pytest.raises(ModelError, match=NEEDS_CODE):
        load_model(f"open_clip:local-dir:{open_clip}")


def test_the_revision_of_a_folder_of_open_clip_covers_its_configuration(open_clip):
    before = load_model(f"open_clip:local-dir:{open_clip}").info.revision
    rewrite(open_clip / "tokenizer.json", version=2)
    assert load_model(f"open_clip:local-dir:{open_clip}").info.revision != before


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("modules.json", {"type": "evil.Evil"}, NEEDS_CODE),
        ("modules.json", {"path": "../elsewhere"}, "names '../elsewhere', which is hidden or outside"),
        ("modules.json", {"type": "sentence_transformers.base.modules.router.Router"}, "depend on the input"),
        ("sentence_bert_config.json", {"model_kwargs": {"weights_only": False}}, "passes weights_only to transformers"),
        ("sentence_bert_config.json", {"model_args": {"trust_remote_code": True}}, "passes trust_remote_code"),
        ("sentence_bert_config.json", {"tokenizer_args": {"gguf_file": "x"}}, "passes gguf_file"),
        ("sentence_bert_config.json", {"tokenizer_name_or_path": "evil"}, "names the tokenizer 'evil'"),
        ("config.json", NAMING_CODE["config.json"], NEEDS_CODE),
        ("tokenizer_config.json", NAMING_CODE["tokenizer_config.json"], ""),
        ("processor_config.json", NAMING_CODE["processor_config.json"], ""),
    ],
)
def test_sentence_transformers_runs_no_code(file, changes, message, sentence_models, evil, tmp_path):
    folder = evil(shutil.copytree(sentence_models / "clip", tmp_path / "model"))
    if file == "modules.json":
        first, *others = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps([first | changes, *others]))
    else:
        rewrite(folder / file, **changes)
    if "weights_only" in str(changes):
        (folder / "model.safetensors").unlink()
        torch.save({"evil": Evil()}, folder / "pytorch_model.bin")
    assert message in outcome(load_model, f"sentence_transformers:{folder}")
