"""A tiny random checkpoint of any image-text-to-text class of `transformers`: its own configuration, made small."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
import transformers
import yaml
from transformers import CONFIG_MAPPING
from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES

from .parts import bpe_words, ordinary_weights, save_parts

PATCH, SIDE, LAYERS, HEADS, WIDTH = 8, 32, 2, 2, 64
DATA = yaml.safe_load(Path(__file__).with_name("shrink.yaml").read_text(encoding="utf-8"))
SPARE = 256  # tokens after the tokenizer's, for discrete images


class Changes(NamedTuple):
    """The changes of `shrink.yaml` to a model type's small configuration, processor and image processor."""

    config: Mapping[str, Any] = MappingProxyType({})
    processor: Mapping[str, Any] = MappingProxyType({})
    images: Mapping[str, Any] = MappingProxyType({})
    processor_class: str | None = None
    image_processor_class: str | None = None
    placeholder: str = ""
    words: Sequence[str] = ()
    unnamed: bool = False  # True if the tokenizer has no attribute for the image's token
    template: bool = True  # False if the processor puts the image into the prompt, without a chat template


def changes_of(model_type):
    """Return the changes of a model type."""
    return Changes(**DATA["types"].get(model_type, {}))


def _size(name, value):
    fitting = (row["size"] for row in DATA["sizes"] if any(re.fullmatch(pattern, name) for pattern in row["names"]))
    return next(fitting, value)


class Unsupported(Exception):
    """Why no tiny checkpoint of a class can be made."""


def shrink(config, words):
    """The configuration as a dict, with small sizes, for a vocabulary of `words` tokens."""
    facts = config if isinstance(config, dict) else config.to_dict()
    kinds = [len(set(value)) for key, value in facts.items() if key.endswith(("layer_types", "block_type")) and value]
    layers = max([LAYERS, *kinds])
    depth = next((facts[key] for key in ("num_hidden_layers", "depth", "layers") if facts.get(key)), None)
    share = (facts.get("rope_parameters") or facts).get("partial_rotary_factor") or 1
    small = {}
    for key, value in facts.items():
        if key == "per_layer_config":
            value = {}
        elif key == "num_hidden_layers":
            value = layers
        elif key == "rope_parameters" and value:
            value = _rope(value, share)
        elif isinstance(value, dict) and key.endswith(("_config", "encoder", "decoder")):
            value = shrink(value, words)
        elif isinstance(value, (list, tuple)) and value:
            value = _list(key, list(value), depth, layers)
        elif isinstance(value, int) and not isinstance(value, bool):
            value = words if re.fullmatch(r"(unpadded_)?vocab_size(_per_layer_input)?", key) else _size(key, value)
        small[key] = value
    return small


def _list(name, values, depth, layers):
    """A list of layers' numbers or kinds, with at least one of each kind, or a pair of sizes."""
    if name in ("image_size", "patch_size") and len(values) == 2:
        return [_size(name, 0)] * 2
    if len(values) == depth:
        kinds = list(dict.fromkeys(values)) if isinstance(values[0], str) else []
        return [0, 1] if name.endswith("attn_idxs") else [*kinds, *values][:layers]
    is_of_layers = name.endswith(("attn_indexes", "visual_indexes", "block_indexes", "target_layers"))
    return [LAYERS - 1] if is_of_layers else values


