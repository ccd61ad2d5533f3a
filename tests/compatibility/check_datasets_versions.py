"""Open built dataset repositories with several versions of `datasets`, and compare every row.

    python tests/compatibility/check_datasets_versions.py [--versions 2.14.7 3.6.0] [--work DIR]

toy_scenes and sugarcrepe (from a few made-up files) are built by this environment. An environment is made for each
version; it opens every configuration and split offline, plain and streaming, and must read the rows that this
environment reads: text, numbers, nesting, nulls and pixels. Where dataset scripts still run (3.6.0), each `builder.py`
runs as one and must give the same rows. Prints a table and exits with 1 when a check fails.

`DIR` keeps the environments for the next time (some 400 MB each); by default they go with the run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VERSIONS = ("2.14.7", "2.21.0", "3.6.0", "4.8.5", "5.2.0")
SCRIPT_VERSION = "3.6.0"
# What was current when a version of `datasets` came out; newer releases no longer work with it.
PINS = {"2": ("numpy<2", "pandas<3", "pyarrow<18", "huggingface_hub<0.26"), "3": ("huggingface_hub<1",)}
CHECKS = ("plain", "streaming", "unknown config", "script")
CATEGORIES = ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
OPTIONS = {"toy_scenes": {"train_scenes": 3}, "sugarcrepe": {"verify": False, "allow_missing": True}}
Digests = dict[str, list[str]]


# --- in the environment of each version: nothing but the standard library and `datasets` ----------------------


def read(job: dict[str, Any]) -> dict[str, Any]:
    """Do one check of one repository or script; return digests of all rows, by configuration and split."""
    import datasets

    check, target, options = job["check"], job["target"], job.get("options", {})
    if check == "unknown config":
        try:
            datasets.load_dataset(target, "no_such_config")
        except ValueError as error:
            return {"raised": str(error)}
        return {"raised": None}
    if check == "script":
        options["trust_remote_code"] = True
    digests = {}
    for config in job["configs"]:
        loaded = datasets.load_dataset(target, config, streaming=check == "streaming", **options)
        for split, rows in loaded.items():
            digests[f"{config}/{split}"] = [digest(row) for row in rows]
    return digests


def digest(row: dict[str, Any]) -> str:
    """A hash over all that a row holds, and over how it is nested."""
    return hashlib.sha256(json.dumps(plain(row), sort_keys=True).encode()).hexdigest()


def plain(value: Any) -> Any:
    """A cell as JSON: a decoded image becomes its mode, size, pixels and the scene that it carries."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return ["bytes", hashlib.sha256(value).hexdigest()]
    if hasattr(value, "tobytes"):
        pixels = hashlib.sha256(value.tobytes()).hexdigest()
        return ["image", value.mode, list(value.size), pixels, value.info.get("scene")]
    return value


# --- in this environment ----------------------------------------------------------------------------------


def build_repositories(folder: Path) -> dict[str, dict[str, Any]]:
    """Build both benchmarks; for each the repository, its configurations and the script that made it."""
    from vl_assay.hub_datasets import build
    from vl_assay.hub_datasets.benchmarks import config_names

    sources = make_sugarcrepe(folder / "sources")
    made = {}
    for name, options in OPTIONS.items():
        data_dir = sources if name == "sugarcrepe" else None
        made[name] = {
            "repository": str(build(name, folder / name, data_dir=data_dir, options=options)),
            "script": str(Path(__file__).parents[2] / "hub_datasets" / name / "builder.py"),
            "configs": config_names(name),
            "script_options": options | ({"data_dir": str(data_dir)} if data_dir else {}),
        }
    return made


