"""X-VLM in the files of its authors, such as ``xvlm:16m_base_model_state_step_199999.th``.

Files come from their Google Drive (github.com/zengyan-97/X-VLM; see `SOURCE`): the pre-trained 4M and 16M models, and
models fine-tuned for retrieval, whose names differ. The resolution, 224 or 384 pixels, follows from the window of the
Swin transformer. The tokenizer is BERT's (uncased), from the folder of the file if one was saved there; captions begin
with [CLS], have **no** [SEP], and are cut to 40 tokens or to the ``max_tokens`` of the file's configuration.

The setting ``head`` chooses the score of an image and a caption:

- ``itm+itc``: the logit of a match plus the cosine of the contrastive embeddings, as the authors of ARO
  (``model_zoo/xvlm_models.py``) and of Hard Positives score it;
- ``itm``: only the logit of a match, by which X-VLM's authors rank in retrieval;
- ``itc``: only the cosine, a dual encoder.

The setting ``captions`` is ``raw``, unchanged captions, the default of ``itm+itc``, since ARO's wrapper of X-VLM does
not clean captions; or ``cleaned``, X-VLM's ``pre_caption``, the default of the other heads: lower case without
punctuation, and 30 words at most.

Source: X-VLM (Zeng et al., ICML 2022), section 3; parts of `transformers`: `SwinModel` and the layers of BLIP's text
encoder, which are X-VLM's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from transformers import BlipImageProcessorPil, BlipTextConfig, BlipTextModel, SwinConfig, SwinModel
from transformers.masking_utils import create_bidirectional_mask

from ..metrics.common.errors import ModelError
from .engine.protocol import LoadOptions, choose
from .loading.blip_layers import read_with_images
from .loading.checkpoints import CheckpointFiles, image_preprocessing
from .loading.released import TensorOrigin, filled, read_released, reading_sizes, renamed, tensors_of, tokenizer_beside
from .loading.torch_models import (
    Checkpoint,
    DualEncoderMixin,
    FusedModel,
    ImageStates,
    ImageTextModel,
    head_logits,
    pad_right,
    unit,
)

MODEL_TYPES = ()
CHECKPOINTS = ("16m_base_model_state_step_199999.th", "xvlm-coco.pth", "xvlm-flickr.pth")
SETTINGS = {"head": ("itm+itc", "itm", "itc"), "captions": ("raw", "cleaned")}
SOURCE = (
    "gdown 1B3gzyzuDN1DU0lvt2kDz2nTTwSKWqzV5 (4M), 1iXgITaSbQ1oGPPvGaV0Hlae4QiJG5gx0 (16M), "
    "1bv6_pZOsXW53EhlwU0ZgSk03uzFI61pN (fine-tuned on COCO), 1vhdtH3iFaoZuMqOGm-8YM-diPWVfRJzv (on Flickr30k)"
)
_TOKENIZER = ("google-bert/bert-base-uncased", "86b5e0934494bd15c9632b12f734a8a67f723594")
_MAX_TOKENS, _MAX_WORDS = 40, 30
# Weights that no score depends on, and buffers that current code computes.
_UNUSED = re.compile(r"text_encoder\.cls\.|bbox_head\.|temp$|.*(relative_position_index|attn_mask|position_ids)$")
# The names of weights in `transformers`, and the authors' names.
_NAMES = (
    (r"^vision\.embeddings\.patch_embeddings\.projection", "vision.patch_embed.proj"),
    (r"^vision\.embeddings\.norm", "vision.patch_embed.norm"),
    (r"^vision\.encoder", "vision"),
    (r"\.attention\.[qkv]_proj", ".attn.qkv"),
    (r"\.attention\.o_proj", ".attn.proj"),
    (r"\.attention\.relative_position_bias\.", ".attn."),
    (r"\.layernorm_before", ".norm1"),
    (r"\.layernorm_after", ".norm2"),
    (r"^vision\.layernorm", "vision.norm"),
    (r"^vision\.", "vision_encoder."),
    (r"^text\.", "text_encoder."),
    (r"^types\.", "text_encoder.embeddings.token_type_embeddings."),
)


class XvlmConfig(NamedTuple):
    """The parts: vision tower, text layers, layers that also attend to the image; token types, length of embeddings.

    Images have `pixels` × `pixels`.
    """

    pixels: int
    vision: SwinConfig
    text: BlipTextConfig
    fusion: BlipTextConfig
    types: int
    embedding: int


class Xvlm(nn.Module):
    """The parts of X-VLM with their heads."""

    def __init__(self, config: XvlmConfig) -> None:
        super().__init__()
        self.config = config
        width, text_width = config.fusion.encoder_hidden_size, config.text.hidden_size
        self.vision = SwinModel(config.vision)
        self.text = BlipTextModel(config.text, add_pooling_layer=False)
        self.types = nn.Embedding(config.types, text_width)  # which BLIP lacks
        self.fusion = BlipTextModel(config.fusion, add_pooling_layer=False).encoder.layer
        self.vision_proj = nn.Linear(width, config.embedding)
        self.text_proj = nn.Linear(text_width, config.embedding)
        self.itm_head = nn.Sequential(
            nn.Linear(text_width, 2 * text_width), nn.LayerNorm(2 * text_width), nn.GELU(), nn.Linear(2 * text_width, 2)
        )

    def see(self, pixels: Tensor) -> Tensor:
        """Return states (n, 1 + patches, d) of images: the mean of the patches, and the patches."""
        output = self.vision(pixel_values=pixels)
        return torch.cat([output.pooler_output[:, None], output.last_hidden_state], dim=1)

    def read(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return states (n, tokens, d) of captions without images."""
        words = self.text.get_input_embeddings()(ids) + self.types.weight[0]
        return self.text(inputs_embeds=words, attention_mask=mask).last_hidden_state


