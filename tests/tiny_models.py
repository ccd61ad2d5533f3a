"""Builders of tiny random checkpoints, each saved to a folder as a user would have one."""

from __future__ import annotations

_TOWER = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2}
_DECODER = {**_TOWER, "num_key_value_heads": 2}


def bert_words():
    """A BERT tokenizer of few words, with an end token and padding, as fused models have."""
    from transformers import BertTokenizer

    words = [
        "a",
        "red",
        "blue",
        "big",
        "small",
        "cat",
        "dog",
        "box",
        "man",
        "left",
        "right",
        "of",
        "the",
        "two",
        "near",
    ]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    return BertTokenizer(vocab={token: number for number, token in enumerate(tokens)}, model_max_length=512)


def save_tiny(folder, model, tokenizer, image_processor, std=0.2):
    """Save a checkpoint whose every parameter is drawn, those of normalisations and biases around what they were."""
    import torch

    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape) * std
            parameter.copy_(noise if parameter.ndim > 1 else parameter + noise)
    return save_parts(folder, model, tokenizer, image_processor)


def tiny_blip(folder, **changes):
    """A `BlipForImageTextRetrieval`; [DEC] and [ENC] follow the tokenizer's words, which are all that it knows."""
    from transformers import BlipConfig, BlipForImageTextRetrieval, BlipImageProcessor

    tokenizer = bert_words()
    text = {
        "vocab_size": len(tokenizer) + 2,
        "bos_token_id": len(tokenizer),
        "sep_token_id": 3,
        "eos_token_id": 3,
        "pad_token_id": 0,
        "encoder_hidden_size": 32,
        "max_position_embeddings": 40,
        "is_decoder": True,
    }
    vision = _TOWER | {"image_size": 32, "patch_size": 8}
    config = BlipConfig(text_config=_TOWER | text | changes, vision_config=vision, image_text_hidden_size=16)
    processor = BlipImageProcessor(size={"height": 32, "width": 32})
    return save_tiny(folder, BlipForImageTextRetrieval(config), tokenizer, processor)


def tiny_blip2(folder, **changes):
    """A `Blip2ForImageTextRetrieval` of four query tokens."""
    from transformers import Blip2Config, Blip2ForImageTextRetrieval, BlipImageProcessor

    tokenizer = bert_words()
    qformer = {"vocab_size": len(tokenizer) + 1, "max_position_embeddings": 24, "use_qformer_text_input": True}
    config = Blip2Config(
        vision_config=_TOWER | {"image_size": 32, "patch_size": 8},
        qformer_config=_TOWER | qformer,
        text_config={"model_type": "opt", "vocab_size": 8, "num_hidden_layers": 1, "hidden_size": 8, "ffn_dim": 8},
        num_query_tokens=4,
        image_text_hidden_size=16,
        **changes,
    )
    processor = BlipImageProcessor(size={"height": 32, "width": 32})
    return save_tiny(folder, Blip2ForImageTextRetrieval(config), tokenizer, processor)


def tiny_flava(folder, kind="FlavaForPreTraining"):
    """A `FlavaForPreTraining` or a bare `FlavaModel`."""
    import transformers

    tokenizer = bert_words()
    config = transformers.FlavaConfig(
        text_config=_TOWER | {"vocab_size": len(tokenizer), "max_position_embeddings": 24},
        image_config=_TOWER | {"image_size": 32, "patch_size": 8, "vocab_size": 10},
        multimodal_config=_TOWER,
        image_codebook_config={"num_groups": 1, "hidden_size": 8, "vocab_size": 10},
        hidden_size=32,
        projection_dim=16,
    )
    processor = transformers.FlavaImageProcessor(
        size={"height": 32, "width": 32}, crop_size={"height": 32, "width": 32}
    )
    return save_tiny(folder, getattr(transformers, kind)(config), tokenizer, processor)