def make_sugarcrepe(folder: Path) -> Path:
    """A stand-in for the release: odd keys and white space, letters beyond ASCII, shared and missing images."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(0)
    (folder / "val2017").mkdir(parents=True)
    for number in range(5):
        pixels = rng.integers(0, 256, (30, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "val2017" / f"{number:012d}.jpg")
    for part in ("data", "data_unrefined"):
        (folder / part).mkdir()
        for category in CATEGORIES:
            rows = {
                str(3 * number): {
                    "filename": f"{number % 6:012d}.jpg",
                    "caption": f" A café by {number} trees\n",
                    "negative_caption": f"{number} trees by a café ({category}).",
                }
                for number in range(12)
            }
            (folder / part / f"{category}.json").write_text(json.dumps(rows), encoding="utf-8")
    return folder


def make_environment(version: str, folder: Path) -> Path:
    """The Python of an environment with that version of `datasets`, made unless `folder` has it already."""
    import PIL

    python, done = folder / "bin" / "python", folder / "done"
    if not done.exists():
        run([sys.executable, "-m", "venv", "--clear", str(folder)])
        # The same Pillow everywhere: what is compared is `datasets`, not decoders of JPEG.
        wanted = [f"datasets=={version}", f"pillow=={PIL.__version__}", *PINS.get(version.split(".")[0], ())]
        run([str(python), "-m", "pip", "install", "-q", *wanted])
        done.touch()
    return python


def run_job(python: Path | str, job: dict[str, Any], home: Path) -> dict[str, Any]:
    """Run `read` in another environment, offline and with caches of its own."""
    home.mkdir(parents=True)
    answer = home / "answer.json"
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "PYTHON"))}
    offline = {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    run([str(python), __file__, "--read", json.dumps(job), str(answer)], cwd=home, env={**inherited, **offline})
    return json.loads(answer.read_text())


def run(command: list[str], **options: Any) -> None:
    """Run a command quietly; RuntimeError tells the end of what it said when it fails."""
    process = subprocess.run(command, capture_output=True, text=True, **options)
    if process.returncode:
        raise RuntimeError(process.stderr.strip()[-1000:])


def differences(expected: Digests, found: Digests) -> Iterator[str]:
    """What a reader found that differs, in words."""
    for place in sorted(expected.keys() | found.keys()):
        ours, theirs = expected.get(place), found.get(place)
        if ours is None or theirs is None:
            yield f"{place} is {'unexpected' if ours is None else 'missing'}"
        elif len(ours) != len(theirs):
            yield f"{place} has {len(theirs)} rows instead of {len(ours)}"
        elif ours != theirs:
            rows = [row for row, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1]]
            yield f"{place}: {len(rows)} rows differ, the first is row {rows[0]}"


def check(python: Path, name: str, parts: dict[str, Any], expected: Digests, home: Path) -> list[str]:
    """Do the check `name` in an environment; the faults that it found."""
    job = {"check": name, "target": parts["repository"], "configs": parts["configs"]}
    if name == "script":
        job |= {"target": parts["script"], "options": parts["script_options"]}
    try:
        found = run_job(python, job, home)
    except RuntimeError as error:
        return [str(error)]
    if name == "unknown config":
        message = found["raised"] or "no ValueError"
        return [] if parts["configs"][0] in message else [f"answered with: {message}"]
    return list(differences(expected, found))


def check_versions(versions: list[str], environments: Path, scratch: Path) -> Iterator[tuple[str, str, str, list[str]]]:
    """Build and read with every version; (version, benchmark, check, faults) for each check."""
    made = build_repositories(scratch)
    expected = {}
    for benchmark, parts in made.items():
        job = {"check": "plain", "target": parts["repository"], "configs": parts["configs"]}
        expected[benchmark] = run_job(sys.executable, job, scratch / "here" / benchmark)
        print(f"{benchmark}: {sum(map(len, expected[benchmark].values())):,} rows in {len(expected[benchmark])} splits")
    for version in versions:
        try:
            python = make_environment(version, environments / version)
        except RuntimeError as error:
            yield version, "", "plain", [f"cannot be installed: {error}"]
            continue
        for benchmark, parts in made.items():
            for name in CHECKS if version == SCRIPT_VERSION else CHECKS[:-1]:
                home = scratch / version / benchmark / name.replace(" ", "-")
                yield version, benchmark, name, check(python, name, parts, expected[benchmark], home)


def report(results: list[tuple[str, str, str, list[str]]]) -> bool:
    """Print the table and the faults; whether there were none."""
    from rich.console import Console
    from rich.table import Table

    table = Table("datasets", "benchmark", *CHECKS)
    cells = {(version, benchmark): dict.fromkeys(CHECKS, "-") for version, benchmark, _, _ in results}
    for version, benchmark, name, faults in results:
        cells[version, benchmark][name] = "FAILED" if faults else "ok"
    for place, outcomes in cells.items():
        table.add_row(*place, *outcomes.values())
    Console().print(table)
    failures = [f"{version} {name} {what}: {fault}" for version, name, what, faults in results for fault in faults]
    print(*failures, sep="\n", end="\n" if failures else "")
    return not failures


def main() -> int:
    """Parse the command line and run; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", nargs="+", default=list(VERSIONS), metavar="VERSION")
    parser.add_argument("--work", type=Path, metavar="DIR", help="keep the environments here")
    parser.add_argument("--read", nargs=2, metavar=("JOB", "ANSWER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        job, answer = arguments.read
        Path(answer).write_text(json.dumps(read(json.loads(job))))
        return 0
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        environments = (arguments.work or scratch / "environments").absolute()
        return 0 if report(list(check_versions(arguments.versions, environments, scratch))) else 1


if __name__ == "__main__":
    sys.exit(main())
