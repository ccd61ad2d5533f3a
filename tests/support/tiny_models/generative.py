"""Tiny checkpoints that answer questions about images."""

from __future__ import annotations

import transformers

from .parts import DECODER, TOWER, bpe_words, ordinary_weights, save_parts

LLAVA_TEMPLATE = (
    "{% for m in messages %}USER: {% for c in m['content'] %}{% if c['type'] == 'image' %}<image>\n{% else %}"
    "{{ c['text'] }}{% endif %}{% endfor %}{% endfor %}{% if add_generation_prompt %} ASSISTANT:{% endif %}"
)


def tiny_llava(folder, limit=512):
    """LLaVA of a CLIP tower of patches of 8 pixels and a Llama of two layers that reads `limit` tokens."""
    tokenizer = bpe_words(["<image>"], bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    decoder = {"model_type": "llama", "vocab_size": len(tokenizer), "max_position_embeddings": limit} | DECODER
    config = transformers.LlavaConfig(
        vision_config={"model_type": "clip_vision_model", "image_size": 32, "patch_size": 8} | TOWER,
        text_config=decoder,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=16,
    )
    processor = transformers.LlavaProcessor(
        transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
        tokenizer,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=LLAVA_TEMPLATE,
    )
    return save_parts(folder, ordinary_weights(transformers.LlavaForConditionalGeneration(config)), processor)


def shrunken(folder, model_type):
    """Save a checkpoint of any image-text-to-text class and return its folder."""
    from .shrink import tiny

    tiny(folder, model_type)
    return folder