def tiny_vilt(folder, **changes):
    """A `ViltForImageAndTextRetrieval` that keeps the shape of images, 32 pixels the shorter side."""
    from transformers import ViltConfig, ViltForImageAndTextRetrieval, ViltImageProcessor

    tokenizer = bert_words()
    config = ViltConfig(
        vocab_size=len(tokenizer),
        **_TOWER,
        image_size=32,
        patch_size=8,
        max_position_embeddings=24,
        **changes,
    )
    processor = ViltImageProcessor(size={"shortest_edge": 32}, size_divisor=8)
    return save_tiny(folder, ViltForImageAndTextRetrieval(config), tokenizer, processor)


def tiny_bridgetower(folder, **changes):
    """A `BridgeTowerForImageAndTextRetrieval` of towers of four layers, the last two of which are joined."""
    from transformers import (
        BridgeTowerConfig,
        BridgeTowerForImageAndTextRetrieval,
        BridgeTowerImageProcessor,
        RobertaTokenizer,
    )

    letters = [chr(c) for c in range(97, 123)]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "Ġ", *letters, *("Ġ" + letter for letter in letters), "<mask>"]
    merges = [("Ġ", letter) for letter in letters]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = RobertaTokenizer(vocab=vocabulary, merges=merges, model_max_length=512)
    config = BridgeTowerConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 64,
            "num_hidden_layers": 4,
            "num_attention_heads": 2,
            "intermediate_size": 96,
            "max_position_embeddings": 66,
        },
        vision_config={"hidden_size": 64, "num_hidden_layers": 4, "image_size": 32, "patch_size": 8},
        **changes,
    )
    processor = BridgeTowerImageProcessor(size={"shortest_edge": 32}, crop_size={"shortest_edge": 32}, size_divisor=8)
    return save_tiny(folder, BridgeTowerForImageAndTextRetrieval(config), tokenizer, processor, std=0.1)


def xlmr_words(**options):
    """An XLM-RoBERTa tokenizer of few words."""
    from transformers import XLMRobertaTokenizer

    words = "a red blue big small cat dog box man left right of the two and near star green"
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *("▁" + word for word in words.split()), "<mask>"]
    return XLMRobertaTokenizer(vocab=[(token, -float(number)) for number, token in enumerate(tokens)], **options)


def gemma_words(kind="Siglip2Tokenizer", **options):
    """The tokenizer of SigLIP 2, of its own class or Gemma's, that knows letters, of which some are capitals."""
    import transformers

    letters = [chr(c) for c in range(97, 123)]
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", *letters, *"ABC"]
    options = {"add_bos_token": False, "add_eos_token": True, "model_max_length": 512} | options
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return getattr(transformers, kind)(vocab=vocabulary, merges=[], **options)


def tiny_metaclip_2(folder, **text):
    """A `MetaClip2Model`, which reads captions at the end token of its tokenizer, 2."""
    from transformers import CLIPImageProcessor, MetaClip2Config, MetaClip2Model

    tokenizer = xlmr_words(model_max_length=12)
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": 16, "eos_token_id": 2, "pad_token_id": 1} | text
    vision = {"image_size": 32, "patch_size": 8}
    config = MetaClip2Config(text_config=_TOWER | text, vision_config=_TOWER | vision, projection_dim=16)
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
        text_config=_TOWER | {"vocab_size": len(tokenizer), "max_position_embeddings": 14},
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
    config = AltCLIPConfig(text_config=_TOWER | text, vision_config=_TOWER | vision, projection_dim=16)
    processor = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    return save_tiny(folder, AltCLIPModel(config), tokenizer, processor)


def tiny_chinese_clip(folder):
    """A `ChineseCLIPModel`; its tokenizer says that it pads on the left, which must not matter."""
    from transformers import ChineseCLIPConfig, ChineseCLIPImageProcessor, ChineseCLIPModel

    tokenizer = bert_words()
    tokenizer.padding_side = tokenizer.init_kwargs["padding_side"] = "left"
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": 14}
    vision = {"image_size": 32, "patch_size": 8}
    config = ChineseCLIPConfig(text_config=_TOWER | text, vision_config=_TOWER | vision, projection_dim=16)
    processor = ChineseCLIPImageProcessor(size={"height": 32, "width": 32}, do_center_crop=False)
    return save_tiny(folder, ChineseCLIPModel(config), tokenizer, processor)


