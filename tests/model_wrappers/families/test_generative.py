"""Generative models: scores as by bare transformers, one pair at a time, prompts that are refused, and placements."""

from __future__ import annotations

import json
import math
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tiny_models
import torch
import transformers
from bare_forwards import score
from generative_classes import inputs_of
from PIL import Image
from tiny_models.shrink import processor_for
from tokenizers.processors import TemplateProcessing

from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import LoadOptions, load_model
from vl_assay.model_wrappers.engine.protocol import abilities

TYPES = ("llava", "idefics3", "qwen2_vl")
CAPTIONS = ["a red cat", "a big dog near two red cats and {one} blue box.", 'the "man"?']
QUESTIONS = ["Is there a cat?", "Are two big dogs near a red box?"]
# Of unlike sizes and shapes: some processors take more tokens for the larger and cut the wide ones into other tiles.
SIZES = ((40, 48), (90, 64), (200, 40))
PAIRS = [(0, 0), (0, 1), (1, 1), (2, 0), (2, 2), (1, 2)]


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8)) for width, height in SIZES]


def load(folders, name, **options):
    return load_model(str(folders[name]), LoadOptions(**options))


class Bare:
    """The checkpoint as `transformers` has it, given one image and one prompt at a time."""

    def __init__(self, folder, name):
        self.model = transformers.AutoModelForImageTextToText.from_pretrained(folder).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        # The whole processors of some types cannot be loaded without torchvision.
        is_shrunken = name != "llava"
        load_processor = transformers.AutoProcessor.from_pretrained
        self.processor = processor_for(name) if is_shrunken else load_processor(folder, backend="pil")

    def inputs(self, image, text, answer=""):
        prompt = f"USER: {self.processor.image_token}\n{text} ASSISTANT:{answer}"
        return inputs_of(self.processor, self.model, image, prompt)

    @torch.inference_mode()
    def first(self, image, text):
        """Probabilities of the first token of an answer."""
        return self.model(**self.inputs(image, text)).logits[0, -1].double().softmax(-1)

    @torch.inference_mode()
    def likelihood(self, image, text, answer):
        start = self.inputs(image, text)["input_ids"].shape[1]
        inputs = self.inputs(image, text, answer)
        logs = self.model(**inputs).logits[0].double().log_softmax(-1)
        ids = inputs["input_ids"][0].tolist()
        return float(np.mean([float(logs[i - 1, ids[i]]) for i in range(start, len(ids))]))

    def probability(self, distribution, spellings):
        return float(sum(distribution[self.tokenizer(word)["input_ids"][0]] for word in spellings))


YES, NO = ("Yes", "yes", " Yes", " yes"), ("No", "no", " No", " no")


@pytest.mark.parametrize("name", ["llava", "qwen2_vl"])
def test_questions_are_answered_by_the_difference_of_the_log_probabilities_of_yes_and_no(folders, images, name):
    bare, model = Bare(folders[name], name), load(folders, name)
    features = model.encode_images([model.prepare_image(image) for image in images])
    ids = model.prepare_questions(QUESTIONS)
    pairs = [(0, 0), (1, 1), (2, 0), (2, 1)]
    ours = model.answer(features, [i for i, _ in pairs], [ids[q] for _, q in pairs])
    theirs = []
    for image, question in pairs:
        distribution = bare.first(images[image], f"{QUESTIONS[question]} Please answer yes or no.")
        theirs.append(math.log(bare.probability(distribution, YES) / bare.probability(distribution, NO)))
    np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", TYPES)
def test_a_caption_can_be_scored_by_its_mean_log_probability_given_the_image(folders, images, name):
    bare, model = Bare(folders[name], name), load(folders, name, settings={"score": "caption"})
    theirs = [bare.likelihood(images[i], "Describe this image in one sentence.", f" {CAPTIONS[c]}") for i, c in PAIRS]
    np.testing.assert_allclose(score(model, images, CAPTIONS, PAIRS), theirs, atol=1e-5, rtol=0)
    np.testing.assert_allclose(score(model, images, CAPTIONS, PAIRS, exact=True), theirs, atol=1e-5, rtol=0)


