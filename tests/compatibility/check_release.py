"""Check a release as those who install it meet it.

    python tests/compatibility/check_release.py [--pythons python3.11 python3.12] [--oldest]

Builds the wheel and the source distribution twice, which must give the same wheel and the same files, and a wheel from
the source distribution, which must be that of the tree. Installs the wheel with `[all]` in a new environment of each
Python and, from an empty folder, evaluates the demo model, loads a metric and a dataset by name, and checks that the
dependencies agree. `--oldest` runs the tests with the oldest dependencies that pyproject.toml allows, as `uv` (which
must be installed) finds them. Exits with 1 when a check fails.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
JOURNEY = """
import evaluate, datasets
print(evaluate.load("sugarcrepe_itm").compute(predictions=[[1, 0]], references=[0])["accuracy"])
print(datasets.load_dataset("toy_scenes", "itm", split="test")[0]["caption"])
"""


def run(*command: object, folder: Path = ROOT, **variables: str) -> str:
    """Run a command and return what it prints; its errors end the check."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=os.environ | variables, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def build(tree: Path, out: Path, kind: str) -> Path:
    """A wheel or source distribution of a tree, dated by the last commit."""
    date = run("git", "log", "-1", "--format=%ct").strip()
    run(sys.executable, "-m", "build", "-q", f"--{kind}", "--outdir", out, tree, SOURCE_DATE_EPOCH=date)
    (built,) = out.iterdir()
    return built


def contents(archive: Path) -> dict[str, str]:
    """The hash of each file of a wheel or source distribution."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {name: hashlib.sha256(wheel.read(name)).hexdigest() for name in wheel.namelist()}
    with tarfile.open(archive) as source:
        files = [(member.name, source.extractfile(member)) for member in source if member.isfile()]
        return {name: hashlib.sha256(file.read()).hexdigest() for name, file in files if file}


def check_builds(work: Path) -> Path:
    """Build everything twice and compare; the wheel."""
    trees = []
    for name in ("first", "second"):  # setuptools leaves files in a tree, so each build has a fresh one
        run("git", "clone", "-q", ROOT, work / name)
        trees.append(work / name)
    wheels = [build(tree, work / f"wheel-{tree.name}", "wheel") for tree in trees]
    sources = [build(tree, work / f"source-{tree.name}", "sdist") for tree in trees]
    if wheels[0].read_bytes() != wheels[1].read_bytes():
        sys.exit("two builds of one commit gave different wheels")
    if contents(sources[0]) != contents(sources[1]):
        sys.exit("two builds of one commit gave source distributions with different files")
    with tarfile.open(sources[0]) as source:
        source.extractall(work / "unpacked", filter="data")
    (unpacked,) = (work / "unpacked").iterdir()
    again = contents(build(unpacked, work / "wheel-again", "wheel"))
    # The list of files in the metadata names a file that only a tree of a source distribution has.
    differing = {name for name, digest in contents(wheels[0]).items() if again.get(name) != digest}
    if differing:
        sys.exit(f"the wheel of the source distribution differs: {sorted(differing)[:5]}")
    print(
        f"built twice, the same: {wheels[0].name} ({wheels[0].stat().st_size:,} bytes), {sources[0].name}", flush=True
    )
    return wheels[0]


def check_python(python: str, wheel: Path, work: Path) -> None:
    """Install the wheel for a Python and use it from an empty folder."""
    folder = work / python.replace(os.sep, "-")
    run(python, "-m", "venv", folder / "venv")
    inside = folder / "venv" / "bin" / "python"
    run(inside, "-m", "pip", "install", "-q", "--no-compile", f"{wheel}[all]")
    run(inside, "-m", "pip", "check")
    (folder / "empty").mkdir()
    variables = {"HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1", "XDG_CACHE_HOME": str(folder / "cache")}
    command = folder / "venv" / "bin" / "vl-assay"
    run(command, "run", "--limit", 50, folder=folder / "empty", **variables)
    run(command, "install", folder=folder / "empty", **variables)
    printed = run(inside, "-c", JOURNEY, folder=folder / "empty", **variables).split("\n")
    if printed[0] != "1.0":
        sys.exit(f"{python}: the metric gave {printed[0]}")
    print(f"{python}: installed, evaluated the demo model, loaded a metric and a dataset", flush=True)


def check_oldest(python: str, work: Path) -> None:
    """Run the tests with the oldest dependencies that are allowed, and the newest tools of the tests."""
    if not shutil.which("uv"):
        sys.exit("--oldest needs uv: pip install uv")
    oldest, inside = work / "oldest.txt", work / "oldest" / "bin" / "python"
    compiled = ("--extra", "all", "--resolution", "lowest-direct", "--python", python)
    run("uv", "pip", "compile", "-q", "pyproject.toml", *compiled, "-o", oldest)
    run("uv", "venv", "-q", "--python", python, work / "oldest")
    run("uv", "pip", "install", "-q", "--python", inside, "-r", oldest)
    run("uv", "pip", "install", "-q", "--python", inside, "-c", oldest, "-e", ".[test]")
    print("the tests with the oldest dependencies", flush=True)
    if subprocess.run([inside, "-m", "pytest"], cwd=ROOT).returncode:
        sys.exit("the tests fail with the oldest dependencies")


def main() -> None:
    """Run the checks that are asked for."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pythons", nargs="*", default=[sys.executable])
    options.add_argument("--oldest", action="store_true")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        wheel = check_builds(work)
        for python in chosen.pythons:
            check_python(python, wheel, work)
        if chosen.oldest:
            check_oldest(chosen.pythons[0] if chosen.pythons else sys.executable, work)


if __name__ == "__main__":
    main()