def tiny_siglip(folder, tokenizer=None):
    """A `SiglipModel` of 20 positions, with the tokenizer of SigLIP 2's fixed-resolution checkpoints."""
    from transformers import SiglipConfig, SiglipImageProcessor, SiglipModel

    tokenizer = tokenizer or gemma_words("GemmaTokenizer")
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": 20, "projection_size": 32}
    vision = {"image_size": 32, "patch_size": 8}
    model = SiglipModel(SiglipConfig(text_config=_TOWER | text, vision_config=_TOWER | vision))
    return save_tiny(folder, model, tokenizer, SiglipImageProcessor(size={"height": 32, "width": 32}))


def tiny_siglip2(folder):
    """A `Siglip2Model` (NaFlex): images keep their shape, in at most 16 patches of 8 pixels."""
    from transformers import Siglip2Config, Siglip2ImageProcessor, Siglip2Model

    tokenizer = gemma_words()
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": 20, "projection_size": 32}
    vision = {"num_patches": 16, "patch_size": 8}
    model = Siglip2Model(Siglip2Config(text_config=_TOWER | text, vision_config=_TOWER | vision))
    return save_tiny(folder, model, tokenizer, Siglip2ImageProcessor(patch_size=8, max_num_patches=16))


def bpe_words(special=(), **names):
    """A byte-level tokenizer that spells any text and knows a few words, "Yes" and " no" among them."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    plain = Tokenizer(models.BPE())
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    corpus = ["Yes No yes no"] * 9 + ["No Yes no yes", "yes", "no", " No"] * 9 + ["a red cat near two big dogs"] * 5
    trainer = trainers.BpeTrainer(
        vocab_size=360, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    plain.train_from_iterator(corpus, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, **names)
    tokenizer.add_special_tokens({"additional_special_tokens": list(special)})
    return tokenizer


def ordinary_weights(model, seed=0, std=0.2):
    """Weights of ordinary size: with the default ones all inputs would look alike to so small a model."""
    import torch

    torch.manual_seed(seed)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=std)
    return model


def save_parts(folder, *parts):
    """Save a model, its tokenizer and its image processor side by side."""
    for part in parts:
        part.save_pretrained(folder)
    return folder


LLAVA_TEMPLATE = (
    "{% for m in messages %}USER: {% for c in m['content'] %}{% if c['type'] == 'image' %}<image>\n{% else %}"
    "{{ c['text'] }}{% endif %}{% endfor %}{% endfor %}{% if add_generation_prompt %} ASSISTANT:{% endif %}"
)
_LLAVA = {
    "patch_size": 8,
    "vision_feature_select_strategy": "default",
    "num_additional_image_tokens": 1,
    "chat_template": LLAVA_TEMPLATE,
}
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


def tiny_llava(folder, limit=512):
    """LLaVA of a CLIP tower of 16 patches and a Llama of two layers."""
    from transformers import CLIPImageProcessor, LlavaConfig, LlavaForConditionalGeneration, LlavaProcessor

    tokenizer = bpe_words(["<image>"], bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    decoder = {"model_type": "llama", "vocab_size": len(tokenizer), "max_position_embeddings": limit} | _DECODER
    vision = {"model_type": "clip_vision_model", "image_size": 32, "patch_size": 8} | _TOWER
    image = tokenizer.convert_tokens_to_ids("<image>")
    config = LlavaConfig(vision_config=vision, text_config=decoder, image_token_id=image, image_seq_length=16)
    images = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    processor = LlavaProcessor(images, tokenizer, **_LLAVA)
    return save_parts(folder, ordinary_weights(LlavaForConditionalGeneration(config)), processor)


def tiny_llava_next(folder):
    """LLaVA-NeXT, which sees an image as a whole and in tiles, whose features are cut and padded to its shape."""
    from transformers import (
        LlavaNextConfig,
        LlavaNextForConditionalGeneration,
        LlavaNextImageProcessorPil,
        LlavaNextProcessor,
    )

    tokenizer = bpe_words(["<image>"], bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    decoder = {"model_type": "llama", "vocab_size": len(tokenizer), "max_position_embeddings": 512} | _DECODER
    vision = {"model_type": "clip_vision_model", "image_size": 32, "patch_size": 8} | _TOWER
    image = tokenizer.convert_tokens_to_ids("<image>")
    grid = {"image_grid_pinpoints": [[32, 64], [64, 32], [64, 64]]}
    config = LlavaNextConfig(vision_config=vision, text_config=decoder, image_token_id=image, **grid)
    images = LlavaNextImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}, do_pad=True, **grid
    )
    processor = LlavaNextProcessor(images, tokenizer, **_LLAVA)
    return save_parts(folder, ordinary_weights(LlavaNextForConditionalGeneration(config)), processor)


def tiny_idefics3(folder):
    """Idefics3, whose processor cuts large images into tiles and so takes more tokens for them."""
    from transformers import (
        Idefics3Config,
        Idefics3ForConditionalGeneration,
        Idefics3ImageProcessorPil,
        Idefics3Processor,
    )

    tiles = [f"<row_{row + 1}_col_{column + 1}>" for row in range(6) for column in range(6)]
    special = ["<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>", *tiles]
    tokenizer = bpe_words(special, bos_token="<|im_start|>", eos_token="<|endoftext|>", pad_token="<|endoftext|>")
    decoder = {"model_type": "llama", "vocab_size": len(tokenizer), "max_position_embeddings": 2048} | _DECODER
    vision = {"image_size": 32, "patch_size": 8} | _TOWER
    image = tokenizer.convert_tokens_to_ids("<image>")
    config = Idefics3Config(vision_config=vision, text_config=decoder, image_token_id=image, scale_factor=2)
    images = Idefics3ImageProcessorPil(size={"longest_edge": 64}, max_image_size={"longest_edge": 32})
    processor = Idefics3Processor(images, tokenizer, image_seq_len=4, chat_template=IDEFICS_TEMPLATE)
    return save_parts(folder, ordinary_weights(Idefics3ForConditionalGeneration(config)), processor)


def tiny_qwen2_vl(folder, kind="Qwen2VL"):
    """Qwen2-VL or (`kind` Qwen2_5_VL) Qwen2.5-VL, which take as many tokens as an image has patches."""
    import transformers

    special = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>", "<|im_start|>", "<|im_end|>"]
    tokenizer = bpe_words(special, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.chat_template = QWEN_TEMPLATE
    ids = tokenizer.convert_tokens_to_ids
    rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": 1024, "rope_parameters": rope} | _DECODER
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


def tiny_gpt2(folder, limit=48):
    """GPT-2 of two layers, whose tokenizer puts no start token before a text."""
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = bpe_words(bos_token="<|endoftext|>", eos_token="<|endoftext|>", model_max_length=1024)
    end = tokenizer.eos_token_id
    sizes = {"n_positions": limit, "n_embd": 32, "n_layer": 2, "n_head": 2}
    config = GPT2Config(vocab_size=len(tokenizer), bos_token_id=end, eos_token_id=end, **sizes)
    return save_parts(folder, ordinary_weights(GPT2LMHeadModel(config)), tokenizer)


def tiny_vera(folder, kind="T5EncoderModel", temperature=2.5):
    """A T5 encoder with a head in the rows of its last three sentinels, as Vera has it; or another T5 as `kind`."""
    import torch
    import transformers

    words = ["a", "red", "blue", "cat", "dog", "near", "the", "two", "one", "big", "and", "."]
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -9.0), *((f"▁{word}", -2.0) for word in words)]
    tokenizer = transformers.T5Tokenizer(vocab=pieces, model_max_length=512, extra_ids=0)
    config = transformers.T5Config(
        vocab_size=32128, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, feed_forward_proj="gated-gelu"
    )
    model = ordinary_weights(getattr(transformers, kind)(config))
    with torch.no_grad():
        model.shared.weight[32097, 0] = temperature
        model.shared.weight[32098, 0] = 0.3
    return save_parts(folder, model, tokenizer)


def tiny_cola(folder, kind="DistilBertForSequenceClassification", **changes):
    """A classifier of DistilBERT with two classes."""
    import transformers

    tokenizer = bert_words()
    sizes = {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 2}
    config = transformers.DistilBertConfig(vocab_size=len(tokenizer), max_position_embeddings=24, **sizes, **changes)
    return save_parts(folder, ordinary_weights(getattr(transformers, kind)(config)), tokenizer)


def tiny_owlvit(folder, kind="owlvit"):
    """An OWL-ViT (or, with ``"owlv2"``, OWLv2) of 36 patches: pictures of 48 pixels, phrases of up to 12 tokens."""
    import transformers

    from vl_assay.model_wrappers.demo_clip.train import build_tokenizer

    prefix = {"owlvit": "OwlViT", "owlv2": "Owlv2"}[kind]
    tokenizer = build_tokenizer()
    text = {
        "vocab_size": len(tokenizer),
        "max_position_embeddings": 12,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    vision = {"image_size": 48, "patch_size": 8}
    config = getattr(transformers, f"{prefix}Config")(
        text_config=_TOWER | text, vision_config=_TOWER | vision, projection_dim=32
    )
    model = getattr(transformers, f"{prefix}ForObjectDetection")(config)
    processor = getattr(transformers, f"{prefix}ImageProcessorPil")(size={"height": 48, "width": 48})
    return save_tiny(folder, model, tokenizer, processor)


def tiny_grounding_dino(folder, kind="grounding-dino", **changes):
    """A Grounding DINO (or, with ``"mm-grounding-dino"``, an MM Grounding DINO) that draws 20 boxes.

    Its tokens that end a sentence have the ids of BERT's vocabulary, which the model knows by number.
    """
    from transformers import (
        BertConfig,
        BertTokenizer,
        GroundingDinoConfig,
        GroundingDinoForObjectDetection,
        GroundingDinoImageProcessorPil,
        MMGroundingDinoConfig,
        MMGroundingDinoForObjectDetection,
        SwinConfig,
    )

    places = {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, "[MASK]": 103, ".": 1012, "?": 1029}
    words = ["a", "red", "blue", "big", "small", "cat", "dog", "box", "left", "of", "the", "##s", "on", "man", "two"]
    places |= {word: 1100 + number for number, word in enumerate(words)}
    names = {number: word for word, number in places.items()}
    vocabulary = {names.get(number, f"[unused{number}]"): number for number in range(1100 + len(words))}
    tokenizer = BertTokenizer(vocab=vocabulary, model_max_length=512)
    text = BertConfig(vocab_size=len(vocabulary), max_position_embeddings=64, **_TOWER)
    backbone = SwinConfig(
        image_size=64,
        patch_size=4,
        embed_dim=16,
        depths=[1, 1, 1, 1],
        num_heads=[1, 2, 2, 2],
        window_size=4,
        out_features=["stage2", "stage3", "stage4"],
    )
    small = {
        "d_model": 64,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "num_queries": 20,
        "max_text_len": 24,
        "text_config": text,
        "backbone_config": backbone,
    }
    classes = {
        "grounding-dino": (GroundingDinoConfig, GroundingDinoForObjectDetection),
        "mm-grounding-dino": (MMGroundingDinoConfig, MMGroundingDinoForObjectDetection),
    }
    make_config, make_model = classes[kind]
    model = make_model(make_config(**small | changes))
    processor = GroundingDinoImageProcessorPil(size={"shortest_edge": 96, "longest_edge": 128})
    return save_tiny(folder, model, tokenizer, processor, std=0.06)