def test_images_may_be_prepared_in_threads_and_sent_by_processes(folders, images):
    model = load(folders, "qwen2_vl")
    with ThreadPoolExecutor(8) as threads:
        prepared = list(threads.map(model.prepare_image, [images[i % 3] for i in range(12)]))
        captions = list(threads.map(lambda text: model.prepare_captions([text])[0], CAPTIONS * 4))
    for number, own in enumerate(pickle.loads(pickle.dumps(prepared))):
        assert own.tokens == prepared[number % 3].tokens
        assert all((own.inputs[key] == prepared[number % 3].inputs[key]).all() for key in own.inputs)
    assert captions == model.prepare_captions(CAPTIONS * 4)


def test_the_user_writes_the_template(folders, images):
    model = load(folders, "llava", settings={"template": "Is it {}? Yes or no?"})
    bare = Bare(folders["llava"], "llava")
    p = bare.probability(bare.first(images[0], "Is it a red cat? Yes or no?"), YES)
    assert score(model, images, CAPTIONS, [(0, 0)])[0] == pytest.approx(math.log(p / (1 - p)), abs=1e-5)
    assert {"score": "yes", "template": "Is it {}? Yes or no?"}.items() <= model.info.settings.items()
    assert model.info.preprocessing["prompt"] == "USER: <image>\nIs it {}? Yes or no? ASSISTANT:"
    with pytest.raises(ModelError, match=r"has {} once, for the caption; got 'Is it so\?'"):
        load(folders, "llava", settings={"template": "Is it so?"})
    with pytest.raises(ModelError, match=r"no {}: the caption is the answer"):
        load(folders, "llava", settings={"score": "caption", "template": "Show {}"})


@pytest.mark.parametrize("kind", ["yes", "caption"])
def test_long_captions_are_cut_and_what_follows_them_stays(images, tmp_path, kind):
    tiny_models.tiny_llava(tmp_path / "short", limit=160)
    model = load({"short": tmp_path / "short"}, "short", settings={"score": kind})
    # 16 tokens of the image stand for one of the prompt.
    assert model.max_tokens == 160 - 15
    [whole] = model.prepare_captions(["a red cat near " * 40])
    assert len(whole) > model.max_tokens
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "short")
    tail = tokenizer('"? Please answer yes or no. ASSISTANT:')["input_ids"] if kind == "yes" else []
    assert whole[len(whole) - len(tail) :] == tail
    cut = [*whole[: 145 - len(tail)], *tail]
    features = model.encode_images([model.prepare_image(images[0])])
    assert model.match(features, [0], [whole]) == model.match(features, [0], [cut])


def test_a_caption_without_tokens_has_no_likelihood(folders, images):
    model = load(folders, "llava", settings={"score": "caption"})
    scores = score(model, images, ["", "a cat"], [(0, 0), (0, 1)])
    assert np.isnan(scores).tolist() == [True, False]


def test_a_caption_that_holds_the_image_token_is_refused(folders):
    with pytest.raises(ModelError, match="'a <image> of a cat' holds the token that stands for an image"):
        load(folders, "llava").prepare_captions(["a <image> of a cat"])


def test_a_model_too_short_for_an_image_and_its_prompt_is_refused(tmp_path):
    tiny_models.tiny_llava(tmp_path / "short", limit=60)
    with pytest.raises(ModelError, match="reads 60 tokens, and an image leaves 45"):
        load({"short": tmp_path / "short"}, "short")


