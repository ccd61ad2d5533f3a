"""Run a benchmark with inspect_ai, lm-eval and lmms-eval, offline, and compare each answer with our own.

    python tests/compatibility/check_other_tools.py [--limit 40] [--only inspect lm_eval lmms_eval]

The tools are those of this environment (``pip install inspect-ai lm-eval``, or lmms-eval, whose pins are others);
one that is not installed is skipped and said. The model is demo-clip in the tool's own interface: it gets the image and
the text that the tool makes, and answers with the letter of the caption with the highest score.
Right and wrong must be ours for every example, and so must predictions that are read from the tool's log. Exits with 1
when something differs.
"""

from __future__ import annotations

import argparse
import base64
import importlib.util
import io
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}

from PIL import Image

from vl_assay.hub_datasets.hub.multiple_choice import export
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import load_model, predict

TASK = "itm"


def rights(model: str, out: Path, limit: int) -> dict[str, bool]:
    """Which examples a model has right by our own evaluation."""
    [file] = predict(model, f"toy_scenes/{TASK}", out=out, limit=limit, progress=False)
    return {row.id: row.scores[0][0] > max(row.scores[0][1:]) for row in read_predictions(file).rows}


class Chooser:
    """demo-clip, which answers a question of multiple choice."""

    def __init__(self) -> None:
        self.model: Any = load_model("demo-clip")

    def answer(self, image: Image.Image, text: str) -> str:
        """The letter of the choice that fits the image best; choices stand on lines of their own, after a letter."""
        choices = re.findall(r"^([A-Z])[.)] (.+)$", text, re.M)
        seen = self.model.encode_images([self.model.prepare_image(image)])
        read = self.model.encode_captions(self.model.prepare_captions([caption for _, caption in choices]))
        return choices[int((read @ seen[0]).argmax())][0]


def _unasked(model: Any, requests: Any) -> Any:
    """What these tools ask for other tasks: those that are exported are answered by writing a letter."""
    raise AssertionError(f"{len(requests)} requests came that no exported task makes")


def by_inspect(folder: Path, work: Path) -> dict[str, bool]:
    """Which examples are right by ``inspect eval hf/…``, for which the Hub is the folder."""
    import datasets
    import huggingface_hub
    from inspect_ai import eval as run
    from inspect_ai.log import write_eval_log
    from inspect_ai.model import GenerateConfig, ModelAPI, ModelOutput, ModelUsage, modelapi

    chooser = Chooser()

    @modelapi("chooser")
    class _Chooser(ModelAPI):
        def __init__(self, model_name: str, config: Any = None, **_: Any) -> None:
            super().__init__(model_name, config=config or GenerateConfig())

        async def generate(self, input: Any, tools: Any, tool_choice: Any, config: Any) -> ModelOutput:
            parts = input[-1].content
            [image] = [part.image for part in parts if part.type == "image"]
            content = base64.b64decode(image.partition(",")[2])
            letter = chooser.answer(Image.open(io.BytesIO(content)), input[-1].text)
            output = ModelOutput.from_content("chooser/demo-clip", f"ANSWER: {letter}")
            output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
            return output

    load = datasets.load_dataset
    huggingface_hub.hf_hub_download = lambda *_, filename, **__: str(folder / filename)
    datasets.load_dataset = lambda path=None, name=None, split=None, **_: load(str(folder), name, split=split)
    [log] = run(
        f"hf/me/choices/{TASK}",
        model="chooser/demo-clip",
        log_dir=str(work / "log_inspect"),
        log_format="eval",
        display="none",
    )
    datasets.load_dataset = load
    if log.status != "success":
        sys.exit(f"inspect_ai: {log.error.message if log.error else log.status}")
    write_eval_log(log, str(work / "log_inspect" / "log.json"))
    return {each.metadata["id"]: each.scores["choice"].value == "C" for each in log.samples or [] if each.scores}


def by_lm_eval(folder: Path, work: Path) -> dict[str, bool]:
    """Which examples are right by lm-eval with the exported task file."""
    from lm_eval import simple_evaluate
    from lm_eval.api.model import LM
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    chooser = Chooser()

    class _Chooser(LM):
        MULTIMODAL = True

        def generate_until(self, requests: Any) -> list[str]:
            return [chooser.answer(each.args[2]["visual"][0], each.args[0]) for each in requests]

        loglikelihood = loglikelihood_rolling = _unasked

    manager = TaskManager(include_path=str(folder / "lm_eval"), include_defaults=False)
    found = simple_evaluate(_Chooser(), tasks=[f"toy_scenes_{TASK}"], task_manager=manager, log_samples=True)
    samples = found["samples"][f"toy_scenes_{TASK}"]
    tracker = EvaluationTracker(output_path=str(work / "log_lm_eval" / "samples.json"))
    tracker.general_config_tracker.model_name_sanitized, tracker.date_id = "chooser", "now"
    tracker.save_results_samples(f"toy_scenes_{TASK}", samples)
    return {each["doc"]["id"]: each["exact_match"] == 1 for each in samples}


def by_lmms_eval(folder: Path, work: Path) -> dict[str, bool]:
    """Which examples are right by lmms-eval with the exported task file."""
    from lmms_eval.api.model import lmms
    from lmms_eval.evaluator import simple_evaluate
    from lmms_eval.loggers import EvaluationTracker
    from lmms_eval.tasks import TaskManager

    chooser = Chooser()

    class _Chooser(lmms):
        def generate_until(self, requests: Any) -> list[str]:
            found = []
            for each in requests:
                text, _, visual, number, task, split = each.args
                [image] = visual(self.task_dict[task][split][number])
                found.append(chooser.answer(image, text))
            return found

        loglikelihood = generate_until_multi_round = _unasked

    name = f"toy_scenes_{TASK}"
    manager = TaskManager(include_path=str(folder / "lmms_eval"), include_defaults=False)
    found: Any = simple_evaluate(_Chooser(), tasks=[name], task_manager=manager, log_samples=True)
    tracker = EvaluationTracker(output_path=str(work / "log_lmms_eval"))
    tracker.general_config_tracker.model_name_sanitized, tracker.date_id = ".", "now"
    samples = found["samples"][name]
    tracker.save_results_samples(name, samples)
    return {each["vl_assay"]["id"]: each["exact_match"] == 1 for each in samples}


TOOLS = {
    "inspect": ("inspect_ai", by_inspect),
    "lm_eval": ("lm_eval", by_lm_eval),
    "lmms_eval": ("lmms_eval", by_lmms_eval),
}


def main() -> int:
    """Compare, print and return the exit status."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--limit", type=int, default=40)
    options.add_argument("--only", nargs="*", default=list(TOOLS))
    chosen, failed = options.parse_args(), False
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        export(f"toy_scenes/{TASK}", work / "choices", limit=chosen.limit)
        ours = rights("demo-clip", work / "ours", chosen.limit)
        for tool in chosen.only:
            module, evaluate = TOOLS[tool]
            if importlib.util.find_spec(module) is None:
                print(f"{tool}: skipped, {module} is not installed")
                continue
            theirs = evaluate(work / "choices", work)
            same = theirs == ours
            for log in (work / f"log_{tool}").glob("*.*"):
                found = rights(f"precomputed:{log}", work / f"read_{log.name}", chosen.limit)
                print(f"{tool}: {log.name} read as predictions, all the same: {found == ours}")
                same &= found == ours
            failed |= not same
            rates = [sum(found.values()) / len(found) for found in (theirs, ours)]
            print(f"{tool}: accuracy {rates[0]:.4f}, ours {rates[1]:.4f}, {len(theirs)} examples, all the same: {same}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
