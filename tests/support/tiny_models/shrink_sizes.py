"""What `shrink` must change for single classes, so that a model's parts fit each other."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

PATCH, SIDE, LAYERS, HEADS, WIDTH = 8, 32, 2, 2, 64
_NOTHING: Mapping[str, Any] = MappingProxyType({})

PROCESSORS = {
    "cosmos3_omni": "Qwen3VLProcessor",
    "fast_vlm": "LlavaProcessor",
    "glm_ocr": "Glm46VProcessor",
    "glmga": "Glm46VProcessor",
    "kosmos-2": "Kosmos2Processor",
    "kosmos-2.5": "Kosmos2_5Processor",
    "qwen2_5_omni_thinker": "Qwen2_5OmniProcessor",
    "qwen3_omni_moe_thinker": "Qwen3OmniMoeProcessor",
    "vision-encoder-decoder": "TrOCRProcessor",
}
IMAGE_PROCESSORS = {
    "gemma4": "Gemma4ImageProcessorPil",
    "diffusion_gemma": "Gemma4ImageProcessorPil",
    "fast_vlm": "CLIPImageProcessorPil",
    "glm4v_moe": "Glm4vImageProcessorPil",
    "glm_ocr": "Glm46VImageProcessorPil",
    "instructblipvideo": "BlipImageProcessorPil",
    "qwen2_5_omni_thinker": "Qwen2VLImageProcessorPil",
    "qwen3_omni_moe_thinker": "Qwen2VLImageProcessorPil",
    "qwen3_vl_moe": "Qwen2VLImageProcessorPil",
    "vision-encoder-decoder": "ViTImageProcessorPil",
}
# These processors put the image into the prompt by themselves, and their checkpoints have no chat template.
WITHOUT_TEMPLATE = (
    "blip",
    "blip-2",
    "git",
    "instructblip",
    "florence2",
    "paligemma",
    "kosmos-2",
    "kosmos-2.5",
    "fuyu",
)
_MROPE = {"text_config.rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 6, 6]}}
_SAM = {"downsample_channels": [64, 64], "global_attn_indexes": [1], "window_size": 2, "mlp_dim": 128}
_OCR = {"image_size": 128, "patch_size": 2, "global_attn_indexes": [], "window_size": 2, "mlp_dim": 128}
_MOE = {"text_config.num_experts_per_tok": 2, "text_config.n_group": 1, "text_config.topk_group": 1}
_VQ = {
    "base_channels": 32,
    "channel_multiplier": [1, 1, 1],
    "latent_channels": 32,
    "num_res_blocks": 1,
    "resolution": SIDE,
    "embed_dim": 32,
}


class Changes(NamedTuple):
    """What to change in the small configuration (by dotted names), the processor and the image processor."""

    config: Mapping[str, Any] = _NOTHING
    processor: Mapping[str, Any] = _NOTHING
    images: Mapping[str, Any] = _NOTHING
    placeholder: str = ""
    words: tuple[str, ...] = ()
    unnamed: bool = False  # whether the tokenizer has no attribute for the image's token


def _codes(words, form, letters):
    """The vocabulary with 16 codes of discrete images after the tokenizer's own tokens."""
    codes = {form.format(str(code).translate(letters)): len(words) + code for code in range(16)}
    image = words.convert_tokens_to_ids("<image>")
    return {**words.get_vocab(), "<image>": image, "<|extra_200|>": len(words) + 20, **codes}