class XvlmReader(ImageTextModel):
    """Captions as X-VLM reads them."""

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each caption after [CLS]; there is no end token."""
        if not captions:
            return []
        texts = map(pre_caption, captions) if self.info.settings["captions"] == "cleaned" else captions
        rows = self._tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return [[self._tokenizer.cls_token_id, *row] for row in rows]

    def batch_tokens(self, captions: Sequence[Sequence[int]], model: Any) -> tuple[Tensor, Tensor]:
        """Return truncated token ids and attention mask, both (n, longest), on the device of `model`."""
        cut = [ids[: self.max_tokens] for ids in captions]
        return pad_right(cut, self._tokenizer.pad_token_id, model.text_proj.weight.device)


class XvlmContrastive(DualEncoderMixin, XvlmReader):
    """The contrastive head, as a dual encoder."""

    def see(self, model: Xvlm, images: Sequence[np.ndarray]) -> Tensor:
        """Return image embeddings (n, e), not normalised."""
        return model.vision_proj(model.see(self.batch_pixels(images, model))[:, 0])

    def read(self, model: Xvlm, captions: Sequence[Sequence[int]]) -> Tensor:
        """Return caption embeddings (n, e), not normalised."""
        return model.text_proj(model.read(*self.batch_tokens(captions, model))[:, 0])


class XvlmMatching(XvlmReader, FusedModel):
    """The matching head, with or without the contrastive head; the vision tower runs once for an image."""

    def see(self, model: Xvlm, images: Sequence[np.ndarray]) -> ImageStates:
        """Return the image side of both heads."""
        states = model.see(self.batch_pixels(images, model))
        return ImageStates(states, unit(model.vision_proj(states[:, 0])))

    def fuse(self, model: Xvlm, features: ImageStates, rows: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """Return scores (n,), float64; see the module."""
        read = model.read(ids, mask)
        attended = create_bidirectional_mask(config=model.config.text, inputs_embeds=read, attention_mask=mask)
        fused = read_with_images(model.fusion, read, attended, features.states, rows)[:, 0]
        last: Any = model.itm_head[3]
        logits = head_logits(last, model.itm_head[:3](fused))[:, 1]
        if self.info.settings["head"] == "itm":
            return logits
        return logits + (features.embeddings[rows] * unit(model.text_proj(read[:, 0]))).sum(-1)


def pre_caption(caption: str) -> str:
    """Clean a caption as X-VLM's ``dataset/utils.py`` does; the result may be empty, which is an error there."""
    text = re.sub(r"[,.'!?\"()*#:;~]", "", caption.lower()).replace("-", " ").replace("/", " ")
    text = re.sub(r"\s{2,}", " ", text.replace("<person>", "person")).rstrip("\n").strip(" ")
    return " ".join(text.split(" ")[:_MAX_WORDS])


def origin(name: str, text_layers: int) -> TensorOrigin:
    """Return the tensor of the authors' file, in the fine-tuned layout, for a weight of `Xvlm`.

    Args:
        name: the weight's name.
        text_layers: the number of layers before the first that attends to the image.
    """
    if name.startswith("fusion."):
        _, layer, rest = name.split(".", 2)
        return TensorOrigin(f"text_encoder.encoder.layer.{int(layer) + text_layers}.{rest}")
    return renamed(name, _NAMES, r"^vision\..*\.attention\.([qkv])_proj")


