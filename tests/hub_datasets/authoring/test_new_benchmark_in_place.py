"""A benchmark that `new-benchmark` puts beside ours, in a copy of the repository, is one of them for every command."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from new_benchmark_support import photos

ROOT = Path(__file__).parents[3]
COMMANDS = """
new-benchmark swapped photos --work work --into hub_datasets --rules --no-review --kind swap_att --kind replace_att
    --licence cc0-1.0 --config config.yaml
list benchmarks
build swapped --out built
audit swapped --out audited
run demo-clip swapped --out results
publish work/repository me/swapped --dry-run
"""
# In one process, as each command would import the same libraries.
WALK = """
import json, sys, pytest
from vl_assay.metrics.common.command_line import build_app

for command in json.loads(sys.argv[1]):
    build_app()(command.split(), standalone_mode=False)
sys.exit(pytest.main(sys.argv[2:]))
"""


@pytest.mark.slow
def test_it_is_built_audited_scored_and_published_by_its_name_and_holds_what_every_benchmark_holds(tmp_path):
    # The package's name is that of the folder above the four.
    copy = tmp_path / "vl_assay"
    for folder in ("hub_datasets", "metrics", "model_wrappers", "space_app", "tests"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    photos(copy / "photos")
    (copy / "config.yaml").write_text("learned: 1\nmax_blind_accuracy: 0.7\ncopy_images: true\n", encoding="utf-8")
    (copy / "tests" / "sources_swapped.py").write_text("def make(folder):\n    return {}\n", encoding="utf-8")
    commands = re.split(r"\n(?=\S)", COMMANDS.strip())
    suites = [
        "tests/hub_datasets/benchmarks/test_every_benchmark.py",
        "tests/test_structure.py",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-k",
    ]
    walk = subprocess.run(
        [sys.executable, "-c", WALK, json.dumps(commands), *suites, "swapped or builders_import or one_name_do"],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "HF_HOME": str(tmp_path / "home"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    assert walk.returncode == 0, walk.stdout + walk.stderr
    folder = copy / "hub_datasets" / "swapped"
    rows = len((folder / "pairs.jsonl").read_text(encoding="utf-8").split("\n")) - 1
    assert re.search(r"swapped – made on the spot", walk.stdout)
    results = json.loads((copy / "results" / "results.json").read_text(encoding="utf-8"))["results"]
    assert [(result["metric"], result["scores"]["n"]) for result in results] == [("sugarcrepe_itm", rows)]
    # The audit in the card is what the command finds by the benchmark's name.
    audited = json.loads((copy / "audited" / "audit.json").read_text(encoding="utf-8"))
    assert audited == json.loads((copy / "work" / "final-audit" / "audit.json").read_text(encoding="utf-8"))
    for config in ("swap_att", "replace_att"):
        [here], [there] = ((copy / place / config).iterdir() for place in ("built", "work/repository"))
        assert here.read_bytes() == there.read_bytes()
    assert re.search(r"\d  eval\.yaml", walk.stdout)
    found = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", str(folder)], cwd=copy, capture_output=True, text=True
    )
    form = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--no-cache", "--check", str(folder)], cwd=copy, capture_output=True
    )
    assert (found.returncode, form.returncode) == (0, 0), found.stdout
