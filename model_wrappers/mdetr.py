"""MDETR in the files of its authors, such as ``mdetr:pretrained_resnet101_checkpoint.pth``.

Files come from zenodo.org/record/4721981 (`SOURCE`): ``pretrained_resnet101_checkpoint.pth`` and, through timm,
``pretrained_EB3_checkpoint.pth`` and ``pretrained_EB5_checkpoint.pth``. The averaged weights (``model_ema``), with
which the paper's numbers were made, are read where a file has them. The tokenizer is RoBERTa's, from the folder of the
file if one was saved there.

The model reads a caption and gives each of its 100 boxes a distribution over the caption's tokens and "no object". A
phrase's score for a box is the greatest probability of its tokens, the rule of the authors' evaluation on Flickr30k
(``PostProcessFlickr``). No released file has the rule that scored MDETR's boxes for TRICD; it was probably the same.

Settings: ``context``, the text that is read: ``caption`` (the default), once for all its phrases, or ``phrase``, each
phrase separately; ``max_boxes``, the most boxes of a phrase (100); ``threshold``, the lowest score of a box (0).

Source: MDETR (Kamath et al., ICCV 2021), section 2; parts of `transformers`: `ResNetBackbone`, DETR's encoder and
decoder, and `RobertaModel`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from scipy.special import softmax
from torch import Tensor, nn
from transformers import DetrConfig, DetrImageProcessorPil, ResNetBackbone, ResNetConfig, RobertaConfig, RobertaModel
from transformers.models.detr.modeling_detr import DetrDecoder, DetrEncoder, DetrSinePositionEmbedding

from .engine.protocol import Detections, LoadOptions, PhraseQuery, choose
from .loading.checkpoints import CheckpointFiles, image_preprocessing
from .loading.detectors import LIMITS, NO_BOXES, TextDetector, TextOutput, best_boxes, read_limits
from .loading.released import TensorOrigin, filled, read_released, reading_sizes, renamed, tensors_of, tokenizer_beside
from .loading.torch_models import Checkpoint, cut_tokens, pad_right

MODEL_TYPES = ()
CHECKPOINTS = ("pretrained_resnet101_checkpoint.pth", "pretrained_EB3_checkpoint.pth", "pretrained_EB5_checkpoint.pth")
SETTINGS = {"context": ("caption", "phrase"), **LIMITS}
SOURCE = "https://zenodo.org/record/4721981/files/pretrained_resnet101_checkpoint.pth, …_EB3_… or …_EB5_…"
_TOKENIZER = ("FacebookAI/roberta-base", "e2da8e2f811d1448a5b465c236feacd80ffbac7b")
# The EfficientNets of the released files, by the channels of their first convolution.
_EFFICIENT_NETS = {40: "tf_efficientnet_b3", 48: "tf_efficientnet_b5"}
_HEADS = 8
_UNUSED_POSITIONS = 2  # RoBERTa counts positions from the one after its padding's
# Weights that the score does not depend on, and buffers that current code computes.
_UNUSED = re.compile(r"contrastive_align_projection_|transformer\.text_encoder\.pooler\.|.*position_ids$")
_BODY, _TEXT = "backbone.0.body", "transformer.text_encoder"
# The names of weights in `transformers`, and the authors' names.
_NAMES = (
    (r"^backbone\.embedder\.embedder\.convolution", "backbone.conv1"),
    (r"^backbone\.embedder\.embedder\.normalization", "backbone.bn1"),
    (r"^backbone\.encoder\.stages\.(\d+)\.layers", lambda found: f"backbone.layer{int(found[1]) + 1}"),
    (r"\.layer\.(\d)\.convolution", lambda found: f".conv{int(found[1]) + 1}"),
    (r"\.layer\.(\d)\.normalization", lambda found: f".bn{int(found[1]) + 1}"),
    (r"\.shortcut\.convolution", ".downsample.0"),
    (r"\.shortcut\.normalization", ".downsample.1"),
    (r"^backbone", _BODY),
    (r"^(encoder|decoder|resizer)", r"transformer.\1"),
    (r"^text\.", f"{_TEXT}."),
    (r"_attn\.[qkv]_proj\.", "_attn.in_proj_"),
    (r"_attn\.o_proj", "_attn.out_proj"),
    (r"\.encoder_attn\.", ".cross_attn_image."),
    (r"\.mlp\.fc", ".linear"),
    (r"\.self_attn_layer_norm", ".norm1"),
    (r"(encoder\..*)\.final_layer_norm", r"\1.norm2"),
    (r"\.encoder_attn_layer_norm", ".norm3"),
    (r"\.final_layer_norm", ".norm4"),
    (r"decoder\.layernorm", "decoder.norm"),
)


class MdetrConfig(NamedTuple):
    """The parts: a ResNet or the name of an EfficientNet, the encoder and decoder, and the text encoder.

    The backbone's last map has `channels`; a box has logits for as many `places`, tokens and no object.
    """

    backbone: ResNetConfig | str
    detr: DetrConfig
    text: RobertaConfig
    channels: int
    places: int


class Mdetr(nn.Module):
    """The parts of MDETR with the heads of boxes and tokens."""

    def __init__(self, config: MdetrConfig) -> None:
        super().__init__()
        self.config = config
        width = config.detr.d_model
        backbone = config.backbone
        self.backbone = _efficient_net(backbone) if isinstance(backbone, str) else ResNetBackbone(backbone)
        self.input_proj = nn.Conv2d(config.channels, width, kernel_size=1)
        self.positions = DetrSinePositionEmbedding(width // 2, normalize=True)
        self.text = RobertaModel(config.text, add_pooling_layer=False)
        self.resizer = nn.ModuleDict(
            {"fc": nn.Linear(config.text.hidden_size, width), "layer_norm": nn.LayerNorm(width, eps=1e-12)}
        )
        self.encoder, self.decoder = DetrEncoder(config.detr), DetrDecoder(config.detr)
        self.query_embed = nn.Embedding(config.detr.num_queries, width)
        self.class_embed = nn.Linear(width, config.places)
        sizes = ((width, width), (width, width), (width, 4))
        self.bbox_embed = nn.ModuleDict({"layers": nn.ModuleList(nn.Linear(*size) for size in sizes)})

    def see(self, pixels: Tensor) -> Tensor:
        """Return the last map (n, d, height, width) of images of one shape, projected."""
        output = self.backbone(pixels)
        return self.input_proj((output if isinstance(output, list) else output.feature_maps)[-1])

    def forward(self, features: Tensor, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return boxes (n, queries, 4) in shares of the image, and logits (n, queries, places), of maps with texts."""
        read = self.text(input_ids=ids, attention_mask=mask).last_hidden_state
        read = self.resizer["layer_norm"](self.resizer["fc"](read))
        placed = self.positions(features.shape, features.device, torch.float32).to(features.dtype)
        placed = placed.flatten(2).transpose(1, 2)
        joint = torch.cat([features.flatten(2).transpose(1, 2), read], dim=1)
        placed = torch.cat([placed, torch.zeros_like(read)], dim=1)
        mask = torch.cat([mask.new_ones(len(mask), joint.shape[1] - mask.shape[1]), mask], dim=1)
        memory = self.encoder(joint, mask, spatial_position_embeddings=placed).last_hidden_state
        queries = self.query_embed.weight.expand(len(features), -1, -1)
        hidden = self.decoder(
            torch.zeros_like(queries),
            encoder_hidden_states=memory,
            encoder_attention_mask=mask,
            spatial_position_embeddings=placed,
            object_queries_position_embeddings=queries,
        ).last_hidden_state
        layers: Any = self.bbox_embed["layers"]
        first, second, last = layers
        return last(second(first(hidden).relu()).relu()).sigmoid(), self.class_embed(hidden)