CHANGES = {
    "apertus1p5": Changes(
        {
            "audio_config": {"codebook_dim": WIDTH, "codebook_size": 64},
            "vision_config": {**_VQ, "codebook_size": 64, "spatial_scale_factor": 4},
            "image_token_offset": len,
            "audio_token_offset": lambda words: len(words) + 64,
        },
        images={"size": {"min_pixels": 1024, "max_pixels": 4096}, "spatial_factor": 4},
    ),
    "aria": Changes(
        {
            "vision_config": {"image_size": 980, "patch_size": 140},
            "projector_patch_to_query_dict": {49: 16},
            "max_value_projector_patch_to_query_dict": 16,
        },
        {"size_conversion": {490: 16, 980: 16}},
    ),
    "aya_vision": Changes({}, {"patch_size": PATCH, "img_size": SIDE, "downsample_factor": 2}),
    "blip-2": Changes({"num_query_tokens": 4}, {"num_query_tokens": 4}, unnamed=True),
    "chameleon": Changes(
        {
            "vq_config": {**_VQ, "num_embeddings": 16},
            "vocabulary_map": lambda words: _codes(words, "IMGIMG{}Z", str.maketrans("0123456789", "ABCDEFGHIJ")),
        },
        {"image_seq_length": 64},
    ),
    "cohere2_vision": Changes({}, {}, {"patch_size": 2}),
    "cohere_compass": Changes(
        {"text_config.rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}}}
    ),
    "deepseek_ocr2": Changes(
        {
            **_MOE,
            "vision_config.sam_config": _SAM | {"patch_size": 2, "image_size": 96},
            "text_config.mlp_layer_types": ["dense", "sparse"],
        },
        {"patch_size": 2},
        {"size": {"height": 96, "width": 96}, "tile_size": 96},
    ),
    "unlimited_ocr": Changes({**_MOE, "vision_config.sam_config": _SAM}),
    "deepseek_vl": Changes({}, {"num_image_tokens": 16}),
    "deepseek_vl_hybrid": Changes(
        {"high_res_vision_config": {"global_attn_indexes": [1], "window_size": 2, "mlp_dim": 128, "image_size": SIDE}},
        {"num_image_tokens": 16},
        {"high_res_size": {"height": SIDE, "width": SIDE}},
    ),
    "diffusion_gemma": Changes(
        {"text_config.num_experts": 4, "text_config.top_k_experts": 2, "text_config.moe_intermediate_size": 32},
        images={"max_soft_tokens": 70},
        words=("audio_token", "boa_token", "eoa_token"),
    ),
    "emu3": Changes(
        {
            "vocabulary_map": lambda words: _codes(words, "<|visual token {:0>6}|>", {}),
            "vq_config": {
                "base_channels": 32,
                "channel_multiplier": [1, 1, 1, 1],
                "num_res_blocks": 1,
                "codebook_size": 16,
                "attn_resolutions": [],
                "hidden_size": 32,
                "num_attention_heads": 1,
            },
        },
        images={"size": {"min_pixels": 256, "max_pixels": 1024}, "min_pixels": 256, "max_pixels": 1024},
    ),
    "ernie4_5_vl_moe": Changes(
        {
            "text_config.rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [6, 6, 4]},
            "text_config.moe_intermediate_size": [64, 32],
        }
    ),
    "florence2": Changes(
        {
            "vision_config": {
                "depths": [1, 1],
                "patch_size": [7, 3],
                "patch_stride": [4, 2],
                "patch_padding": [3, 1],
                "patch_prenorm": [False, True],
                "embed_dim": [32, 64],
                "num_heads": [2, 2],
                "num_groups": [2, 2],
                "window_size": 4,
            }
        },
        {},
        {"image_seq_length": 17},
    ),
    "fuyu": Changes(
        {"image_size": SIDE},
        {},
        {"size": {"height": 64, "width": 64}},
        words=("|SPEAKER|", "|NEWLINE|", "<0x00>", "<0x01>", "<0x04>", "<s>"),
    ),
    "gemma3": Changes(
        {"mm_tokens_per_image": 4, "image_token_index": "<image>"}, {"image_seq_length": 4}, placeholder="<boi_token>"
    ),
    "shieldgemma2": Changes({"mm_tokens_per_image": 4}, {"image_seq_length": 4}, placeholder="<boi_token>"),
    "t5gemma2": Changes(
        {"encoder.mm_tokens_per_image": 4, "image_token_index": "<image>", "encoder.image_token_index": "<image>"},
        {"image_seq_length": 4},
        placeholder="<boi_token>",
    ),
    "gemma3n": Changes(
        {
            "text_config.num_kv_shared_layers": 0,
            "text_config.activation_sparsity_pattern": [0.0, 0.0],
            "vision_config.hidden_size": 2048,
        }
    ),
    "gemma4": Changes(
        {
            "vision_config": {
                "model_type": "gemma4_vision",
                "hidden_size": WIDTH,
                "intermediate_size": 2 * WIDTH,
                "num_hidden_layers": LAYERS,
                "num_attention_heads": HEADS,
                "num_key_value_heads": HEADS,
                "head_dim": 32,
                "patch_size": PATCH,
            }
        },
        images={"max_soft_tokens": 70},
        words=("audio_token", "boa_token", "eoa_token"),
    ),
    "glm46v": Changes(_MROPE),
    "glm4v": Changes(_MROPE),
    "glm_ocr": Changes(_MROPE),
    "glmga": Changes(_MROPE),
    "glm4v_moe": Changes(
        {
            "text_config.rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 0.5,
                "mrope_section": [2, 3, 3],
            }
        }
    ),
    "glm5_next": Changes(
        {
            "text_config.qk_rope_head_dim": 0,
            "text_config.head_dim": 0,
            "text_config.qk_nope_head_dim": 32,
            "text_config.qk_head_dim": 32,
        }
    ),
    "granite4_vision": Changes(
        {
            "deepstack_layer_map": [[-1, 0]],
            "downsample_rate": "1/2",
            "spatial_target_layers": [1],
            "image_grid_pinpoints": [[SIDE, 2 * SIDE], [2 * SIDE, SIDE]],
        },
        {"downsample_rate": "1/2"},
    ),
    "granite_docling": Changes({"vision_config.image_size": 32, "vision_config.scale_factor": 2}, {"image_seq_len": 4}),
    "hunyuan_vl": Changes(
        {
            "text_config": {
                "head_dim": 32,
                "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 4, 4, 4]},
            }
        },
        placeholder="<image_start_token><image><image_end_token>",
    ),
    "idefics3": Changes(
        {"vision_config.image_size": SIDE},
        {"image_seq_len": 4},
        {"max_image_size": {"longest_edge": SIDE}, "size": {"longest_edge": 2 * SIDE}},
    ),
    "smolvlm": Changes(
        {"vision_config.image_size": SIDE},
        {"image_seq_len": 4},
        {"max_image_size": {"longest_edge": SIDE}, "size": {"longest_edge": 2 * SIDE}},
    ),
    "internvl": Changes({}, {"image_seq_length": 4}),
    "qianfan_ocr": Changes({}, {"image_seq_length": 4}, placeholder="<image>", words=("<image>",)),
    "janus": Changes(
        {"vision_config.num_image_tokens": 16, "vq_config": {**_VQ, "num_embeddings": 16, "num_patches": 8}},
        {"num_image_tokens": 16},
    ),
    "kosmos-2.5": Changes(
        {"vision_config.patch_embed_hidden_size": 192, "latent_query_num": 8}, {"num_image_tokens": 8}
    ),
    "lfm2_vl": Changes(
        {"vision_config.num_patches": 16},
        {},
        {
            "encoder_patch_size": PATCH,
            "tile_size": SIDE,
            "min_image_tokens": 4,
            "max_image_tokens": 8,
            "max_num_patches": 64,
            "do_image_splitting": False,
        },
    ),
    "llama4": Changes(
        {
            "vision_config.projector_input_dim": 64,
            "vision_config.intermediate_size": 256,
            "image_token_index": "<|patch|>",
        },
        {"patch_size": PATCH},
        {"size": {"height": SIDE, "width": SIDE}},
    ),
    "llava_next": Changes({"image_grid_pinpoints": [[SIDE, 2 * SIDE], [2 * SIDE, SIDE]]}),
    "llava_next_video": Changes({"image_grid_pinpoints": [[SIDE, 2 * SIDE], [2 * SIDE, SIDE]]}),
    "llava_onevision": Changes(
        {"image_grid_pinpoints": [[SIDE, 2 * SIDE], [2 * SIDE, SIDE]]},
        {"num_image_tokens": 16, "vision_feature_select_strategy": "full"},
    ),
    "mistral3": Changes({}, {"spatial_merge_size": 2}),
    "mistral_large4": Changes({}, {"spatial_merge_size": 2}),
    "mllama": Changes(
        {
            "vision_config.intermediate_layers_indices": [0],
            "vision_config.num_global_layers": 1,
            "vision_config.vision_output_dim": 128,
            "text_config.num_hidden_layers": 3,
            "text_config.cross_attention_layers": [1],
        }
    ),
    "molmo2": Changes(
        {
            "adapter_config.vision_feature_layer": [1, 0],
            "vision_config.num_position_embeddings": 16,
            "image_patch_id": "<im_patch>",
        },
        {},
        {"overlap_margins": [1, 1]},
    ),
    "ovis2": Changes({"image_token_id": "<IMG_ATOM>"}, {"image_seq_length": 16}),
    "paligemma": Changes({}, {}, {"image_seq_length": 16}),
    "perception_lm": Changes(
        {
            "vision_config": {
                "architecture": "vit_pe_core_large_patch14_336",
                "model_args": {
                    "embed_dim": WIDTH,
                    "img_size": [28, 28],
                    "depth": 2,
                    "global_pool": "",
                    "use_post_transformer_norm": False,
                    "init_values": 0.1,
                    "ref_feat_shape": [2, 2],
                },
            }
        },
        {"patch_size": 14, "pooling_ratio": 1},
        {"tile_size": 28, "size": {"height": 28, "width": 28}},
    ),
    "paddleocr_vl": Changes(_MROPE),
    "qwen2_vl": Changes(_MROPE),
    "qwen2_5_vl": Changes(_MROPE),
    "qwen2_5_omni_thinker": Changes({**_MROPE, "vision_start_token_id": 0}),
    "qwen3_omni_moe_thinker": Changes({"vision_start_token_id": 0}),
    "cosmos3_edge": Changes({}),
    "dots3_note": Changes({"audio_config.adapter_input_size": WIDTH}),
    "fast_vlm": Changes(
        {"vision_config.hidden_size": 3072},
        images={"crop_size": {"height": 64, "width": 64}},
        processor={"patch_size": 64, "num_additional_image_tokens": 0, "vision_feature_select_strategy": "full"},
    ),
    "gemma4_unified": Changes(
        {
            "vision_config": {
                "model_type": "gemma4_unified_vision",
                "patch_size": PATCH,
                "mm_embed_dim": WIDTH,
                "output_proj_dims": WIDTH,
            }
        },
        images={"max_soft_tokens": 70},
        words=("audio_token", "boa_token", "eoa_token"),
    ),
    "got_ocr2": Changes(
        {"vision_config": _OCR},
        {},
        {"size": {"height": 128, "width": 128}},
    ),
    "pp_chart2table": Changes(
        {
            "vision_config": _OCR,
            "image_token_index": "<imgpad>",
        },
        {},
        {"size": {"height": 128, "width": 128}},
        "<img>" + 256 * "<imgpad>" + "</img>",
        words=("<img>", "<imgpad>", "</img>"),
    ),
    "hy_v4_vl": Changes(
        {"text_config.rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}}
    ),
    "idefics": Changes(
        {"alpha_initializer": "ones"}, placeholder="<fake_token_around_image><image><fake_token_around_image>"
    ),
    "inkling2": Changes({}, {}, {"size": {"height": 16, "width": 16}}),
    "inkling2_loop": Changes({}, {}, {"size": {"height": 16, "width": 16}}),
    "inkling_mm_model": Changes({"vision_config.patch_size": 32}),
    "kimi_k25": Changes({"text_config.head_dim": 16}),
    "muse_glimmer": Changes({"out_hidden_size": 4 * WIDTH}),
    "muse_spark": Changes({"out_hidden_size": 4 * WIDTH}),
    "qwen4_exp": Changes(
        {
            "text_config": {
                "indexer_n_heads": 2,
                "indexer_kv_heads": 1,
                "indexer_head_dim": 32,
                "indexer_budget": 32,
                "indexer_compress_ratio": 4,
                "ngram_vocab_size_base": 64,
                "ple_embed_dim": WIDTH,
            }
        }
    ),
    "step3p7": Changes(
        {"text_config.sliding_window": 16},
        {},
        {"vision_patch_size": PATCH, "patch_size": SIDE},
        words=("<patch_start>", "<patch_end>", "<im_start>", "<im_end>", "<patch_newline>"),
    ),
    "vipllava": Changes({"vision_feature_layer": [-1, 0]}),
}
