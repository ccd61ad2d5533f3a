"""The table of published compositional checkpoints, the document made of it, and their conversion."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from bare_forwards import score
from console import invoke
from tiny_models import save_parts

from vl_assay.metrics.common.documents import simple_table, to_markdown
from vl_assay.metrics.common.errors import ModelError, UnknownNameError
from vl_assay.model_wrappers import load_model
from vl_assay.model_wrappers.loading.conversion import convert_checkpoint
from vl_assay.model_wrappers.loading.published import find_published, published_checkpoints

ROOT = Path(__file__).parents[3]
CAPTIONS = ["a red circle left of a blue square", "a star", "two small squares"]
PAIRS = [(0, 0), (1, 2), (2, 1), (0, 1)]


def test_the_document_shows_the_table():
    header = ["checkpoint", "code", "licence", "weights", "architecture", "activation", "model", "note"]
    lines = [
        [
            *(row.title, row.repository, row.licence, row.weights, row.architecture, row.activation or "not known"),
            *(f"`{row.how}`" if row.how else "–", row.note),
        ]
        for row in published_checkpoints().values()
    ]
    table = to_markdown([simple_table(header, lines)]).strip()
    assert table in (ROOT / "docs" / "checkpoints.md").read_text("utf-8"), f"docs/checkpoints.md lacks:\n{table}"


def test_rows_have_a_licence_an_address_and_an_activation_where_they_load():
    rows = published_checkpoints()
    assert {"negclip", "ce-clip", "dac", "svlc", "tripletclip", "read-clip", "degla", "clove", "clic"} <= rows.keys()
    for name, row in rows.items():
        assert name == row.name
        assert row.licence
        assert row.weights
        assert bool(row.how) == (row.weights != "none published")
        assert row.activation in ("quick_gelu", "gelu", "as configured", "")
        assert not row.files or row.architecture in ("ViT-B-32", "ViT-B-16", "ViT-L-14")


@pytest.mark.parametrize(
    ("file", "name", "model"),
    [
        ("negclip.pth", "negclip", "ViT-B-32-quickgelu"),
        ("NegCLIP.pt", "negclip", "ViT-B-32-quickgelu"),
        ("coco_fsc-clip-lora-ViT-B-32.pt", "fsc-clip-b-32", "ViT-B-32-quickgelu"),
        ("laioncoco_fsc-clip-ViT-L-14.pt", "fsc-clip-l-14", "ViT-L-14-quickgelu"),
        ("dcxl_fsc-clip-lora-ViT-B-32.pt", "fsc-clip-dcxl", "ViT-B-32"),
        ("clove_without_patching.pt", "clove", "ViT-B-32-quickgelu"),
        ("NegCLIP_CC12M_NegFull_x/checkpoint.pt", "negbench", "ViT-B-32"),
        ("epoch_5/checkpoint.pt", None, None),
        ("ViT-B-32.pt", None, None),
    ],
)
def test_a_downloaded_file_is_recognised_by_its_name(file, name, model, tmp_path):
    found = find_published(tmp_path / file)
    assert (found and found.name, found and found.model) == (name, model)


# The names of a CLIP's weights in transformers and in OpenAI's layout.
NAMES = (
    ("vision_model.embeddings.class_embedding", "visual.class_embedding"),
    ("vision_model.embeddings.patch_embedding", "visual.conv1"),
    ("vision_model.embeddings.position_embedding.weight", "visual.positional_embedding"),
    ("vision_model.pre_layrnorm", "visual.ln_pre"),
    ("vision_model.post_layernorm", "visual.ln_post"),
    ("vision_model.encoder.layers", "visual.transformer.resblocks"),
    ("visual_projection.weight", "visual.proj"),
    ("text_model.embeddings.token_embedding", "token_embedding"),
    ("text_model.embeddings.position_embedding.weight", "positional_embedding"),
    ("text_model.encoder.layers", "transformer.resblocks"),
    ("text_model.final_layer_norm", "ln_final"),
    ("text_projection.weight", "text_projection"),
    *(("self_attn", "attn"), ("layer_norm", "ln_"), ("mlp.fc1", "mlp.c_fc"), ("mlp.fc2", "mlp.c_proj")),
)


def openai_layout(weights):
    """Return the weights of a `CLIPModel` in OpenAI's layout: projections transposed, those of attention joined."""
    state = {}
    for name, tensor in weights.items():
        for theirs, own in NAMES:
            name = name.replace(theirs, own)
        state[name] = tensor.T if name in ("visual.proj", "text_projection") else tensor
    for name in [name for name in state if ".q_proj." in name]:
        parts = [state.pop(name.replace("q_proj", f"{letter}_proj")) for letter in "qkv"]
        state[name.replace("q_proj.", "in_proj_")] = torch.cat(parts)
    return state