class MdetrDetector(TextDetector):
    """MDETR as a detector of phrases."""

    def prepare_image(self, image: Image.Image) -> np.ndarray:
        """Return pixel values (3, height, width), float32, with sides by the rule of the authors' `transforms.resize`.

        Where the longer side reaches its limit, `transformers` gives one that is up to some pixels longer or shorter.
        """
        limits = self._image_processor.size
        shorter, longer = sorted(image.size)
        side = min(limits.shortest_edge, round(limits.longest_edge * shorter / longer))
        width, height = (side if each == shorter else int(side * each / shorter) for each in image.size)
        size = {"height": height, "width": width}
        return self._image_processor(image.convert("RGB"), size=size, return_tensors="np")["pixel_values"][0]

    def see(self, images: Sequence[np.ndarray]) -> Sequence[Tensor]:
        """Return the projected map of the backbone."""
        return [self._model.see(self.batch_pixels(images, self._model))]

    def read(self, features: Sequence[Tensor], texts: Sequence[str]) -> Iterator[TextOutput]:
        """Return for each pair of a map and a text the boxes, and their probabilities of tokens and no object."""
        cut = [cut_tokens(ids, self.max_tokens) for ids in self.prepare_captions(texts)]
        boxes, logits = self._model(features[0], *pad_right(cut, self._tokenizer.pad_token_id, features[0].device))
        distributions = softmax(logits.cpu().double().numpy(), axis=-1)
        yield from map(TextOutput, boxes.float().cpu().numpy(), distributions)

    def find(self, query: PhraseQuery, output: TextOutput, size: tuple[int, int]) -> Detections:
        """Return the boxes of a phrase, none where it stands beyond what the model reads."""
        start, end = self._place(query)
        # The last place is no object, and the last token that is read is the end.
        tokens = range(min(output.scores.shape[1], self.max_tokens) - 1)
        phrase_tokens = [token for token in self._tokens(self._text(query), start, end) if token in tokens]
        if not phrase_tokens:
            return NO_BOXES
        return best_boxes(output.boxes, output.scores[:, phrase_tokens].max(axis=1), size, size, self._limits)

    def _tokens(self, text: str, start: int, end: int) -> range:
        """Return the tokens of a phrase as the authors' `create_positive_map` finds them: none if it is white space."""
        token = self._tokenizer(text, verbose=False).char_to_token
        first = next((index for position in range(start, end)[:3] if (index := token(position)) is not None), None)
        last = next((index for position in range(start, end)[:-4:-1] if (index := token(position)) is not None), None)
        return range(0) if first is None or last is None else range(first, last + 1)


