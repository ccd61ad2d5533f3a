"""Tokenizers of few words, sizes, and saving, for tiny checkpoints."""

from __future__ import annotations

TOWER = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2}
DECODER = {**TOWER, "num_key_value_heads": 2}


def bert_words():
    """A BERT tokenizer of few words, with an end token and padding, as fused models have."""
    from transformers import BertTokenizer

    words = "a red blue big small cat dog box man left right of the two near"
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words.split()]
    return BertTokenizer(vocab={token: number for number, token in enumerate(tokens)}, model_max_length=512)


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


def roberta_letters():
    """A RoBERTa tokenizer that spells words."""
    from transformers import RobertaTokenizer

    letters = [chr(c) for c in range(97, 123)]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "Ġ", *letters, *("Ġ" + letter for letter in letters), "<mask>"]
    merges = [("Ġ", letter) for letter in letters]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return RobertaTokenizer(vocab=vocabulary, merges=merges, model_max_length=512)


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


def ordinary_weights(model):
    """Weights of ordinary size: with the default ones all inputs would look alike to so small a model."""
    import torch

    torch.manual_seed(0)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    return model


def save_tiny(folder, model, tokenizer, image_processor, std=0.2):
    """Save a checkpoint whose every parameter is drawn, those of normalisations and biases around what they were."""
    import torch

    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape) * std
            parameter.copy_(noise if parameter.ndim > 1 else parameter + noise)
    return save_parts(folder, model, tokenizer, image_processor)


def drawn(shapes, std):
    """Tensors of these shapes by name: weights of ordinary size, and scales around 1."""
    import torch

    generator = torch.Generator().manual_seed(0)
    tensors = {name: torch.randn(shape, generator=generator) * std for name, shape in shapes.items()}
    for name, tensor in tensors.items():
        if tensor.ndim == 1 and name.endswith(("weight", "running_var")):
            tensor.add_(1).abs_()
    return tensors


def save_parts(folder, *parts):
    """Save a model, its tokenizer and its image processor side by side."""
    for part in parts:
        part.save_pretrained(folder)
    return folder