def tiny_model(tokenizer, seed, activation="quick_gelu"):
    """A CLIP, 64 wide, of two layers, for 32 pixels in patches of 8, whose parameters are drawn."""
    tower = {"hidden_size": 64, "intermediate_size": 256, "num_attention_heads": 1, "num_hidden_layers": 2}
    tower["hidden_act"] = activation
    text = {"max_position_embeddings": 32, "vocab_size": len(tokenizer), "eos_token_id": tokenizer.eos_token_id}
    config = transformers.CLIPConfig(
        text_config=tower | text, vision_config=tower | {"image_size": 32, "patch_size": 8}, projection_dim=16
    )
    torch.manual_seed(seed)
    model = transformers.CLIPModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn(parameter.shape) * 0.2
    return model


@pytest.fixture(scope="module")
def tokenizer():
    from vl_assay.model_wrappers.demo_clip.train import build_tokenizer

    return build_tokenizer()


@pytest.fixture(scope="module")
def state(tokenizer):
    return openai_layout(tiny_model(tokenizer, 0).state_dict())


@pytest.fixture(scope="module")
def base(tokenizer, tmp_path_factory):
    """The base of conversions: a CLIP checkpoint with the tokenizer, of other weights than `state`."""
    return save_parts(tmp_path_factory.mktemp("base"), tiny_model(tokenizer, 1), tokenizer)


@pytest.mark.filterwarnings("ignore:negclip.pth was trained with the activation quick_gelu, and ViT-B-32:UserWarning")
@pytest.mark.parametrize(("options", "activation"), [({}, "quick_gelu"), ({"model": "ViT-B-32"}, "gelu")])
def test_a_converted_folder_scores_as_the_model_whose_weights_it_has(
    options, activation, state, base, tokenizer, images, tmp_path
):
    torch.save({"epoch": 5, "state_dict": state, "loss": np.float64(0.5)}, tmp_path / "negclip.pth")
    out = tmp_path / "converted"
    assert convert_checkpoint(tmp_path / "negclip.pth", out, base=str(base), **options)
    model = load_model(str(out))
    assert model.info.family == "clip"
    found = score(model, images, CAPTIONS, PAIRS)
    ids = model.prepare_captions(CAPTIONS)
    pixels = [torch.from_numpy(model.prepare_image(image)) for image in images]
    bare = tiny_model(tokenizer, 0, activation)
    with torch.inference_mode():
        logits = [bare(torch.tensor([ids[j]]), pixels[i][None]).logits_per_image for i, j in PAIRS]
    expected = [float(each) / math.exp(bare.logit_scale.item()) for each in logits]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    assert np.ptp(expected) > 1e-2


