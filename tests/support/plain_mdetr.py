"""MDETR written down with torch alone, after the paper and its authors' names: the reference for the family."""

from __future__ import annotations

import math

import torch
from PIL import Image
from plain_layers import bert_embeddings, bert_layer, bert_shapes, lin, linear_shapes, ln, norm_shapes, pixels
from torch.nn.functional import conv2d, linear, max_pool2d, relu

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_HEADS = 8


def shapes(
    stem=64, depths=(3, 4, 23, 3), d=256, layers=6, queries=100, words=50265, hidden=768, read=12, positions=514
):
    """The shapes of MDETR's tensors by name, with a ResNet; the defaults are the released ResNet-101's full size."""
    body = "backbone.0.body"
    found = {f"{body}.conv1.weight": (stem, 3, 7, 7)} | _frozen(f"{body}.bn1", stem)
    inputs = stem
    for stage, depth in enumerate(depths):
        inner = stem * 2**stage
        for block in range(depth):
            at = f"{body}.layer{stage + 1}.{block}"
            for number, (out, into, side) in enumerate(
                ((inner, inputs, 1), (inner, inner, 3), (4 * inner, inner, 1)), 1
            ):
                found |= {f"{at}.conv{number}.weight": (out, into, side, side)} | _frozen(f"{at}.bn{number}", out)
            if block == 0:
                found |= {f"{at}.downsample.0.weight": (4 * inner, inputs, 1, 1)}
                found |= _frozen(f"{at}.downsample.1", 4 * inner)
            inputs = 4 * inner
    found |= {"input_proj.weight": (d, inputs, 1, 1), "input_proj.bias": (d,), "query_embed.weight": (queries, d)}
    at = "transformer.text_encoder"
    found |= bert_shapes(at, words, hidden, read, positions, 1) | linear_shapes(f"{at}.pooler.dense", hidden, hidden)
    found |= linear_shapes("transformer.resizer.fc", hidden, d) | norm_shapes("transformer.resizer.layer_norm", d)
    for layer in range(layers):
        for part, norms in (("encoder", "12"), ("decoder", "134")):
            at = f"transformer.{part}.layers.{layer}"
            for attention in ("self_attn", "cross_attn_image")[: len(norms) - 1]:
                found |= {f"{at}.{attention}.in_proj_weight": (3 * d, d), f"{at}.{attention}.in_proj_bias": (3 * d,)}
                found |= linear_shapes(f"{at}.{attention}.out_proj", d, d)
            found |= linear_shapes(f"{at}.linear1", d, 8 * d) | linear_shapes(f"{at}.linear2", 8 * d, d)
            for number in norms:
                found |= norm_shapes(f"{at}.norm{number}", d)
    found |= norm_shapes("transformer.decoder.norm", d) | linear_shapes("class_embed", d, 256)
    for number, out in enumerate((d, d, 4)):
        found |= linear_shapes(f"bbox_embed.layers.{number}", d, out)
    for side in ("image", "text"):
        found |= linear_shapes(f"contrastive_align_projection_{side}", d, 64)
    return found


def detect(tensors, image, ids, tokens, side=800, longest=1333):
    """Boxes (queries, 4), x1, y1, x2, y2 in pixels, and scores (queries,) of the phrase of these tokens of a text."""
    t = tensors
    x = pixels(image, _size(image.size, side, longest), Image.Resampling.BILINEAR, MEAN, STD).to(t["input_proj.bias"])
    grid = conv2d(_resnet(t, x), t["input_proj.weight"], t["input_proj.bias"])[0]
    at = "transformer.text_encoder"
    read = bert_embeddings(t, f"{at}.embeddings", ids, first=2, eps=1e-5)
    for layer in range(len({key.split(".")[4] for key in t if key.startswith(f"{at}.encoder.layer.")})):
        read = bert_layer(t, f"{at}.encoder.layer.{layer}", read, eps=1e-5)
    read = ln(t, "transformer.resizer.layer_norm", lin(t, "transformer.resizer.fc", read), 1e-12)
    memory, places = torch.cat([grid.flatten(1).T, read]), torch.cat([_sines(grid), torch.zeros_like(read)])
    for layer in range(len({key.split(".")[3] for key in t if key.startswith("transformer.encoder.layers.")})):
        at = f"transformer.encoder.layers.{layer}"
        keys = memory + places
        memory = ln(t, f"{at}.norm1", memory + _attend(t, f"{at}.self_attn", keys, keys, memory), 1e-5)
        memory = ln(t, f"{at}.norm2", memory + _mlp(t, at, memory), 1e-5)
    asked = t["query_embed.weight"]
    x = torch.zeros_like(asked)
    for layer in range(len({key.split(".")[3] for key in t if key.startswith("transformer.decoder.layers.")})):
        at = f"transformer.decoder.layers.{layer}"
        x = ln(t, f"{at}.norm1", x + _attend(t, f"{at}.self_attn", x + asked, x + asked, x), 1e-5)
        across = _attend(t, f"{at}.cross_attn_image", x + asked, memory + places, memory)
        x = ln(t, f"{at}.norm3", x + across, 1e-5)
        x = ln(t, f"{at}.norm4", x + _mlp(t, at, x), 1e-5)
    x = ln(t, "transformer.decoder.norm", x, 1e-5)
    scores = lin(t, "class_embed", x).softmax(-1)[:, tokens].max(-1).values
    for number in range(3):
        at = f"bbox_embed.layers.{number}"
        x = relu(lin(t, at, x)) if number < 2 else lin(t, at, x).sigmoid()
    corners = torch.cat([x[:, :2] - x[:, 2:] / 2, x[:, :2] + x[:, 2:] / 2], dim=1)
    return corners * torch.tensor([*image.size, *image.size]), scores