def architecture(tensors: Mapping[str, Tensor]) -> XvlmConfig:
    """Return the sizes of a model by tensors in the fine-tuned layout; `KeyError` or `ValueError` for other tensors."""
    width, _, patch, _ = tensors["vision_encoder.patch_embed.proj.weight"].shape
    blocks = [re.match(r"vision_encoder\.layers\.(\d+)\.blocks\.\d+\.norm1\.weight$", key) for key in tensors]
    stages = sorted(int(block[1]) for block in blocks if block)
    depths = [stages.count(stage) for stage in dict.fromkeys(stages)]
    stage = "vision_encoder.layers.{}.blocks.0.attn.relative_position_bias_table"
    tables = [tensors[stage.format(number)].shape for number in range(len(depths))]
    # The last stage is one window. A window of w × w patches has (2 w - 1)² relative positions.
    window = (math.isqrt(tables[-1][0]) + 1) // 2
    words, hidden = tensors["text_encoder.embeddings.word_embeddings.weight"].shape
    layers = {int(key.split(".")[3]) for key in tensors if key.startswith("text_encoder.encoder.layer.")}
    fused = {int(key.split(".")[3]) for key in tensors if key.endswith(".crossattention.self.key.weight")}
    text: dict[str, Any] = {
        "vocab_size": words,
        "hidden_size": hidden,
        "intermediate_size": len(tensors["text_encoder.encoder.layer.0.intermediate.dense.weight"]),
        "max_position_embeddings": len(tensors["text_encoder.embeddings.position_embeddings.weight"]),
        "num_attention_heads": max(1, hidden // 64),
        "bos_token_id": None,
        "sep_token_id": None,
    }
    embedding, vision_width = tensors["vision_proj.weight"].shape
    fusion: dict[str, Any] = text | {"encoder_hidden_size": vision_width, "num_hidden_layers": len(fused)}
    pixels = window * patch * 2 ** (len(depths) - 1)
    return XvlmConfig(
        pixels,
        SwinConfig(
            image_size=pixels,
            patch_size=patch,
            embed_dim=width,
            depths=depths,
            num_heads=[table[1] for table in tables],
            window_size=window,
        ),
        BlipTextConfig(**text, num_hidden_layers=len(layers - fused), is_decoder=False),
        BlipTextConfig(**fusion, is_decoder=True),
        len(tensors["text_encoder.embeddings.token_type_embeddings.weight"]),
        embedding,
    )


def fine_tuned_layout(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors that scores depend on, named as in fine-tuned files."""
    renamed = {key.replace("text_encoder.bert.", "text_encoder."): value for key, value in tensors.items()}
    return {key: value for key, value in renamed.items() if not _UNUSED.match(key)}


def load(checkpoint: str, options: LoadOptions) -> XvlmContrastive | XvlmMatching:
    """Load a file of X-VLM's authors; raises as `released.read_released` and `released.filled`."""
    fused = options.settings.get("head", "itm+itc") == "itm+itc"
    settings = choose("xvlm", options, SETTINGS if fused else {**SETTINGS, "captions": ("cleaned", "raw")})
    files = CheckpointFiles("xvlm", checkpoint, options)
    content = read_released(files, SOURCE)
    with reading_sizes(files):
        tensors = fine_tuned_layout(tensors_of(content.get("model", content)))
        config = architecture(tensors)
    before = config.text.num_hidden_layers
    model = filled(files, lambda: Xvlm(config), tensors, lambda name: origin(name, before))
    processor = BlipImageProcessorPil(size={"height": config.pixels, "width": config.pixels})
    tokenizer, described = tokenizer_beside(files, *_TOKENIZER)
    longest = _longest(content.get("config"), config.text.max_position_embeddings)
    info = files.info(model, settings, {**image_preprocessing(processor), "tokenizer": described})
    loaded = Checkpoint(model, tokenizer, processor, info)
    return (XvlmContrastive if settings["head"] == "itc" else XvlmMatching)(loaded, longest)


def _longest(config: Any, positions: int) -> int:
    """Return the most tokens of a caption, by the configuration in the file."""
    longest = config.get("max_tokens", _MAX_TOKENS) if isinstance(config, dict) else _MAX_TOKENS
    if not isinstance(longest, int) or not 1 < longest <= positions:
        raise ModelError(f"max_tokens in the file is {longest!r}; the model reads from 2 to {positions} tokens")
    return longest