def test_a_checkpoint_without_a_chat_template_is_refused(folders, tmp_path):
    shutil.copytree(folders["llava"], tmp_path / "mute")
    (tmp_path / "mute" / "chat_template.jinja").unlink()
    with pytest.raises(ModelError, match="has no chat template"):
        load({"mute": tmp_path / "mute"}, "mute")
    (tmp_path / "mute" / "chat_template.jinja").write_text("{{ messages[0]['content'][1]['text'] }}")
    with pytest.raises(ModelError, match="cannot put an image into the prompt"):
        load({"mute": tmp_path / "mute"}, "mute")


def test_a_template_that_writes_the_start_token_does_not_double_it(folders, tmp_path):
    file = shutil.copytree(folders["llava"], tmp_path / "started") / "chat_template.jinja"
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent)
    start = tokenizer.bos_token_id
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", start)])
    tokenizer.save_pretrained(file.parent)
    file.write_text((folders["llava"] / file.name).read_text())
    for written in ("", "<s>"):
        file.write_text(written + file.read_text())
        [ids] = load({"started": file.parent}, "started").prepare_captions(["a cat"])
        assert (ids[0], ids.count(start)) == (start, 1)


def bare_choice(bare, image, captions):
    """The mean over both orders of the log-probability of a caption's letter."""
    scores = np.zeros(2)
    for order in ((0, 1), (1, 0)):
        options = "\n".join(f"{letter}. {captions[number]}" for letter, number in zip("AB", order, strict=True))
        question = f"Which caption describes this image?\n{options}\nAnswer with the letter of that caption alone."
        distribution = bare.first(image, question)
        letters = [bare.probability(distribution, letter) for letter in "AB"]
        for place, number in enumerate(order):
            scores[number] += np.log(letters[place] / sum(letters)) / 2
    return scores


def test_multiple_choice_reads_both_orders_of_two_captions(folders, images):
    model = load(folders, "llava", settings={"score": "choice"})
    assert abilities(model) == ("matching", "vqa")
    features = model.encode_images([model.prepare_image(image) for image in images])
    asked = [CAPTIONS[:2], CAPTIONS[1::-1], CAPTIONS, [*CAPTIONS[1:], CAPTIONS[0]]]
    choices = [model.prepare_choices(captions) for captions in asked]
    one, turned, three, rotated = model.choose(features, [0, 0, 1, 1], choices)
    np.testing.assert_allclose(
        one, bare_choice(Bare(folders["llava"], "llava"), images[0], CAPTIONS), atol=1e-5, rtol=0
    )
    np.testing.assert_allclose(one, turned[::-1], atol=1e-6, rtol=0)
    np.testing.assert_allclose(three, np.roll(rotated, 1), atol=1e-6, rtol=0)
    with pytest.raises(ModelError, match="score=choice needs 2 to 26 captions for an image, got 1"):
        model.prepare_choices(["a cat"])


def test_a_model_over_all_devices_scores_as_one_on_one(folders, images):
    whole, spread = load(folders, "llava"), load(folders, "llava", settings={"placement": "auto"})
    scores = [score(model, images, CAPTIONS, PAIRS) for model in (whole, spread)]
    np.testing.assert_allclose(*scores, atol=1e-6, rtol=0)
    assert spread.chosen(True) is spread.module
    assert whole.chosen(True) is not whole.module


def test_a_placement_that_cannot_be_had_says_what_to_do(folders, monkeypatch):
    with pytest.raises(ModelError, match="quantise=4bit needs bitsandbytes: pip install bitsandbytes"):
        load(folders, "llava", settings={"quantise": "4bit"})
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ModelError, match="2 were started: start vl-assay without torchrun"):
        load(folders, "llava", settings={"placement": "auto"})


def test_a_type_that_no_family_knows_is_offered_to_those_that_try_any(folders, tmp_path):
    file = shutil.copytree(folders["llava"], tmp_path / "other") / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"model_type": "strange"}))
    with pytest.raises(ModelError, match=r"some families try other types: .*vqascore:CHECKPOINT"):
        load_model(str(file.parent))