def needed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors that scores depend on."""
    return {key: value for key, value in tensors.items() if not _UNUSED.match(key)}


def origin(name: str) -> TensorOrigin:
    """Return the tensor of the authors' file for a weight of `Mdetr`."""
    return renamed(name, _NAMES, r"^(?:en|de)coder\..*_attn\.([qkv])_proj")


def architecture(tensors: Mapping[str, Tensor]) -> MdetrConfig:
    """Return the sizes of a model, by its tensors; a `KeyError` or `ValueError` if they have none."""
    queries, width = tensors["query_embed.weight"].shape
    words, hidden = tensors[f"{_TEXT}.embeddings.word_embeddings.weight"].shape
    text = RobertaConfig(
        vocab_size=words,
        hidden_size=hidden,
        num_hidden_layers=_count(tensors, rf"{_TEXT}\.encoder\.layer"),
        num_attention_heads=max(1, hidden // 64),
        intermediate_size=len(tensors[f"{_TEXT}.encoder.layer.0.intermediate.dense.weight"]),
        max_position_embeddings=len(tensors[f"{_TEXT}.embeddings.position_embeddings.weight"]),
        type_vocab_size=len(tensors[f"{_TEXT}.embeddings.token_type_embeddings.weight"]),
        layer_norm_eps=1e-5,
    )
    detr = DetrConfig(
        d_model=width,
        num_queries=queries,
        encoder_layers=_count(tensors, r"transformer\.encoder\.layers"),
        decoder_layers=_count(tensors, r"transformer\.decoder\.layers"),
        encoder_ffn_dim=len(tensors["transformer.encoder.layers.0.linear1.weight"]),
        decoder_ffn_dim=len(tensors["transformer.decoder.layers.0.linear1.weight"]),
        encoder_attention_heads=_HEADS,
        decoder_attention_heads=_HEADS,
        backbone_config=ResNetConfig(),  # of no use to the encoder and decoder; the default one needs timm
    )
    channels = tensors["input_proj.weight"].shape[1]
    return MdetrConfig(_backbone(tensors), detr, text, channels, len(tensors["class_embed.weight"]))


def _backbone(tensors: Mapping[str, Tensor]) -> ResNetConfig | str:
    """Return the backbone; a `KeyError` or `ValueError` for one that is not of the released files."""
    if f"{_BODY}.conv_stem.weight" in tensors:
        return _EFFICIENT_NETS[len(tensors[f"{_BODY}.conv_stem.weight"])]
    stages = range(1, 5)
    is_deep = f"{_BODY}.layer1.0.conv3.weight" in tensors
    last = "conv3" if is_deep else "conv2"
    sizes: dict[str, Any] = {
        "embedding_size": len(tensors[f"{_BODY}.conv1.weight"]),
        "hidden_sizes": [len(tensors[f"{_BODY}.layer{stage}.0.{last}.weight"]) for stage in stages],
        "depths": [_count(tensors, rf"backbone\.0\.body\.layer{stage}") for stage in stages],
        "out_features": ["stage4"],
    }
    return ResNetConfig(**sizes, layer_type="bottleneck" if is_deep else "basic")


def _efficient_net(name: str) -> Any:
    """Return the feature maps of an EfficientNet of timm, with the normalisation that MDETR froze."""
    net = importlib.import_module("timm").create_model(name, features_only=True, out_indices=(1, 2, 3, 4))
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eps = 1e-5
    return net


def _count(tensors: Mapping[str, Tensor], prefix: str) -> int:
    """Return how many numbered parts have this prefix."""
    return len({match[1] for key in tensors if (match := re.match(rf"{prefix}\.(\d+)\.", key))})


def load(checkpoint: str, options: LoadOptions) -> MdetrDetector:
    """Load a file of MDETR's authors; raises as `released.read_released` and `released.filled`."""
    settings = choose("mdetr", options, SETTINGS)
    read_limits(settings)
    files = CheckpointFiles("mdetr", checkpoint, options)
    content = read_released(files, SOURCE)
    tensors = needed(tensors_of(content.get("model_ema") or content.get("model", content)))
    with reading_sizes(files):
        config = architecture(tensors)
    model = filled(files, lambda: Mdetr(config), tensors, origin)
    processor = DetrImageProcessorPil(size={"shortest_edge": 800, "longest_edge": 1333}, do_pad=False)
    tokenizer, described = tokenizer_beside(files, *_TOKENIZER)
    info = files.info(model, settings, {**image_preprocessing(processor), "tokenizer": described})
    longest = config.text.max_position_embeddings - _UNUSED_POSITIONS
    return MdetrDetector(Checkpoint(model, tokenizer, processor, info), longest)