def test_the_card_states_source_licence_hash_and_changes_and_a_second_conversion_changes_nothing(state, base, tmp_path):
    adapters = {"transformer.resblocks.0.mlp.c_fc.lora_A": torch.ones(4, 64)}
    adapters |= {"transformer.resblocks.0.mlp.c_fc.lora_B": torch.ones(256, 4)}
    file, out = tmp_path / "dac.pt", tmp_path / "converted"
    torch.save({"state_dict": state | adapters}, file)
    assert convert_checkpoint(file, out, base=str(base))
    card = (out / "README.md").read_text("utf-8")
    for part in (
        hashlib.sha256(file.read_bytes()).hexdigest(),
        "SivanDoveh/DAC: Drive folder",
        "none stated",
        "1 adapters merged: weight + B·A / rank",
        "| activation | quick_gelu |",
        "license: other",
    ):
        assert part in card
    assert "/" not in (out / "conversion.json").read_text()
    assert str(tmp_path.parent) not in card
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    assert not convert_checkpoint(file, out, base=str(base))
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == before
    torch.save({"state_dict": state}, file)
    with pytest.raises(ModelError, match="holds something else; name a new folder"):
        convert_checkpoint(file, out, base=str(base))


def test_clove_s_mean_is_taken_with_the_base(state, base, tmp_path):
    longer = torch.cat([state["positional_embedding"], torch.ones(8, 64)])
    torch.save({"state_dict": state | {"positional_embedding": longer}}, tmp_path / "clove_without_patching.pt")
    with pytest.warns(UserWarning, match="trained with the activation quick_gelu, and ViT-B-32 computes gelu"):
        convert_checkpoint(tmp_path / "clove_without_patching.pt", tmp_path / "out", model="ViT-B-32", base=str(base))
    before, after = (transformers.CLIPModel.from_pretrained(folder) for folder in (base, tmp_path / "out"))
    expected = 0.4 * before.visual_projection.weight + 0.6 * state["visual.proj"].T
    assert torch.allclose(after.visual_projection.weight, expected)
    positions = after.text_model.embeddings.position_embedding.weight
    expected = 0.4 * before.text_model.embeddings.position_embedding.weight + 0.6 * state["positional_embedding"]
    assert torch.allclose(positions, expected)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {}, "which activation any.pt was trained with is not known; name its model of open_clip with --model"),
        ({}, {"model": "conclip"}, "is not known"),
        ({"token_embedding.weight": torch.ones(3, 64)}, {"model": "ViT-B-32"}, "it knows 3 tokens, the tokenizer"),
        ({"visual.conv1.weight": None}, {"model": "ViT-B-32"}, "not the weights of a CLIP with a vision transformer"),
        ({"ln_final.bias": None}, {"model": "ViT-B-32"}, "any.pt as a CLIP of 2 layers.*final_layer_norm.bias"),
        ({"itm.bias": torch.ones(3)}, {"model": "ViT-B-32"}, "any.pt as a CLIP of 2 layers.*itm.bias"),
    ],
)
def test_what_cannot_be_converted_is_refused_and_leaves_no_folder(change, options, message, state, base, tmp_path):
    changed = {name: tensor for name, tensor in (state | change).items() if tensor is not None}
    torch.save(changed, tmp_path / "any.pt")
    with pytest.raises(ModelError, match=f"(?s){message}"):
        convert_checkpoint(tmp_path / "any.pt", tmp_path / "out", base=str(base), **options)
    assert [path.name for path in tmp_path.iterdir()] == ["any.pt"]
    with pytest.raises(UnknownNameError, match="unknown model to convert 'NegCLIP'"):
        convert_checkpoint(tmp_path / "any.pt", tmp_path / "out", model="NegCLIP")
    with pytest.raises(ModelError, match="there is no file"):
        convert_checkpoint(tmp_path / "absent.pt", tmp_path / "out")


def test_the_command_writes_a_folder_once_and_says_how_to_evaluate_it(state, base, tmp_path):
    torch.save(state, tmp_path / "negclip.pt")
    words = ("convert", "negclip.pt", "out", "--base", base)
    assert invoke(*words, folder=tmp_path).stdout == "written; to evaluate it: vl-assay run out\n"
    assert invoke(*words, folder=tmp_path).stdout == "converted before; to evaluate it: vl-assay run out\n"
    record = json.loads((tmp_path / "out" / "conversion.json").read_text())
    assert (record["file"], record["activation"], record["published"]) == ("negclip.pt", "quick_gelu", "negclip")
