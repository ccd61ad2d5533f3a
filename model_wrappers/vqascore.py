"""VQAScore: generative vision-language models of `transformers`, asked whether the image shows the caption.

Any checkpoint of ``AutoModelForImageTextToText``, from the Hub or a local folder. `MODEL_TYPES` are the types whose
tiny random checkpoints give the logits of a bare forward pass (``docs/generative.md``); for another type write
``vqascore:`` before the name. Each model is tried when it is loaded, see `loading.generative`, and refused with the
reason if its logits differ. The prompt follows the checkpoint's chat template; without a template it is only the text,
for models whose processors place the image themselves. The setting ``score`` is

- ``yes``: the log-odds of "Yes" as the first word of the answer to the ``template``, log p / (1 - p), where p is its
  probability among all tokens. The paper's score is p itself, which would round to 1, a tie, for all confident pairs;
  its log-odds give the same ranking.
- ``caption``: the mean log-probability (nats) of the caption's tokens as an answer to the ``template``, an
  instruction, given the image: P(caption | image), the paper's VisualGPTScore, length-normalised. A caption without
  tokens scores NaN.
- ``choice``: the captions of an example, lettered in one question, once in each rotation (two captions: both orders).
  A caption's score is the mean over the orders of its letter's log-probability (nats) among the letters, so that a
  preference for a letter cancels. For matching tasks with two captions or more.

The setting ``template`` is the text of the user's turn, where ``{}`` stands for the caption or the captions.

P("Yes") is the sum of the probabilities of "Yes", "yes", " Yes" and " yes", as far as each is one token (the paper has
only "Yes"); if no form is one token, the first tokens of " Yes" and of "Yes" are used. The same holds for "No".
Questions of benchmarks are answered with log P(yes) - log P(no).

A batch has pairs of an image and a caption. If the model can continue from the keys and values of the prefix that all
prompts of an image share, which includes the image tokens, the prefix goes through the model once per image. Video and
audio processors are not loaded. The settings ``placement`` and ``quantise`` are for models larger than a GPU: see
`loading.placement`.

Source: VQAScore (Lin et al., ECCV 2024), section 3 and github.com/linzhiqiu/t2v_metrics; VisualGPTScore (Lin et al.,
2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForImageTextToText
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

from ..metrics.common.errors import ModelError
from .engine.protocol import LoadOptions, choose
from .loading.checkpoints import CheckpointFiles, image_preprocessing
from .loading.generative import ImageInputs, choose_forward, decoder_start
from .loading.generative_model import GenerativeModel
from .loading.image_prompts import ImagePrompts, load_processor
from .loading.placement import PLACEMENT, placement_arguments
from .loading.prompts import QUESTION, TEMPLATES, ChatPrompt, common_start, spellings
from .loading.torch_models import log_likelihoods

MODEL_TYPES = (
    "apertus1p5", "aria", "aya_vision", "chameleon", "cohere2_vision", "cohere_compass", "cosmos3_edge", "cosmos3_omni",
    "deepseek_ocr2", "deepseek_vl", "deepseek_vl_hybrid", "emu3", "ernie4_5_vl_moe", "exaone4_5", "fast_vlm",
    "florence2", "gemma3", "gemma3n", "gemma4", "gemma4_unified", "git", "glm46v", "glm4v", "glm4v_moe", "glm5_next",
    "glm_ocr", "glmga", "got_ocr2", "granite4_vision", "granite_docling", "hunyuan_vl", "hy_v4_vl",
    "hyperclovax_vision_v2", "idefics2", "idefics3", "inkling2", "inkling2_loop", "inkling_mm_model", "internvl",
    "janus", "kimi_k25", "kosmos-2", "kosmos-2.5", "lfm2_vl", "lfm3_vl", "lighton_ocr", "llava", "llava_next",
    "llava_next_video", "llava_onevision", "minicpm_ocr", "minicpmv4_6", "minicpmv4_7", "minimax_m3_vl", "mistral3",
    "mistral_large4", "mllama", "molmo2", "muse_glimmer", "muse_spark", "nemotron_h_omni", "ovis2", "paddleocr_vl",
    "paligemma", "perception_lm", "pp_chart2table", "qianfan_ocr", "qwen2_5_omni_thinker", "qwen2_5_vl", "qwen2_vl",
    "qwen3_5", "qwen3_5_moe", "qwen3_omni_moe_thinker", "qwen3_vl", "qwen3_vl_moe", "qwen4_exp", "smolvlm", "step3p7",
    "t5gemma2", "unlimited_ocr", "video_llama_3", "video_llava", "vipllava",
)  # fmt: skip
OTHERS = "any image-text-to-text model of transformers"
CHECKPOINTS = ("llava-hf/llava-1.5-7b-hf", "HuggingFaceTB/SmolVLM-Instruct", "Qwen/Qwen2.5-VL-3B-Instruct")
SETTINGS = {"score": tuple(TEMPLATES), "template": ("", "…"), **PLACEMENT}

_TILING = ("do_image_splitting", "max_image_size", "merge_size")


class VqaScore(GenerativeModel):
    """A generative model as a cross-encoder."""

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each caption's prompt, without the image's tokens."""
        return [self._prompts.checked(self._tokens(caption), caption) for caption in captions]

    def _tokens(self, caption: str) -> list[int]:
        if self.info.settings["score"] != "caption":
            return self._caption.tokens(caption)
        if self._forward.has_decoder or self._prompts.closing:
            return [*self._caption.tokens(""), *self._caption.answer(caption)]
        return self._caption.tokens("", caption)

    def match(
        self,
        features: Sequence[ImageInputs],
        images: Sequence[int],
        captions: Sequence[Sequence[int]],
        *,
        exact: bool = False,
    ) -> np.ndarray:
        """Return scores (n,), float64: log-odds of "Yes", or a caption's mean log-probability; higher is better."""
        if not captions:
            return np.empty(0)
        image_features = [features[i] for i in images]
        if self.info.settings["score"] == "caption":
            return self._likelihoods(image_features, captions, exact)
        logits = self.first_logits(image_features, captions, self._caption.tail, exact)
        masked = logits.clone()
        masked[:, self._yes] = -torch.inf
        return (logits[:, self._yes].logsumexp(-1) - masked.logsumexp(-1)).numpy(force=True)

    def _likelihoods(self, features: Sequence[ImageInputs], texts: Sequence[Sequence[int]], exact: bool) -> np.ndarray:
        """Return the captions' mean token log-probability (n,), float64; NaN for a caption without tokens."""
        prompt = self._caption.tokens("")
        rows = []
        for image_features, ids in zip(features, texts, strict=True):
            # A token merged from the end of the prompt and the start of the caption counts to the caption.
            start = common_start(ids, prompt)
            rows.append(self.row(image_features, ids[:start], ids[start : self.max_tokens]))
        logits = zip(self.logits(rows, exact), rows, strict=True)
        return torch.stack([log_likelihoods(row_logits[:-1], row.answer).mean() for row_logits, row in logits]).numpy(
            force=True
        )


