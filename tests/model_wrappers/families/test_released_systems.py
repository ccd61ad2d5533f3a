"""X-VLM and MDETR from their authors' files: every tensor used once, at full size too, and scores as written down."""

from __future__ import annotations

import shutil
import sys
from types import SimpleNamespace

import numpy as np
import plain_mdetr
import plain_xvlm
import pytest
import torch
import transformers
from bare_forwards import score
from PIL import Image

from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import LoadOptions, load_model, mdetr, xvlm
from vl_assay.model_wrappers.engine.protocol import PhraseQuery

CAPTION = "a big red cat left of a dog"
QUERIES = [
    [PhraseQuery(CAPTION, 0, 13), PhraseQuery(CAPTION, 22, 27)],
    [PhraseQuery("the small cats", 0, 14)],
    [PhraseQuery(CAPTION, 22, 27), PhraseQuery(CAPTION, 2, 5)],
]


@pytest.fixture
def xvlm_folder(folders, tmp_path):
    return shutil.copytree(folders["xvlm"], tmp_path / "xvlm")


@pytest.fixture
def mdetr_folder(folders, tmp_path):
    return shutil.copytree(folders["mdetr"], tmp_path / "mdetr")


def rewrite(file, change):
    """Replace the content of a file by what `change` makes of it."""
    torch.save(change(torch.load(file, weights_only=False)), file)


def mapped(module, origin):
    """The shapes of the tensors that a module is filled from, by their names; each tensor, or third of one, once."""
    parts = {}
    for name, weight in module.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            key, part, count = origin(name)
            own = parts.setdefault(key, {})
            assert part not in own, name
            assert part < count, name
            own[part] = tuple(weight.shape)
    return {key: (sum(rows for rows, *_ in own.values()), *own[0][1:]) for key, own in parts.items()}


@pytest.mark.parametrize(("window", "pixels"), [(12, 384), (7, 224)])
def test_at_full_size_every_tensor_of_xvlm_has_one_place_and_its_shape(window, pixels):
    shapes = plain_xvlm.shapes(window=window)
    with torch.device("meta"):
        tensors = {name: torch.empty(shape) for name, shape in shapes.items()}
        pre_trained = xvlm.fine_tuned_layout(plain_xvlm.pre_trained(tensors))
        needed = xvlm.fine_tuned_layout(tensors)
        config = xvlm.architecture(needed)
        module = xvlm.Xvlm(config)
    assert pre_trained.keys() == needed.keys()
    assert config.pixels == pixels
    assert (config.vision.depths, config.vision.num_heads) == ([2, 2, 18, 2], [4, 8, 16, 32])
    assert (config.text.num_attention_heads, len(module.text.encoder.layer), len(module.fusion)) == (12, 6, 6)
    assert mapped(module, lambda name: xvlm.origin(name, 6)) == {key: shapes[key] for key in needed}
    assert set(shapes) - set(needed) == {
        "temp",
        "text_encoder.embeddings.position_ids",
        *(key for key in shapes if key.endswith("relative_position_index")),
    }


def test_at_full_size_every_tensor_of_mdetr_has_one_place_and_its_shape():
    shapes = plain_mdetr.shapes()
    with torch.device("meta"):
        needed = mdetr.needed({name: torch.empty(shape) for name, shape in shapes.items()})
        config = mdetr.architecture(needed)
        module = mdetr.Mdetr(config)
    assert config.backbone.depths == [3, 4, 23, 3]
    assert config.text.num_attention_heads == 12
    assert mapped(module, mdetr.origin) == {key: shapes[key] for key in needed}
    unused = {key.removesuffix(".weight").removesuffix(".bias") for key in set(shapes) - set(needed)}
    assert unused == {
        "contrastive_align_projection_image",
        "contrastive_align_projection_text",
        "transformer.text_encoder.pooler.dense",
        "transformer.text_encoder.embeddings.position_ids",
    }


