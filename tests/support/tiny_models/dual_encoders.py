"""Tiny checkpoints whose images and captions are encoded apart."""

from __future__ import annotations

import transformers

from .parts import TOWER, bert_words, gemma_words, save_parts, save_tiny, xlmr_words

SIZE = {"height": 32, "width": 32}
SIGLIP_TEXT = {"max_position_embeddings": 20, "projection_size": 32}


def _save_dual(folder, prefix, tokenizer, processor, text, vision=None, **options):
    """Save a model of two towers by the prefix of its classes; its images have 16 patches of 8 pixels."""
    config = getattr(transformers, f"{prefix}Config")(
        text_config=TOWER | {"vocab_size": len(tokenizer)} | text,
        vision_config=vision or TOWER | {"image_size": 32, "patch_size": 8},
        **options,
    )
    return save_tiny(folder, getattr(transformers, f"{prefix}Model")(config), tokenizer, processor)


def tiny_clip(folder, positions=32):
    """A `CLIPModel` with the demo model's tokenizer and weights of ordinary size: few pairs nearly tie."""
    import torch

    from vl_assay.model_wrappers.demo_clip.train import build_tokenizer

    torch.manual_seed(0)
    tokenizer = build_tokenizer()
    text = {"max_position_embeddings": positions, "eos_token_id": tokenizer.eos_token_id}
    config = transformers.CLIPConfig(
        text_config=TOWER | text | {"vocab_size": len(tokenizer)},
        vision_config=TOWER | {"image_size": 32, "patch_size": 8},
        projection_dim=16,
    )
    model = transformers.CLIPModel(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2) if parameter.ndim > 1 else None
    processor = transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=SIZE)
    return save_parts(folder, model, tokenizer, processor)


def tiny_metaclip_2(folder, **text):
    """A `MetaClip2Model`, which reads captions at the end token of its tokenizer, 2."""
    text = {"max_position_embeddings": 16, "eos_token_id": 2, "pad_token_id": 1} | text
    processor = transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=SIZE)
    return _save_dual(folder, "MetaClip2", xlmr_words(model_max_length=12), processor, text, projection_dim=16)


def tiny_align(folder):
    """An `AlignModel` of one block of convolutions; its image processor shifts pixels and crops the middle."""
    vision = {
        "image_size": 32,
        "width_coefficient": 1.0,
        "depth_coefficient": 1.0,
        "kernel_sizes": [3],
        "in_channels": [32],
        "out_channels": [16],
        "strides": [2],
        "num_block_repeats": [1],
        "expand_ratios": [2],
        "hidden_dim": 64,
    }
    processor = transformers.EfficientNetImageProcessor(
        size={"height": 38, "width": 38},
        crop_size=SIZE,
        do_center_crop=True,
        rescale_factor=1 / 127.5,
        rescale_offset=True,
        include_top=False,
    )
    return _save_dual(
        folder, "Align", bert_words(), processor, {"max_position_embeddings": 14}, vision, projection_dim=16
    )


def tiny_altclip(folder):
    """An `AltCLIPModel`, whose text tower counts positions as RoBERTa does: 16 of them read 14 tokens."""
    text = {"max_position_embeddings": 16, "pad_token_id": 1, "project_dim": 24}
    processor = transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=SIZE)
    return _save_dual(folder, "AltCLIP", xlmr_words(model_max_length=512), processor, text, projection_dim=16)


def tiny_chinese_clip(folder):
    """A `ChineseCLIPModel`; its tokenizer says that it pads on the left, which must not matter."""
    tokenizer = bert_words()
    tokenizer.padding_side = tokenizer.init_kwargs["padding_side"] = "left"
    processor = transformers.ChineseCLIPImageProcessor(size=SIZE, do_center_crop=False)
    return _save_dual(folder, "ChineseCLIP", tokenizer, processor, {"max_position_embeddings": 14}, projection_dim=16)


def tiny_siglip(folder, tokenizer=None):
    """A `SiglipModel` of 20 positions, with the tokenizer of SigLIP 2's fixed-resolution checkpoints."""
    processor = transformers.SiglipImageProcessor(size=SIZE)
    return _save_dual(folder, "Siglip", tokenizer or gemma_words("GemmaTokenizer"), processor, SIGLIP_TEXT)


def tiny_siglip2(folder):
    """A `Siglip2Model` (NaFlex): images keep their shape, in at most 16 patches of 8 pixels."""
    processor = transformers.Siglip2ImageProcessor(patch_size=8, max_num_patches=16)
    vision = TOWER | {"num_patches": 16, "patch_size": 8}
    return _save_dual(folder, "Siglip2", gemma_words(), processor, SIGLIP_TEXT, vision)


def tiny_tipsv2(folder):
    """A `Tipsv2Model`, whose tokenizer knows letters and adds no end token."""
    from vl_assay.model_wrappers.tipsv2 import Tipsv2ImageProcessorPil

    tokens = ["<pad>", "<unk>", "▁", *(chr(code) for code in range(97, 123))]
    tokenizer = transformers.Tipsv2Tokenizer(
        vocab={token: number for number, token in enumerate(tokens)}, merges=[], model_max_length=20
    )
    heads = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2}
    config = transformers.Tipsv2Config(
        text_config=TOWER | {"vocab_size": len(tokenizer), "max_position_embeddings": 24},
        vision_config=heads | {"image_size": 32, "patch_size": 8},
    )
    return save_tiny(folder, transformers.Tipsv2Model(config), tokenizer, Tipsv2ImageProcessorPil(size=SIZE))


def tiny_flava(folder, kind="FlavaForPreTraining"):
    """A `FlavaForPreTraining` or a bare `FlavaModel`."""
    tokenizer = bert_words()
    config = transformers.FlavaConfig(
        text_config=TOWER | {"vocab_size": len(tokenizer), "max_position_embeddings": 24},
        image_config=TOWER | {"image_size": 32, "patch_size": 8, "vocab_size": 10},
        multimodal_config=TOWER,
        image_codebook_config={"num_groups": 1, "hidden_size": 8, "vocab_size": 10},
        hidden_size=32,
        projection_dim=16,
    )
    processor = transformers.FlavaImageProcessor(size=SIZE, crop_size=SIZE)
    return save_tiny(folder, getattr(transformers, kind)(config), tokenizer, processor)
