"""VQAScore: generative vision-language models of `transformers`, asked whether the image shows the caption.

The model types are those of `MODEL_TYPES`, from the Hub or a local folder; the prompt follows the checkpoint's chat
template. The setting ``score`` is

- ``yes``: the log-odds of "Yes" as the first word of the answer to the ``template``, log p / (1 - p), where p is its
  probability among all tokens. The paper's score is p itself, which would round to 1, a tie, for all confident pairs;
  its log-odds rank the same.
- ``caption``: the mean log-probability (nats) of the caption's tokens as an answer to the ``template``, an
  instruction, given the image: P(caption | image), the paper's VisualGPTScore, length-normalised. A caption without
  tokens scores NaN.

The setting ``template`` is the text of the user's turn, where ``{}`` stands for the caption.

"Yes" is any of "Yes", "yes", " Yes", " yes" that is one token, their probabilities added (the paper has "Yes" alone);
where none is, the first token of " Yes" and of "Yes". So with "No". Questions of benchmarks are answered with
log P(yes) - log P(no).

The vision tower runs once for all captions of an image. Video processors, which need torchvision, are not loaded.

Source: VQAScore (Lin et al., ECCV 2024), section 3 and github.com/linzhiqiu/t2v_metrics; VisualGPTScore (Lin et al.,
2023).
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from transformers import AutoModelForImageTextToText
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

from ..metrics.common.errors import ModelError
from .engine.protocol import LoadOptions, ModelInfo, choose
from .loading.checkpoints import CheckpointFiles, image_preprocessing, loading_errors
from .loading.torch_models import TorchModel, log_likelihoods, pad_right, precise_convolutions

MODEL_TYPES = ("llava", "llava_next", "idefics3", "qwen2_vl", "qwen2_5_vl")
CHECKPOINTS = ("llava-hf/llava-1.5-7b-hf", "HuggingFaceTB/SmolVLM-Instruct", "Qwen/Qwen2.5-VL-3B-Instruct")

TEMPLATES = {
    "yes": 'Does this figure show "{}"? Please answer yes or no.',
    "caption": "Describe this image in one sentence.",
}
SETTINGS = {"score": tuple(TEMPLATES), "template": ("", "…")}
QUESTION = "{} Please answer yes or no."

_TEXT_INPUTS = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids")
_TILING = ("do_image_splitting", "max_image_size", "merge_size")
_ORDINARY_SIZE = (640, 480)


class Prepared(NamedTuple):
    """An image for the vision tower, and the tokens that stand for it in a prompt."""

    tokens: list[int]
    inputs: dict[str, np.ndarray]


class Seen(NamedTuple):
    """An image's tokens, their embeddings, and the inputs that determine their positions."""

    tokens: list[int]
    embeddings: torch.Tensor
    places: dict[str, torch.Tensor]


class Prompt:
    """A user's turn with an image and a text, and the start of the answer, by the checkpoint's chat template."""

    def __init__(self, processor: Any, template: str, checkpoint: str) -> None:
        self._tokenizer = processor.tokenizer
        self._image_token_id = processor.image_token_id
        turn = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": template}]}]
        with loading_errors(checkpoint, "vqascore"):
            self.text = str(processor.apply_chat_template(turn, tokenize=False, add_generation_prompt=True))
        # The start token must not be added to a template that contains it.
        self.special = not self.text.startswith(self._tokenizer.bos_token or "\0")
        if self.text.count(processor.image_token) != 1 or self.text.count("{}") != template.count("{}"):
            raise ModelError(
                f"the chat template of {checkpoint} does not put one {processor.image_token} and the user's text into "
                f"the prompt, which becomes {self.text!r}"
            )
        some = self.tokens("a"), self.tokens("one two.")
        # Truncation of a long caption keeps these tokens after it.
        self.tail = 0
        while "{}" in template and some[0][-1 - self.tail] == some[1][-1 - self.tail]:
            self.tail += 1

    def tokens(self, text: str, answer: str = "") -> list[int]:
        """The prompt's token ids with that text for ``{}``, one of them for the image, and the answer's."""
        # An answer follows its prompt after a space, unless the prompt ends with a line break or a special token.
        special = self._tokenizer.all_special_tokens
        space = "" if not answer or self.text[-1:].isspace() or self.text.endswith(tuple(special)) else " "
        whole = self.text.replace("{}", text) + space + answer
        ids = self._tokenizer(whole, add_special_tokens=self.special, verbose=False)["input_ids"]
        if ids.count(self._image_token_id) != 1:
            raise ModelError(f"{text or answer!r} holds the token that stands for an image in this model's prompts")
        return ids