def test_a_pre_trained_file_of_xvlm_scores_as_the_fine_tuned_layout(xvlm_folder, images):
    captions, pairs = [CAPTION, "dog"], [(0, 0), (1, 1), (2, 0)]
    expected = score(load_model(f"xvlm:{xvlm_folder / 'tiny.th'}"), images, captions, pairs)
    rewrite(xvlm_folder / "tiny.th", lambda content: plain_xvlm.pre_trained(content["model"]))
    assert (score(load_model(f"xvlm:{xvlm_folder / 'tiny.th'}"), images, captions, pairs) == expected).all()


def test_xvlm_reads_as_many_tokens_as_its_file_says_and_no_end_token(xvlm_folder):
    file = xvlm_folder / "tiny.th"
    rewrite(file, lambda content: content | {"config": {"max_tokens": 5}})
    model = load_model(f"xvlm:{file}")
    [ids] = model.prepare_captions([CAPTION])
    assert model.max_tokens == 5
    tokenizer = transformers.AutoTokenizer.from_pretrained(xvlm_folder)
    assert ids == tokenizer(CAPTION)["input_ids"][:-1]
    rewrite(file, lambda content: content | {"config": {"max_tokens": 513}})
    with pytest.raises(ModelError, match=r"max_tokens in the file is 513; the model reads from 2 to 512 tokens"):
        load_model(f"xvlm:{file}")


@pytest.mark.parametrize(
    ("caption", "cleaned"),
    [
        ("A Dog's ball, (red)!\n", "a dogs ball red"),
        ("black-and-white / two", "black and white two"),
        ("a <person> left~of: it", "a person leftof it"),
        ("word " * 31, " ".join(["word"] * 30)),
        ("?!", ""),
    ],
)
def test_captions_are_cleaned_as_by_the_authors(caption, cleaned):
    assert xvlm.pre_caption(caption) == cleaned


def test_captions_are_cleaned_where_xvlm_ranks_alone(folders):
    caption, cleaned = "A Dog's ball, (red)!\n", "a dogs ball red"
    raw, own, aro = (
        load_model(f"xvlm:{folders['xvlm'] / 'tiny.th'}", LoadOptions(settings=settings))
        for settings in ({"head": "itm", "captions": "raw"}, {"head": "itm"}, {})
    )
    assert own.prepare_captions([caption]) == raw.prepare_captions([cleaned])
    assert aro.prepare_captions([caption]) == raw.prepare_captions([caption])


# The shorter side becomes 800 pixels, unless the longer one would be more than 1,333, as of the first images.
@pytest.mark.parametrize(
    ("context", "sizes"), [("caption", ((80, 8), (8, 80), (80, 8))), ("phrase", ((40, 30),))], ids=["caption", "phrase"]
)
def test_boxes_of_mdetr_are_those_written_down_one_image_and_text_at_a_time(context, sizes, folders):
    rng = np.random.default_rng(0)
    images = [Image.fromarray(rng.integers(0, 256, (h, w, 3), dtype=np.uint8)) for w, h in sizes]
    asked = QUERIES[: len(images)]
    model = load_model(f"mdetr:{folders['mdetr'] / 'tiny.pth'}", LoadOptions(settings={"context": context}))
    found = model.detect([model.prepare_image(i) for i in images], [i.size for i in images], asked)
    tensors = torch.load(folders["mdetr"] / "tiny.pth", weights_only=False)["model_ema"]
    for image, row, queries in zip(images, found, asked, strict=True):
        for one, query in zip(row, queries, strict=True):
            text, start = (query.caption, query.start) if context == "caption" else (query.text, 0)
            [ids] = model.prepare_captions([text])
            # The tiny tokenizer has a token for each letter, in which the space before it is included.
            first, letters = 1 + len(text[:start].replace(" ", "")), len(query.text.replace(" ", ""))
            boxes, scores = plain_mdetr.detect(tensors, image, ids, list(range(first, first + letters)))
            order = np.argsort(-scores.numpy(), kind="stable")
            np.testing.assert_allclose(one.scores, scores.numpy()[order], atol=1e-5)
            limits = [*image.size, *image.size]
            np.testing.assert_allclose(one.boxes, boxes.numpy()[order].clip(0, limits), atol=1e-3)
    assert np.ptp([one.scores for row in found for one in row]) > 1e-2, "scores that hardly differ would show little"