class ChoiceScore(GenerativeModel):
    """A generative model that reads all captions of an image at once."""

    def __init__(self, model: Any, tokenizer: Any, *parts: Any) -> None:
        super().__init__(model, tokenizer, *parts)
        self._letters = [spellings(tokenizer, letter) for letter in ascii_uppercase]

    def prepare_choices(self, captions: Sequence[str]) -> list[list[int]]:
        """Return the token ids of the question in each rotation of the captions: rotation j begins with caption j."""
        count, most = len(captions), len(ascii_uppercase)
        if not 2 <= count <= most:
            raise ModelError(f"score=choice needs 2 to {most} captions for an image, got {count}; take score=yes")
        texts = []
        for first in range(count):
            turned = zip(ascii_uppercase, [*captions[first:], *captions[:first]], strict=False)
            texts.append("\n".join(f"{letter}. {text}" for letter, text in turned))
        return [self._prompts.checked(self._caption.tokens(text), text) for text in texts]

    def choose(
        self,
        features: Sequence[ImageInputs],
        images: Sequence[int],
        choices: Sequence[Sequence[Sequence[int]]],
        *,
        exact: bool = False,
    ) -> list[np.ndarray]:
        """Return for each prepared choice the scores (k,), float64, of its captions."""
        image_features = [features[i] for i, orders in zip(images, choices, strict=True) for _ in orders]
        questions = [ids for orders in choices for ids in orders]
        logits = self.first_logits(image_features, questions, self._caption.tail, exact)
        scores = []
        for row_logits in logits.split([len(orders) for orders in choices]):
            count = len(row_logits)
            letters = torch.stack([row_logits[:, ids].logsumexp(-1) for ids in self._letters[:count]], 1).log_softmax(1)
            # In rotation r caption c has letter (c - r) mod k.
            order = (torch.arange(count) - torch.arange(count)[:, None]) % count
            scores.append(letters.gather(1, order.to(letters.device)).mean(0).numpy(force=True))
        return scores


def load(checkpoint: str, options: LoadOptions) -> VqaScore | ChoiceScore:
    """Load an image-text-to-text checkpoint.

    Raises:
        ModelError: not found, of another type (the message names its family), without a tokenizer or chat template,
            with weights missing or of another shape, or a class whose forward pass does not work in this way.
        UnknownNameError: an unknown setting.
    """
    score = choose("vqascore", options, SETTINGS)["score"]
    settings = choose("vqascore", options, {**SETTINGS, "template": (TEMPLATES[score], "…")})
    if settings["template"].count("{}") != (score != "caption"):
        rule = "no {}: the caption is the answer" if score == "caption" else "{} once, for the caption"
        raise ModelError(f"the template of vqascore with score={score} has {rule}; got {settings['template']!r}")
    files = CheckpointFiles("vqascore", checkpoint, options)
    config = files.config(
        tuple(MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES), "image-text-to-text models of transformers"
    )
    model = files.model(AutoModelForImageTextToText, changes=placement_arguments(settings, options))
    processor = load_processor(files, config)
    keeps_end = bool(decoder_start(model))
    caption, question = (
        ChatPrompt(processor, text, checkpoint, keeps_end=keeps_end) for text in (settings["template"], QUESTION)
    )
    prompts = ImagePrompts(processor, question, checkpoint, model)
    forward = choose_forward(model, prompts, question.tokens, processor.tokenizer.pad_token_id or 0, checkpoint)
    facts = processor.image_processor.to_dict()
    preprocessing = image_preprocessing(processor.image_processor)
    preprocessing |= {name: facts[name] for name in _TILING if name in facts}
    preprocessing |= {"prompt": caption.text, "batches": "of several images" if forward.batches else "of one image"}
    preprocessing["start_of_prompt"] = "once per image" if forward.continues else "per caption"
    info = files.info(model, settings, preprocessing)
    kind = ChoiceScore if score == "choice" else VqaScore
    return kind(model, processor.tokenizer, prompts, forward, caption, question, info)
