"""All benchmarks as an `EvaluationSuite` of `evaluate`: ``EvaluationSuite.load`` takes the path of this file.

A Space ``owner/name`` whose file ``name.py`` imports `Suite` from here loads by ``EvaluationSuite.load("owner/name")``.
"""

# `evaluate` runs a copy of this file, so the imports are absolute.
from typing import Any

from evaluate import EvaluationSuite
from evaluate.evaluation_suite import SubTask

from vl_assay.hub_datasets.core.benchmarks import benchmark_names
from vl_assay.hub_datasets.core.evaluation import report
from vl_assay.metrics.common.errors import DataError
from vl_assay.model_wrappers.engine.runner import AnyModel, predict


class Suite(EvaluationSuite):
    """A suite whose tasks are benchmarks.

    `evaluate` would run them by its evaluators, which have no task of images with captions or boxes, and which fail on
    transformers 5 for all but names of models. Here the tasks are run as by `predict`.

    Attributes:
        suite: a `SubTask` for each benchmark, to be filtered before `run`. Its `data` is the benchmark, and `subset` a
            part of it: a task or a configuration; None for the tasks that the model can do.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.suite = [SubTask("vl-assay", data=benchmark) for benchmark in benchmark_names()]

    def run(self, model_or_pipeline: str | AnyModel, **options: Any) -> list[dict[str, Any]]:
        """Evaluate a model.

        Args:
            model_or_pipeline: a model's name, or an object that implements a protocol.
            options: arguments of `predict`, such as `data_dir`, `limit` and `out`.

        Returns:
            For each task and metric the scores, and the keys ``"task_name"``, ``"metric"``, ``"main_score"`` (the key
            of the score to quote) and, as `evaluate` has it, ``"data_preprocessor"``, which is None.

        Raises:
            DataError: a `SubTask` has a split, a preprocessor or arguments: a benchmark declares its own.
            VLAssayError: as `predict`.
        """
        self.assert_suite_nonempty()
        for task in self.suite:
            if task.split or task.data_preprocessor or task.args_for_task:
                raise DataError(
                    f"the task {task.data} of the suite has a split, a preprocessor or arguments, which its benchmark "
                    "declares; give `data` and `subset` alone, and options to `run`"
                )
        references = [f"{task.data}/{task.subset}" if task.subset else str(task.data) for task in self.suite]
        return [
            {
                **result.scores,
                "task_name": f"{result.benchmark['name']}/{result.benchmark['task']}",
                "metric": result.metric,
                "main_score": result.main_score,
                "data_preprocessor": None,
            }
            for result in report(predict(model_or_pipeline, references, **options))
        ]