def _size(size, side, longest):
    """The width and height: the shorter side as given, unless the other would be longer than allowed."""
    low, high = min(size), max(size)
    side = round(longest * low / high) if high / low * side > longest else side
    return tuple(side if each == low else int(side * each / low) for each in size)


def _resnet(t, x):
    x = max_pool2d(relu(_convolved(t, "backbone.0.body.conv1", "backbone.0.body.bn1", x, 2)), 3, 2, 1)
    for stage in range(1, 5):
        block = 0
        while f"backbone.0.body.layer{stage}.{block}.conv1.weight" in t:
            at = f"backbone.0.body.layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            out = relu(_convolved(t, f"{at}.conv1", f"{at}.bn1", x))
            out = relu(_convolved(t, f"{at}.conv2", f"{at}.bn2", out, stride))
            out = _convolved(t, f"{at}.conv3", f"{at}.bn3", out)
            x = _convolved(t, f"{at}.downsample.0", f"{at}.downsample.1", x, stride) if block == 0 else x
            x = relu(out + x)
            block += 1
    return x


def _convolved(t, at, norm, x, stride=1):
    """A convolution without change of size but for the stride, and frozen batch normalisation."""
    kernel = t[f"{at}.weight"]
    x = conv2d(x, kernel, stride=stride, padding=kernel.shape[-1] // 2)
    scale = t[f"{norm}.weight"] / (t[f"{norm}.running_var"] + 1e-5).sqrt()
    return x * scale[:, None, None] + (t[f"{norm}.bias"] - t[f"{norm}.running_mean"] * scale)[:, None, None]


def _sines(grid):
    """Positions (height · width, d): for rows, then columns, sines and cosines of the place in a turn."""
    d, height, width = grid.shape
    found = []
    for length in (height, width):
        turn = torch.arange(1, length + 1) / (length + 1e-6) * 2 * math.pi
        period = 10000 ** (2 * (torch.arange(d // 2) // 2) / (d // 2))
        angle = turn[:, None] / period
        found.append(torch.stack([angle[:, 0::2].sin(), angle[:, 1::2].cos()], dim=2).flatten(1))
    rows, columns = found
    both = torch.cat([rows[:, None].expand(-1, width, -1), columns[None].expand(height, -1, -1)], dim=2)
    return both.flatten(0, 1).to(grid)


def _attend(t, at, queries, keys, values):
    parts = zip(t[f"{at}.in_proj_weight"].chunk(3), t[f"{at}.in_proj_bias"].chunk(3), strict=True)
    made = (linear(x, *part) for x, part in zip((queries, keys, values), parts, strict=True))
    q, k, v = (x.unflatten(-1, (_HEADS, -1)).transpose(0, 1) for x in made)
    mixed = (q @ k.transpose(1, 2) * q.shape[-1] ** -0.5).softmax(-1) @ v
    return lin(t, f"{at}.out_proj", mixed.transpose(0, 1).flatten(1))


def _mlp(t, at, x):
    return lin(t, f"{at}.linear2", relu(lin(t, f"{at}.linear1", x)))


def _frozen(at, width):
    return {f"{at}.{name}": (width,) for name in ("weight", "bias", "running_mean", "running_var")}