class VqaScore(TorchModel):
    """An image-text-to-text model as a cross-encoder, and as one that answers questions by yes or no."""

    def __init__(self, model: Any, processor: Any, caption: Prompt, question: Prompt, info: ModelInfo) -> None:
        super().__init__(model, info)
        self._processor = processor
        self._caption = caption
        self._question = question
        self._yes, self._no = (spellings(processor.tokenizer, word) for word in ("yes", "no"))
        self._takes_types = "mm_token_type_ids" in inspect.signature(model.forward).parameters
        self._limit = model.config.get_text_config().max_position_embeddings
        # The number of tokens may depend on the image: this is for an ordinary photograph.
        self.max_tokens = self._limit - len(self.prepare_image(Image.new("RGB", _ORDINARY_SIZE)).tokens) + 1
        longest = max(len(prompt.tokens("a")) for prompt in (caption, question))
        if self.max_tokens <= longest:
            raise ModelError(
                f"{info.name} reads {self._limit} tokens, and an image leaves {self.max_tokens} of them for a prompt "
                f"of {longest}"
            )

    def prepare_image(self, image: Image.Image) -> Prepared:
        """The processor's inputs for the image, and the tokens that it inserts into a prompt.

        An orientation in EXIF data is not applied, as in the papers' own scripts.
        """
        given = self._processor(
            images=image.convert("RGB"),
            text=self._question.text.replace("{}", "a"),
            add_special_tokens=self._question.special,
            return_tensors="np",
        )
        ids, plain = given["input_ids"][0].tolist(), self._question.tokens("a")
        before = plain.index(self._processor.image_token_id)
        after = len(ids) - (len(plain) - before - 1)
        if [*ids[:before], *ids[after:]] != [*plain[:before], *plain[before + 1 :]]:
            raise ModelError("this processor changes the text around an image, which vqascore does not know how to do")
        return Prepared(ids[before:after], {key: given[key] for key in given if key not in _TEXT_INPUTS})

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """The token ids of each caption's prompt, with a single token for the image."""
        if self.info.settings["score"] == "caption":
            return [self._caption.tokens("", caption) for caption in captions]
        return [self._caption.tokens(caption) for caption in captions]

    def prepare_questions(self, questions: Sequence[str]) -> list[list[int]]:
        """The token ids of each question's prompt, with a single token for the image."""
        return [self._question.tokens(question) for question in questions]

    @torch.inference_mode()
    def encode_images(self, images: Sequence[Prepared], *, exact: bool = False) -> list[Seen]:
        """The vision tower's embeddings of each image, in the space of the words'."""
        model = self.chosen(exact)
        seen: dict[int, Seen] = {}
        order = sorted(range(len(images)), key=lambda i: _shapes(images[i]))
        for _, group in groupby(order, key=lambda i: _shapes(images[i])):
            numbers = list(group)
            inputs = {
                key: _on(model, np.concatenate([images[i].inputs[key] for i in numbers]))
                for key in images[numbers[0]].inputs
            }
            with precise_convolutions():
                embeddings = model.get_image_features(**inputs, return_dict=True).pooler_output
            for i, own in zip(numbers, embeddings, strict=True):
                places = {key: _on(model, value) for key, value in images[i].inputs.items() if "grid" in key}
                seen[i] = Seen(images[i].tokens, own, places)
        return [seen[i] for i in range(len(images))]

    @torch.inference_mode()
    def match(
        self, features: Sequence[Seen], images: Sequence[int], captions: Sequence[Sequence[int]], *, exact: bool = False
    ) -> np.ndarray:
        """Scores (n,), float64: log-odds of "Yes", or the caption's mean log-probability; higher matches better."""
        if not captions:
            return np.empty(0)
        chosen = [features[i] for i in images]
        if self.info.settings["score"] == "caption":
            return self._likelihoods(chosen, captions, exact)
        logits = self._answers(chosen, captions, self._caption.tail, exact)
        others = logits.clone()
        others[:, self._yes] = -torch.inf
        return (logits[:, self._yes].logsumexp(-1) - others.logsumexp(-1)).numpy()

    @torch.inference_mode()
    def answer(
        self,
        features: Sequence[Seen],
        images: Sequence[int],
        questions: Sequence[Sequence[int]],
        *,
        exact: bool = False,
    ) -> np.ndarray:
        """log P(yes) - log P(no) of n questions, (n,), float64."""
        if not questions:
            return np.empty(0)
        logits = self._answers([features[i] for i in images], questions, self._question.tail, exact)
        return (logits[:, self._yes].logsumexp(-1) - logits[:, self._no].logsumexp(-1)).numpy()

    def _answers(self, seen: Sequence[Seen], texts: Sequence[Sequence[int]], tail: int, exact: bool) -> torch.Tensor:
        """Logits (n, vocabulary), float64, of the first token of an answer."""
        rows = [self._row(own, _cut(ids, self.max_tokens, tail)) for own, ids in zip(seen, texts, strict=True)]
        last = torch.tensor([len(row) - 1 for row in rows], dtype=torch.long)
        kept, place = last.unique(return_inverse=True)
        logits = self._logits(seen, rows, kept, exact)
        return logits[torch.arange(len(rows)), place].cpu().double()

    def _likelihoods(self, seen: Sequence[Seen], texts: Sequence[Sequence[int]], exact: bool) -> np.ndarray:
        """Mean log-probability (n,), float64, of the tokens after the prompt."""
        prompt = self._caption.tokens("")
        cut = [ids[: self.max_tokens] for ids in texts]
        rows = [self._row(own, ids) for own, ids in zip(seen, cut, strict=True)]
        # A token merged from the end of the prompt and the start of the caption counts to the caption.
        lengths = [len(ids) - _common(ids, prompt) for ids in cut]
        first = min(len(row) - length - 1 for row, length in zip(rows, lengths, strict=True))
        logits = self._logits(seen, rows, torch.arange(first, max(map(len, rows))), exact)
        scores = []
        for row, length, own in zip(rows, lengths, logits, strict=True):
            start = len(row) - length
            likelihoods = log_likelihoods(own[start - 1 - first : len(row) - 1 - first], row[start:])
            scores.append(float(likelihoods.mean()))
        return np.array(scores, dtype=np.float64)

    def _row(self, seen: Seen, ids: Sequence[int]) -> list[int]:
        """The prompt with all tokens of the image."""
        at = ids.index(self._processor.image_token_id)
        row = [*ids[:at], *seen.tokens, *ids[at + 1 :]]
        if len(row) > self._limit:
            raise ModelError(
                f"an image takes {len(seen.tokens)} tokens and its prompt {len(ids) - 1}; {self.info.name} reads "
                f"{self._limit}: make the image smaller"
            )
        return row

    def _logits(
        self, seen: Sequence[Seen], rows: Sequence[Sequence[int]], kept: torch.Tensor, exact: bool
    ) -> torch.Tensor:
        """Logits (n, kept, vocabulary) at those positions of the rows, which are padded at the right."""
        model = self.chosen(exact)
        ids, mask = pad_right(rows, self._processor.tokenizer.pad_token_id or 0, model.device)
        inputs: dict[str, Any] = {key: torch.cat([own.places[key] for own in seen]) for key in seen[0].places}
        if self._takes_types:
            inputs["mm_token_type_ids"] = (ids == self._processor.image_token_id).int()
        embeddings: Any = [own.embeddings.to(model.device, model.dtype) for own in seen]
        return model(
            input_ids=ids,
            attention_mask=mask,
            mm_encoder_outputs={"image": BaseModelOutputWithPooling(pooler_output=embeddings)},
            logits_to_keep=kept.to(model.device),
            use_cache=False,
            **inputs,
        ).logits