def test_a_phrase_beyond_what_mdetr_reads_or_of_white_space_has_no_boxes(folders):
    model = load_model(f"mdetr:{folders['mdetr'] / 'tiny.pth'}")
    image, text = Image.new("RGB", (62, 6)), "a red box left of " * 6
    queries = [PhraseQuery(text, 0, 9), PhraseQuery(text, 90, 99), PhraseQuery(text, 1, 2)]
    [[read, unread, space]] = model.detect([model.prepare_image(image)], [image.size], [queries])
    assert len(read.boxes) == 20
    assert unread.boxes.shape == (0, 4)
    assert space.boxes.shape == (0, 4)


def test_mdetr_takes_the_averaged_weights_and_others_where_there_are_none(mdetr_folder):
    file = mdetr_folder / "tiny.pth"
    averaged = load_model(f"mdetr:{file}").module.query_embed.weight
    assert averaged.abs().max() > 0
    rewrite(file, lambda content: {"model": content["model"], "args": content["args"]})
    assert load_model(f"mdetr:{file}").module.query_embed.weight.abs().max() == 0


def test_mdetr_with_an_efficient_net_asks_timm_for_it_with_the_frozen_norm(mdetr_folder, monkeypatch):
    """timm is not installed for the tests; a stand-in has the maps and the names of its EfficientNets."""

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv_stem = torch.nn.Conv2d(3, 40, 3, stride=32, padding=1, bias=False)
            self.bn1 = torch.nn.BatchNorm2d(40, eps=1e-3)

        def forward(self, x):
            return [x, self.bn1(self.conv_stem(x))]

    def change(content):
        tensors = {key: value for key, value in content["model_ema"].items() if not key.startswith("backbone")}
        body = {f"backbone.0.body.{key}": value for key, value in Net().state_dict().items()}
        tensors |= {key: value for key, value in body.items() if not key.endswith("num_batches_tracked")}
        return {"model": tensors | {"input_proj.weight": torch.ones(32, 40, 1, 1)}}

    file, asked = mdetr_folder / "tiny.pth", []
    rewrite(file, change)
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ModelError, match=r"needs a library that is not installed .*timm"):
        load_model(f"mdetr:{file}")
    stand_in = SimpleNamespace(create_model=lambda name, **options: asked.append((name, options)) or Net())
    monkeypatch.setitem(sys.modules, "timm", stand_in)
    model = load_model(f"mdetr:{file}")
    assert asked == [("tf_efficientnet_b3", {"features_only": True, "out_indices": (1, 2, 3, 4)})]
    assert model.module.backbone.bn1.eps == 1e-5
    image = Image.new("RGB", (62, 6))
    [[found]] = model.detect([model.prepare_image(image)], [image.size], [[PhraseQuery("a cat", 2, 5)]])
    assert found.boxes.shape == (20, 4)


@pytest.mark.parametrize(("family", "source"), [("xvlm", "gdown 1B3gzyz"), ("mdetr", "zenodo.org/record/4721981")])
def test_a_file_that_is_none_says_where_the_authors_have_theirs(family, source, tmp_path):
    with pytest.raises(
        ModelError, match=rf"no file {tmp_path}/x\.pth; {family} reads a file of its authors: .*{source}"
    ):
        load_model(f"{family}:{tmp_path}/x.pth")
    (tmp_path / "x.pth").write_bytes(b"PK")
    with pytest.raises(ModelError, match=rf"cannot load x\.pth as {family}: .*{source}"):
        load_model(f"{family}:{tmp_path}/x.pth")
    torch.save([1], tmp_path / "x.pth")
    with pytest.raises(ModelError, match=r"x\.pth holds a list"):
        load_model(f"{family}:{tmp_path}/x.pth")
    torch.save({"model": {"a": torch.ones(1)}}, tmp_path / "x.pth")
    with pytest.raises(ModelError, match=rf"x\.pth does not have the weights of {family}: no sizes can be read"):
        load_model(f"{family}:{tmp_path}/x.pth")
