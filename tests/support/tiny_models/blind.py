"""Tiny checkpoints that see captions only."""

from __future__ import annotations

from .parts import bert_words, bpe_words, ordinary_weights, save_parts


def tiny_gpt2(folder):
    """GPT-2 of two layers, whose tokenizer puts no start token before a text."""
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = bpe_words(bos_token="<|endoftext|>", eos_token="<|endoftext|>", model_max_length=1024)
    end = tokenizer.eos_token_id
    sizes = {"n_positions": 48, "n_embd": 32, "n_layer": 2, "n_head": 2}
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


def tiny_cola(folder, **changes):
    """A classifier of DistilBERT with two classes."""
    import transformers

    tokenizer = bert_words()
    sizes = {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 2}
    config = transformers.DistilBertConfig(vocab_size=len(tokenizer), max_position_embeddings=24, **sizes, **changes)
    return save_parts(folder, ordinary_weights(transformers.DistilBertForSequenceClassification(config)), tokenizer)