def load(checkpoint: str, options: LoadOptions) -> VqaScore:
    """Load an image-text-to-text checkpoint.

    Raises:
        ModelError: not found, of another type (the message names its family), without a tokenizer or chat template,
            with weights missing or of another shape, or a `transformers` that cannot share an image among captions.
        UnknownNameError: an unknown setting.
    """
    score = choose("vqascore", options, SETTINGS)["score"]
    settings = choose("vqascore", options, {**SETTINGS, "template": (TEMPLATES[score], "…")})
    if settings["template"].count("{}") != (score == "yes"):
        rule = "{} once, for the caption" if score == "yes" else "no {}: the caption is the answer"
        raise ModelError(f"the template of vqascore with score={score} has {rule}; got {settings['template']!r}")
    files = CheckpointFiles("vqascore", checkpoint, options)
    config = files.config(MODEL_TYPES)
    model = files.model(AutoModelForImageTextToText)
    if "mm_encoder_outputs" not in inspect.signature(model.forward).parameters:
        raise ModelError("vqascore needs transformers 5.18 or later: pip install -U 'transformers<6'")
    processor = _load_processor(files, config)
    caption, question = (Prompt(processor, text, checkpoint) for text in (settings["template"], QUESTION))
    facts = processor.image_processor.to_dict()
    preprocessing = image_preprocessing(processor.image_processor)
    preprocessing |= {name: facts[name] for name in _TILING if name in facts} | {"prompt": caption.text}
    return VqaScore(model, processor, caption, question, files.info(model, config, settings, preprocessing))


