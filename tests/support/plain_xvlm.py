"""X-VLM written down with torch alone, after the paper and its authors' names: the reference for the family."""

from __future__ import annotations

import torch
from PIL import Image
from plain_layers import bert_embeddings, bert_layer, bert_shapes, lin, linear_shapes, ln, norm_shapes, pixels
from torch.nn.functional import conv2d, cosine_similarity, gelu, linear

MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


def shapes(width=128, depths=(2, 2, 18, 2), heads=(4, 8, 16, 32), window=12, words=30522, hidden=768, layers=12, e=256):
    """The shapes of X-VLM's tensors in the fine-tuned layout, by name; the defaults are the full size at 384 pixels."""
    found = {"temp": (), "vision_encoder.patch_embed.proj.weight": (width, 3, 4, 4)}
    found |= {"vision_encoder.patch_embed.proj.bias": (width,)}
    found |= norm_shapes("vision_encoder.patch_embed.norm", width)
    for stage, (depth, head) in enumerate(zip(depths, heads, strict=True)):
        d = width * 2**stage
        for block in range(depth):
            at = f"vision_encoder.layers.{stage}.blocks.{block}"
            found |= norm_shapes(f"{at}.norm1", d) | norm_shapes(f"{at}.norm2", d)
            found |= linear_shapes(f"{at}.attn.qkv", d, 3 * d) | linear_shapes(f"{at}.attn.proj", d, d)
            found |= {f"{at}.attn.relative_position_bias_table": ((2 * window - 1) ** 2, head)}
            found |= {f"{at}.attn.relative_position_index": (window**2, window**2)}
            found |= linear_shapes(f"{at}.mlp.fc1", d, 4 * d) | linear_shapes(f"{at}.mlp.fc2", 4 * d, d)
        if stage + 1 < len(depths):
            at = f"vision_encoder.layers.{stage}.downsample"
            found |= {f"{at}.reduction.weight": (2 * d, 4 * d)} | norm_shapes(f"{at}.norm", 4 * d)
    deep = width * 2 ** (len(depths) - 1)
    found |= norm_shapes("vision_encoder.norm", deep)
    found |= bert_shapes("text_encoder", words, hidden, layers, 512, 2, range(layers // 2, layers), deep)
    found |= linear_shapes("vision_proj", deep, e) | linear_shapes("text_proj", hidden, e)
    found |= linear_shapes("itm_head.0", hidden, 2 * hidden) | norm_shapes("itm_head.1", 2 * hidden)
    return found | linear_shapes("itm_head.3", 2 * hidden, 2)


def pre_trained(tensors):
    """The layout of a pre-trained file: its text encoder is a BERT for masked words, and there are further heads."""
    more = {"text_encoder.cls.predictions.bias": torch.zeros(3), "bbox_head.0.weight": torch.zeros(2, 2)}
    return {key.replace("text_encoder.", "text_encoder.bert."): value for key, value in tensors.items()} | more


def score(tensors, heads, image, ids, head):
    """The score of an image, scaled to 32 pixels, and a caption's ids by the head ``itm+itc``, ``itm`` or ``itc``.

    `heads` are those of the vision tower's stages.
    """
    t = tensors
    seen = pixels(image, (32, 32), Image.Resampling.BICUBIC, MEAN, STD).to(t["temp"].dtype)
    states = _see(t, seen, heads)
    read = bert_embeddings(t, "text_encoder.embeddings", ids)
    count = len({key.split(".")[3] for key in t if key.startswith("text_encoder.encoder.layer.")})
    for layer in range(count // 2):
        read = bert_layer(t, f"text_encoder.encoder.layer.{layer}", read)
    cosine = cosine_similarity(lin(t, "vision_proj", states[0]), lin(t, "text_proj", read[0]), dim=-1)
    for layer in range(count // 2, count):
        read = bert_layer(t, f"text_encoder.encoder.layer.{layer}", read, states)
    hidden = gelu(ln(t, "itm_head.1", lin(t, "itm_head.0", read[0]), 1e-5))
    match = lin(t, "itm_head.3", hidden)[1]
    return {"itm": match, "itc": cosine, "itm+itc": match + cosine}[head]


def _see(t, image, heads):
    """The mean of the patches and the patches (1 + patches, d) of a Swin transformer."""
    at = "vision_encoder.patch_embed"
    x = conv2d(image, t[f"{at}.proj.weight"], t[f"{at}.proj.bias"], stride=4)[0].permute(1, 2, 0)
    x = ln(t, f"{at}.norm", x, 1e-5)
    for stage, head in enumerate(heads):
        block = 0
        while f"vision_encoder.layers.{stage}.blocks.{block}.norm1.weight" in t:
            x = _swin_block(t, f"vision_encoder.layers.{stage}.blocks.{block}", x, head, shifts=block % 2 == 1)
            block += 1
        at = f"vision_encoder.layers.{stage}.downsample"
        if f"{at}.norm.weight" in t:
            x = torch.cat([x[0::2, 0::2], x[1::2, 0::2], x[0::2, 1::2], x[1::2, 1::2]], dim=-1)
            x = linear(ln(t, f"{at}.norm", x, 1e-5), t[f"{at}.reduction.weight"])
    x = ln(t, "vision_encoder.norm", x, 1e-5).flatten(0, 1)
    return torch.cat([x.mean(0, keepdim=True), x])


def _swin_block(t, at, x, heads, shifts):
    side = len(x)
    table = t[f"{at}.attn.relative_position_bias_table"]
    window = (int(len(table) ** 0.5) + 1) // 2
    shift = window // 2 if shifts and side > window else 0
    q, k, v = lin(t, f"{at}.attn.qkv", ln(t, f"{at}.norm1", x, 1e-5)).chunk(3, dim=-1)
    out = torch.empty_like(q)
    rows, columns = (axis.flatten() for axis in torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij"))
    # Shifted windows cut the plane at multiples of the window, moved by the shift; none reaches around the border.
    group = ((rows + window - shift) // window) * 2 * side + (columns + window - shift) // window
    width = q.shape[-1] // heads
    for number in group.unique():
        r, c = rows[group == number], columns[group == number]
        offset = (r[:, None] - r + window - 1) * (2 * window - 1) + c[:, None] - c + window - 1
        for head in range(heads):
            one = slice(head * width, (head + 1) * width)
            logits = q[r, c, one] @ k[r, c, one].T * width**-0.5 + table[offset, head]
            out[r, c, one] = logits.softmax(-1) @ v[r, c, one]
    x = x + lin(t, f"{at}.attn.proj", out)
    return x + lin(t, f"{at}.mlp.fc2", gelu(lin(t, f"{at}.mlp.fc1", ln(t, f"{at}.norm2", x, 1e-5))))