def _rope(parameters, share):
    """Rotary parameters whose sections for time, height and width fill half of a small head."""
    whole = int(WIDTH // HEADS * share) // 2
    time, height = whole // 4, (whole - whole // 4) // 2
    inner = {
        key: _rope(value, value.get("partial_rotary_factor", share)) if isinstance(value, dict) else value
        for key, value in parameters.items()
    }
    return inner | ({"mrope_section": [time, height, whole - time - height]} if "mrope_section" in inner else {})


def tokenizer_for(processor_class, changes):
    """A tokenizer with all special tokens that the processor's source names."""
    source = inspect.getsource(importlib.import_module(processor_class.__module__))
    special = set(re.findall(r"""["'f](<[^<>\s"']+>|\[[A-Z_]+\]|<\|[^<>"']+\|>)["']""", source))
    special |= {token for name, token in vars(processor_class).items() if name.endswith("_TOKEN")}
    ordinary = ("bos_token", "eos_token", "pad_token", "unk_token", "add_bos_token", "add_eos_token")
    named = set() if changes.unnamed else set(re.findall(r"tokenizer\.(\w+_token)\b", source)) - {*ordinary}
    named |= {word for word in changes.words if word.endswith("_token")}
    special |= {word for word in changes.words if not word.endswith("_token")}
    special -= {"<s>", "</s>", "<pad>", "<unk>", *(["<image>"] if "image_token" in named else [])}
    ends = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    own = {name: "<image>" if name == "image_token" else f"<{name}>" for name in sorted(named)}
    return bpe_words(sorted(special), **ends, extra_special_tokens=own)


def image_processor_for(model_type, changes):
    """The image processor of a model type, for small images."""
    names = IMAGE_PROCESSOR_MAPPING_NAMES.get(model_type) or {"pil": changes.image_processor_class}
    name = names.get("pil") or names.get("torchvision")
    if name is None:
        raise Unsupported("transformers has no image processor for it")
    kind = getattr(transformers, name)
    facts = kind().to_dict()
    small = {}
    for key in ("size", "crop_size"):
        if isinstance(facts.get(key), dict) and key not in changes.images:
            small[key] = {edge: _edge(edge, value) for edge, value in facts[key].items()}
    if "patch_size" in facts:
        small["patch_size"] = PATCH if isinstance(facts["patch_size"], int) else {"height": PATCH, "width": PATCH}
    if "image_grid_pinpoints" in facts:
        small["image_grid_pinpoints"] = [[SIDE, 2 * SIDE], [2 * SIDE, SIDE]]
    made = kind(**small | dict(changes.images))
    vars(made).update(changes.images)
    return made


def _edge(name, value):
    """A small edge in pixels; large numbers are areas."""
    if value is None or value <= 3000:
        return value and (2 * SIDE if name == "longest_edge" else SIDE)
    return {"shortest_edge": 16 * 16, "longest_edge": 64 * 64}[name]


class Absent(dict):
    """In the place of a processor of videos or sounds."""

    def __getattr__(self, name):
        return None


def processor_for(model_type):
    """The processor of a model type without the parts for videos and sounds."""
    changes = changes_of(model_type)
    name = changes.processor_class or PROCESSOR_MAPPING_NAMES.get(model_type)
    if name is None:
        raise Unsupported("transformers has no processor for it")
    whole = getattr(transformers, name)
    check = whole.check_argument_for_proper_class

    def check_given(self, name, value):
        return None if value is None or isinstance(value, Absent) else check(self, name, value)

    partial = type(whole.__name__, (whole,), {"check_argument_for_proper_class": check_given})
    tokenizer = tokenizer_for(whole, changes)
    given = {name: tokenizer if "tokenizer" in name else None for name in whole.get_attributes()}
    if "image_processor" not in given:
        raise Unsupported("its processor takes no images")
    given["image_processor"] = image_processor_for(model_type, changes)
    usual = {"patch_size": PATCH, "num_additional_image_tokens": 1, "vision_feature_select_strategy": "default"}
    options = {key: value for key, value in usual.items() if key in inspect.signature(whole.__init__).parameters}
    options |= changes.processor
    try:
        return partial(**given, **options)
    except AttributeError:
        return partial(**{key: Absent() if value is None else value for key, value in given.items()}, **options)


CHAT = (
    "{%% for m in messages %%}USER: {%% for c in m['content'] %%}{%% if c['type'] == 'image' %%}%s\n{%% else %%}"
    "{{ c['text'] }}{%% endif %%}{%% endfor %%}{%% endfor %%}{%% if add_generation_prompt %%} ASSISTANT:{%% endif %%}"
)


def with_token_ids(facts, processor):
    """The configuration with the tokenizer's ids of all tokens that it names."""
    tokenizer = processor.tokenizer
    ends = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad", "sep", "mask")}
    ends |= {"decoder_start_token_id": ends["bos_token_id"], "forced_eos_token_id": ends["eos_token_id"]}
    image = getattr(processor, "image_token", None)
    for key, value in facts.items():
        if isinstance(value, dict):
            with_token_ids(value, processor)
        elif (
            isinstance(key, str) and re.search(r"token_(id|index)$", key) and (value is None or isinstance(value, int))
        ):
            name = key.replace("_index", "_id")
            found = ends.get(key, getattr(processor, name, getattr(tokenizer, name, None)))
            if not isinstance(found, int) and name == "image_token_id" and isinstance(image, str):
                found = tokenizer.convert_tokens_to_ids(image)
            facts[key] = found if isinstance(found, int) else len(tokenizer) - 1
    return facts


def tiny(folder, model_type):
    """Save a checkpoint of a model type, with its processor; `Unsupported` where there can be none."""
    processor = processor_for(model_type)
    changes = changes_of(model_type)
    placeholder = changes.placeholder or getattr(processor, "image_token", None)
    if changes.template and placeholder:
        processor.chat_template = CHAT % re.sub(r"(<\w+>)\*(\d+)", lambda found: found[1] * int(found[2]), placeholder)
    tokenizer, config = processor.tokenizer, CONFIG_MAPPING[model_type]()
    facts = with_token_ids(shrink(config, len(tokenizer) + SPARE), processor)
    for name, value in changes.config.items():
        _change(facts, name.split("."), value, tokenizer)
    model = transformers.AutoModelForImageTextToText.from_config(type(config).from_dict(facts))
    torch.manual_seed(0)
    for parameter in ordinary_weights(model).parameters():
        if not parameter.any():  # closed gates, and biases
            torch.nn.init.normal_(parameter, std=0.2)
    save_parts(folder, model, processor.image_processor, tokenizer)
    names = processor.get_attributes()
    present = [name for name in names if getattr(processor, name, None)]
    for name in set(names) - set(present):
        vars(processor).pop(name, None)
    type(processor).get_attributes = classmethod(lambda _: present)
    transformers.ProcessorMixin.save_pretrained(processor, folder)
    return processor


def _change(facts, path, value, tokenizer):
    """Set one value of a configuration, which may be written as a token or as the form of images' codes."""
    for name in path[:-1]:
        facts = facts[name]
    if path[-1] == "vocabulary_map":
        value = _codes(tokenizer, value)
    elif isinstance(value, str) and value.startswith("+"):
        value = len(tokenizer) + int(value)
    elif isinstance(value, str) and value.startswith("<"):
        value = tokenizer.convert_tokens_to_ids(value)
    is_partial = isinstance(value, dict) and isinstance(facts.get(path[-1]), dict) and path[-1] != "rope_parameters"
    facts[path[-1]] = {**facts[path[-1]], **value} if is_partial else value


def _codes(words, form):
    """Return the vocabulary with 16 codes of discrete images after its tokens; Chameleon writes digits as A-J."""
    letters = str.maketrans("0123456789", "ABCDEFGHIJ") if form.startswith("IMG") else {}
    codes = {form.format(str(code).translate(letters)): len(words) + code for code in range(16)}
    image = words.convert_tokens_to_ids("<image>")
    return {**words.get_vocab(), "<image>": image, "<|extra_200|>": len(words) + 20, **codes}
