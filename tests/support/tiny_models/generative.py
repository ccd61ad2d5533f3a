"""Tiny checkpoints that answer questions about images."""

from __future__ import annotations

import transformers

from .parts import DECODER, TOWER, bpe_words, ordinary_weights, save_parts

LLAVA_TEMPLATE = (
    "{% for m in messages %}USER: {% for c in m['content'] %}{% if c['type'] == 'image' %}<image>\n{% else %}"
    "{{ c['text'] }}{% endif %}{% endfor %}{% endfor %}{% if add_generation_prompt %} ASSISTANT:{% endif %}"
)
IDEFICS_TEMPLATE = (
    "<|im_start|>{% for m in messages %}User:{% for c in m['content'] %}{% if c['type'] == 'image' %}<image>"
    "{% else %}{{ c['text'] }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
QWEN_TEMPLATE = (
    "{% for m in messages %}<|im_start|>user\n{% for c in m['content'] %}{% if c['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ c['text'] }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tiny_llava(folder, kind="Llava", limit=512, side=32, **sizes):
    """LLaVA of a CLIP tower of patches of 8 pixels and a Llama of two layers, or of other `sizes`.

    LLaVA-NeXT (`kind` LlavaNext) sees an image also in tiles, whose features are cut and padded to its shape.
    """
    tokenizer = bpe_words(["<image>"], bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    decoder = {"model_type": "llama", "vocab_size": len(tokenizer), "max_position_embeddings": limit} | DECODER | sizes
    vision = {"model_type": "clip_vision_model", "image_size": side, "patch_size": 8} | TOWER
    image = tokenizer.convert_tokens_to_ids("<image>")
    sizes = {"size": {"shortest_edge": side}, "crop_size": {"height": side, "width": side}}
    if kind == "Llava":
        options, images = {"image_seq_length": (side // 8) ** 2}, transformers.CLIPImageProcessor(**sizes)
    else:
        options = {"image_grid_pinpoints": [[32, 64], [64, 32], [64, 64]]}
        images = transformers.LlavaNextImageProcessorPil(**sizes, do_pad=True, **options)
    config = getattr(transformers, f"{kind}Config")(
        vision_config=vision, text_config=decoder, image_token_id=image, **options
    )
    processor = getattr(transformers, f"{kind}Processor")(
        images,
        tokenizer,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=LLAVA_TEMPLATE,
    )
    model = getattr(transformers, f"{kind}ForConditionalGeneration")(config)
    return save_parts(folder, ordinary_weights(model), processor)


def tiny_idefics3(folder):
    """Idefics3, whose processor cuts large images into tiles and so takes more tokens for them."""
    tiles = [f"<row_{row + 1}_col_{column + 1}>" for row in range(6) for column in range(6)]
    special = ["<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>", *tiles]
    tokenizer = bpe_words(special, bos_token="<|im_start|>", eos_token="<|endoftext|>", pad_token="<|endoftext|>")
    decoder = {"model_type": "llama", "vocab_size": len(tokenizer), "max_position_embeddings": 2048} | DECODER
    vision = {"image_size": 32, "patch_size": 8} | TOWER
    image = tokenizer.convert_tokens_to_ids("<image>")
    config = transformers.Idefics3Config(
        vision_config=vision, text_config=decoder, image_token_id=image, scale_factor=2
    )
    images = transformers.Idefics3ImageProcessorPil(size={"longest_edge": 64}, max_image_size={"longest_edge": 32})
    processor = transformers.Idefics3Processor(images, tokenizer, image_seq_len=4, chat_template=IDEFICS_TEMPLATE)
    return save_parts(folder, ordinary_weights(transformers.Idefics3ForConditionalGeneration(config)), processor)


def tiny_qwen2_vl(folder, kind="Qwen2VL"):
    """Qwen2-VL or (`kind` Qwen2_5_VL) Qwen2.5-VL, which take as many tokens as an image has patches."""
    special = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>", "<|im_start|>", "<|im_end|>"]
    tokenizer = bpe_words(special, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.chat_template = QWEN_TEMPLATE
    ids = tokenizer.convert_tokens_to_ids
    rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": 1024, "rope_parameters": rope} | DECODER
    text |= {"bos_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    if kind == "Qwen2VL":
        vision = {"embed_dim": 32, "hidden_size": 32, "num_heads": 2, "depth": 2, "patch_size": 4}
    else:
        vision = {"hidden_size": 32, "out_hidden_size": 32, "num_heads": 2, "depth": 2, "patch_size": 4}
        vision |= {"intermediate_size": 64, "window_size": 16, "fullatt_block_indexes": [1]}
    config = getattr(transformers, f"{kind}Config")(
        text_config=text,
        vision_config=vision,
        image_token_id=ids("<|image_pad|>"),
        video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"),
        vision_end_token_id=ids("<|vision_end|>"),
    )
    model = getattr(transformers, f"{kind}ForConditionalGeneration")(config)
    images = transformers.Qwen2VLImageProcessorPil(
        patch_size=4, size={"shortest_edge": 16 * 16, "longest_edge": 40 * 40}
    )
    return save_parts(folder, ordinary_weights(model), tokenizer, images)
