"""Tiny checkpoints whose images and captions are encoded apart."""

from __future__ import annotations

from .parts import TOWER, bert_words, gemma_words, save_tiny, xlmr_words


def tiny_metaclip_2(folder, **text):
    """A `MetaClip2Model`, which reads captions at the end token of its tokenizer, 2."""
    from transformers import CLIPImageProcessor, MetaClip2Config, MetaClip2Model

    tokenizer = xlmr_words(model_max_length=12)
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": 16, "eos_token_id": 2, "pad_token_id": 1} | text
    vision = {"image_size": 32, "patch_size": 8}
    config = MetaClip2Config(text_config=TOWER | text, vision_config=TOWER | vision, projection_dim=16)
    processor = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    return save_tiny(folder, MetaClip2Model(config), tokenizer, processor)


def tiny_align(folder):
    """An `AlignModel` of one block of convolutions; its image processor shifts pixels and crops the middle."""
    from transformers import AlignConfig, AlignModel, EfficientNetImageProcessor

    tokenizer = bert_words()
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
    config = AlignConfig(
        text_config=TOWER | {"vocab_size": len(tokenizer), "max_position_embeddings": 14},
        vision_config=vision,
        projection_dim=16,
    )
    size = {"height": 32, "width": 32}
    processor = EfficientNetImageProcessor(
        size={"height": 38, "width": 38},
        crop_size=size,
        do_center_crop=True,
        rescale_factor=1 / 127.5,
        rescale_offset=True,
        include_top=False,
    )
    return save_tiny(folder, AlignModel(config), tokenizer, processor)


def tiny_altclip(folder):
    """An `AltCLIPModel`, whose text tower counts positions as RoBERTa does: 16 of them read 14 tokens."""
    from transformers import AltCLIPConfig, AltCLIPModel, CLIPImageProcessor

    tokenizer = xlmr_words(model_max_length=512)
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": 16, "pad_token_id": 1, "project_dim": 24}
    vision = {"image_size": 32, "patch_size": 8}
    config = AltCLIPConfig(text_config=TOWER | text, vision_config=TOWER | vision, projection_dim=16)
    processor = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    return save_tiny(folder, AltCLIPModel(config), tokenizer, processor)


def tiny_chinese_clip(folder):
    """A `ChineseCLIPModel`; its tokenizer says that it pads on the left, which must not matter."""
    from transformers import ChineseCLIPConfig, ChineseCLIPImageProcessor, ChineseCLIPModel

    tokenizer = bert_words()
    tokenizer.padding_side = tokenizer.init_kwargs["padding_side"] = "left"
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": 14}
    vision = {"image_size": 32, "patch_size": 8}
    config = ChineseCLIPConfig(text_config=TOWER | text, vision_config=TOWER | vision, projection_dim=16)
    processor = ChineseCLIPImageProcessor(size={"height": 32, "width": 32}, do_center_crop=False)
    return save_tiny(folder, ChineseCLIPModel(config), tokenizer, processor)


def tiny_siglip(folder, tokenizer=None):
    """A `SiglipModel` of 20 positions, with the tokenizer of SigLIP 2's fixed-resolution checkpoints."""
    from transformers import SiglipConfig, SiglipImageProcessor, SiglipModel

    tokenizer = tokenizer or gemma_words("GemmaTokenizer")
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": 20, "projection_size": 32}
    vision = {"image_size": 32, "patch_size": 8}
    model = SiglipModel(SiglipConfig(text_config=TOWER | text, vision_config=TOWER | vision))
    return save_tiny(folder, model, tokenizer, SiglipImageProcessor(size={"height": 32, "width": 32}))


def tiny_siglip2(folder):
    """A `Siglip2Model` (NaFlex): images keep their shape, in at most 16 patches of 8 pixels."""
    from transformers import Siglip2Config, Siglip2ImageProcessor, Siglip2Model

    tokenizer = gemma_words()
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": 20, "projection_size": 32}
    vision = {"num_patches": 16, "patch_size": 8}
    model = Siglip2Model(Siglip2Config(text_config=TOWER | text, vision_config=TOWER | vision))
    return save_tiny(folder, model, tokenizer, Siglip2ImageProcessor(patch_size=8, max_num_patches=16))


def tiny_flava(folder, kind="FlavaForPreTraining"):
    """A `FlavaForPreTraining` or a bare `FlavaModel`."""
    import transformers

    tokenizer = bert_words()
    config = transformers.FlavaConfig(
        text_config=TOWER | {"vocab_size": len(tokenizer), "max_position_embeddings": 24},
        image_config=TOWER | {"image_size": 32, "patch_size": 8, "vocab_size": 10},
        multimodal_config=TOWER,
        image_codebook_config={"num_groups": 1, "hidden_size": 8, "vocab_size": 10},
        hidden_size=32,
        projection_dim=16,
    )
    processor = transformers.FlavaImageProcessor(
        size={"height": 32, "width": 32}, crop_size={"height": 32, "width": 32}
    )
    return save_tiny(folder, getattr(transformers, kind)(config), tokenizer, processor)
