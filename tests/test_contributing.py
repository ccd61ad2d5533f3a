"""What CONTRIBUTING.md shows works as it stands there: its three examples need no change anywhere else."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CASES = "tests/support/metric_cases.py"
NEW = (
    "hub_datasets/plain_colours/",
    "metrics/error_rate/",
    "model_wrappers/mean_colour.py",
    "tests/support/sources_plain_colours.py",
)
# What the last command runs, without collecting all other tests. The metric's card and page are still the neighbour's.
SUITES = ("every_benchmark", "every_metric")
CHOSEN = "plain_colours or mean_colour or what_is_found or has_a_case or error_rate and not (card or page or junk)"
# The commands in one process, as each would import the same libraries.
WALK = """
import json, shlex, sys
import datasets, evaluate, pytest
from vl_assay.metrics.common.command_line import build_app
from vl_assay.model_wrappers import family_names

assert "mean_colour" in family_names()
for command in json.loads(sys.argv[1]):
    program, *arguments = shlex.split(command)
    if program == "vl-assay":
        build_app()(arguments, standalone_mode=False)
assert evaluate.load("error_rate").compute(predictions=[[1, 2]], references=[0])["error_rate"] == 1
assert datasets.load_dataset("plain_colours", "squares", split="test").num_rows == 6

# A lower error rate is better: on the board and in comparisons.
from dataclasses import replace
from vl_assay.hub_datasets import compare, report
from vl_assay.metrics.records.predictions import read_predictions, write_predictions
from vl_assay.space_app.board.board import BEST, Board
from vl_assay.space_app.board.entries import of_results

good = "vl-assay-results/mean_colour--rgb/plain_colours.itm.parquet"
found = read_predictions(good)
rows = [replace(row, scores=[row.scores[0][::-1]]) if number < 4 else row for number, row in enumerate(found.rows)]
write_predictions("worse.parquet", replace(found, rows=rows, metadata=found.metadata | {"model": {"name": "worse"}}))
results = report(["worse.parquet", good])
board = Board(entry for result in results for entry in of_results([result]))
[column] = [each for each in board.columns if each.score == "error_rate"]
rows = board.rows([column])
assert [(row.model, row.value) for row in rows] == [("mean_colour:rgb", 0), ("worse", pytest.approx(2 / 3))]
assert "↓" in column.heading and board.marks(rows, column) == {("mean_colour:rgb", "recomputed"): BEST}
[difference] = compare("worse.parquet", good).differences
assert not difference.higher_is_better and (difference.result["wins"], difference.result["losses"]) == (0, 4)
assert "error rate (lower is better) +66.7 points" in repr(compare("worse.parquet", good))

sys.exit(pytest.main([*arguments, *sys.argv[2:]]))
"""


# The same without the suites, where the files lie outside the package.
OUTSIDE = """
import json, shlex, sys
import evaluate
from vl_assay.metrics.common.command_line import build_app

for command in json.loads(sys.argv[1]):
    build_app()(shlex.split(command)[1:], standalone_mode=False)
assert evaluate.load("error_rate").compute(predictions=[[1, 2]], references=[0])["error_rate"] == 1
"""


def run(folder, arguments, **variables):
    """Run Python in a process with a home of its own; return its output and the one result that it has computed."""
    variables |= {"HF_HOME": str(folder / "home"), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", *arguments], cwd=folder, env=os.environ | variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"│ error_rate +│ Error rate: how often .*│ plain_colours", done.stdout)
    results = folder / "vl-assay-results" / "mean_colour--rgb" / "results.json"
    [result] = json.loads(results.read_text(encoding="utf-8"))["results"]
    assert (result["scores"]["error_rate"], result["scores"]["n"], result["chance"]) == (0, 6, {"error_rate": 0.5})
    return done.stdout


def guide():
    """The files that the section on adding things shows, by their paths, and the commands."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("\n## Adding things\n")[1]
    text = text.split("\n## Publishing\n")[0]
    files = dict(re.findall(r"`([\w/]+\.\w+)`:\n\n```\w+\n(.*?)```\n", text, flags=re.DOTALL))
    return files, "".join(re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL)).splitlines()


@pytest.mark.slow  # as it runs the suites over all benchmarks and metrics in a process of their own
def test_what_the_guide_adds_is_found_built_scored_judged_and_installed(tmp_path):
    # The package's name is that of the folder above the four.
    copy = tmp_path / "vl_assay"
    for folder in ("hub_datasets", "metrics", "model_wrappers", "space_app", "tests"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    files, (copying, *commands) = guide()
    start = "\nCASES: dict[str, Case] = {\n"
    cases = (copy / CASES).read_text(encoding="utf-8").split(start)
    (copy / CASES).write_text((start + files.pop(CASES)).join(cases), encoding="utf-8")
    assert [path for path in files if not path.startswith(NEW) or (copy / path).exists()] == []
    for path, text in files.items():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        (copy / path).write_text(text, encoding="utf-8")
    subprocess.run(["bash", "-c", copying], cwd=copy, check=True)
    suites = [str(path.relative_to(copy)) for suite in SUITES for path in (copy / "tests").rglob(f"test_{suite}.py")]
    arguments = [json.dumps(commands), *suites, "-n", "0", "-p", "no:cacheprovider", "-k", CHOSEN]
    output = run(copy, [WALK, *arguments], PYTHONPATH=str(tmp_path))
    assert re.search(r"^ plain_colours +which of two colours +6 +ready", output, flags=re.MULTILINE)
    assert re.search(r"│ squares +│ +0\.0 % .*│ 6 │", output)


def test_what_the_guide_adds_works_outside_the_repository(tmp_path):
    """The benchmark and the metric are in a package with entry points, the family in a folder of the user."""
    files, (_, *commands) = guide()
    package, plugins = tmp_path / "site" / "my_assays", tmp_path / "plugins"
    for path, text in files.items():
        if path.startswith(NEW) and not path.startswith("tests/"):
            place = plugins / path if path.startswith("model_wrappers/") else package / path.partition("/")[2]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
    for folder in (package, *(path for path in package.iterdir() if path.is_dir())):
        (folder / "__init__.py").touch()
    metadata = tmp_path / "site" / "my_assays-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-assays\nVersion: 1.0\n")
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    points = tomllib.loads(re.search(r"```toml\n(.*?)```", text, flags=re.DOTALL)[1])["project"]["entry-points"]
    assert list(points.pop("vl_assay.families")) == ["mean_colour"]
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in of.items()) for group, of in points.items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    commands = [command for command in commands if command.startswith("vl-assay")]
    run(tmp_path, [OUTSIDE, json.dumps(commands)], PYTHONPATH=str(tmp_path / "site"), VL_ASSAY_PLUGINS=str(plugins))
