"""Check a release as those who install it meet it.

    python tests/compatibility/check_release.py [--extras '' '[models]' '[all]']

Builds the wheel and the source distribution twice, which must give the same wheel and the same files, and a wheel from
the source distribution, which must be that of the tree. Installs the wheel in new environments: alone, with `[models]`
and with `[all]`. From an empty folder, each does what its libraries allow, from a report to evaluating the demo model,
and says which extra brings what is missing; the dependencies agree. Exits with 1 when a check fails.
"""

from __future__ import annotations

import argparse
import hashlib
import os
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


# By extra: commands that work with it, and commands that name the extra they need.
LEGS: dict[str, tuple[list[str], dict[str, str]]] = {
    "": (
        [
            "list",
            "report SHIPPED",
            "compare SHIPPED OTHER",
            "install sugarcrepe_itm",
            "build toy_scenes/groups --out built",
        ],
        {"run": "models", "audit toy_scenes/itm": "authoring", "leaderboard": "space"},
    ),
    "[models]": (["run --limit 50", "list"], {"audit toy_scenes/itm": "authoring", "leaderboard": "space"}),
    "[all]": (["run --limit 50", "audit toy_scenes/order --out audited", "install"], {}),
}


def check_install(extra: str, wheel: Path, work: Path) -> None:
    """Install the wheel with an extra and use it from an empty folder."""
    # `datasets` reads brackets in a path as a pattern.
    folder = work / (extra.strip("[]") or "core")
    run(sys.executable, "-m", "venv", folder / "venv")
    inside, command = folder / "venv" / "bin" / "python", folder / "venv" / "bin" / "vl-assay"
    run(inside, "-m", "pip", "install", "-q", "--no-compile", f"{wheel}{extra}")
    run(inside, "-m", "pip", "check")
    empty = folder / "empty"
    empty.mkdir()
    variables = {"HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1", "XDG_CACHE_HOME": str(folder / "cache")}
    package = Path(run(inside, "-c", "import vl_assay.space_app as app; print(app.__path__[0])", folder=empty).strip())
    shipped = sorted((package / "launch").glob("*.toy_scenes.itm.parquet"))
    works, refused = LEGS[extra]
    for words in works:
        asked = words.replace("SHIPPED", str(shipped[0])).replace("OTHER", str(shipped[1]))
        run(command, *asked.split(), folder=empty, **variables)
    for words, needed in refused.items():
        done = subprocess.run(
            [command, *words.split()], cwd=empty, env=os.environ | variables, capture_output=True, text=True
        )
        if done.returncode != 1 or f"vl-assay[{needed}]" not in done.stderr or "Traceback" in done.stderr:
            sys.exit(f"wheel{extra}: {words} should name vl-assay[{needed}]; it gave {done.stdout}{done.stderr}")
    if extra == "[all]":
        printed = run(inside, "-c", JOURNEY, folder=empty, **variables).split("\n")
        if printed[0] != "1.0":
            sys.exit(f"wheel{extra}: the metric gave {printed[0]}")
    print(f"wheel{extra}: {', '.join(works)}; named their extra: {', '.join(refused) or 'none'}", flush=True)


def main() -> None:
    """Run the checks that are asked for."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--extras", nargs="*", default=list(LEGS))
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        wheel = check_builds(work)
        for extra in chosen.extras:
            check_install(extra, wheel, work)


if __name__ == "__main__":
    main()