def _load_processor(files: CheckpointFiles, config: Any) -> Any:
    """The checkpoint's processor, from its parts: as a whole, those that also read videos require torchvision."""
    image_processor, tokenizer = files.image_processor(), files.tokenizer()
    whole: Any = PROCESSOR_MAPPING[type(config)]
    parts = [name for name in whole.get_attributes() if name != "video_processor"]
    without_video: Any = type(whole.__name__, (whole,), {"get_attributes": classmethod(lambda _: parts)})
    with loading_errors(files.checkpoint, files.family):
        facts, _ = whole.get_processor_dict(files.path, revision=files.options.revision)
        processor = without_video.from_args_and_dict([image_processor, tokenizer], facts)
    processor.chat_template = processor.chat_template or tokenizer.chat_template
    if processor.chat_template is None:
        raise ModelError(
            f"{files.checkpoint} has no chat template, which builds the prompt of a question about an image; take an "
            "instruction-tuned checkpoint, or save a template in its folder as chat_template.jinja"
        )
    return processor


def spellings(tokenizer: Any, word: str) -> list[int]:
    """The tokens by which an answer can begin with that word."""
    texts = (word.capitalize(), word, f" {word.capitalize()}", f" {word}")
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    single = {own[0] for own in ids if len(own) == 1}
    return sorted(single or {ids[0][0], ids[2][0]})


def _cut(ids: Sequence[int], limit: int, tail: int) -> list[int]:
    """The ids after truncation of the caption, which keeps the last `tail` ids."""
    return list(ids) if len(ids) <= limit else [*ids[: limit - tail], *ids[len(ids) - tail :]]


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """The length of the common prefix."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _shapes(image: Prepared) -> list[tuple[str, tuple[int, ...]]]:
    """The sizes by which images can be put into one batch."""
    return [(key, value.shape[1:]) for key, value in sorted(image.inputs.items())]


def _on(model: Any, array: np.ndarray) -> torch.Tensor:
    """The array on the model's device, in its precision where it is not of integers."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.to(model.device, model.dtype) if tensor.is_floating_point() else tensor.to(model.device)
