"""Open built dataset repositories with several versions of `datasets`, and compare every row.

    python tests/compatibility/check_datasets_versions.py [--versions 2.14.7 3.6.0] [--only toy_scenes] [--work DIR]

Every benchmark is built by this environment, from the small files of `tests/support/sources_<name>.py`; where images
may be missing, one is. An environment is made for each version; it opens every configuration and split offline, plain
and streaming, and must read the rows that this environment reads: text, numbers, nesting, nulls and pixels. Prints a
table and exits with 1 when a check fails.

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
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VERSIONS = ("2.14.7", "2.21.0", "3.6.0", "4.8.5", "5.2.0")
# What was current when a version of `datasets` came out; newer releases no longer work with it.
PINS = {"2": ("numpy<2", "pandas<3", "pyarrow<18", "huggingface_hub<0.26"), "3": ("huggingface_hub<1",)}
CHECKS = ("plain", "streaming")
# Beside those that the sources ask for: a train split too.
OPTIONS = {"toy_scenes": {"train_scenes": 3}}
TESTS = Path(__file__).parents[1]
Digests = dict[str, list[str]]


def read(job: dict[str, Any]) -> dict[str, Any]:
    """Do the checks of one benchmark; what each found, or how it failed.

    This and what it calls runs in the environment of each version: it has the standard library and `datasets` alone.
    """
    answers = {}
    for name in job["checks"]:
        try:
            answers[name] = {"found": read_rows(name, job)}
        except Exception:
            answers[name] = {"failed": traceback.format_exc()[-1000:]}
    return answers


def read_rows(name: str, job: dict[str, Any]) -> Digests:
    """Digests of all rows, by configuration and split."""
    import datasets

    digests: Digests = {}
    for config in job["configs"]:
        loaded = datasets.load_dataset(job["repository"], config, streaming=name == "streaming")
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


def build_repositories(folder: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    """Build the benchmarks; return the repository and the configurations of each."""
    from builder_support import Small

    from vl_assay.hub_datasets import build
    from vl_assay.hub_datasets.core.benchmarks import option_names

    made = {}
    for name in names:
        (folder / "small" / name).mkdir(parents=True)
        small = Small(name, folder / "small" / name, **OPTIONS.get(name, {}))
        options, data_dir = small.options, small.data_dir
        if name == "sugarcrepe":
            add_unrefined(small.folder)
        if "allow_missing" in option_names(name):
            options["allow_missing"] = True
            small.images()[0].unlink()
        left_out: dict[str, Exception] = {}
        out = build(name, folder / name, data_dir=data_dir, options=options, on_error=left_out.__setitem__)
        for config, error in left_out.items():
            print(f"{name}/{config} is left out: {str(error)[:160]}")
        made[name] = {
            "repository": str(out),
            "configs": sorted(json.loads((out / "build.json").read_text())["configs"]),
        }
    return made


def add_unrefined(sources: Path) -> None:
    """Sources of the unrefined configurations too, with letters beyond ASCII and odd white space."""
    for path in sorted((sources / "data").glob("*.json")):
        target = sources / "data_unrefined" / path.name
        target.parent.mkdir(exist_ok=True)
        target.write_text(path.read_text(encoding="utf-8").replace("number", "café\\n "), encoding="utf-8")


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


def check(
    python: Path, parts: dict[str, Any], expected: Digests, checks: list[str], home: Path
) -> dict[str, list[str]]:
    """Do checks of a benchmark in an environment; the faults that each found."""
    try:
        answers = run_job(python, {**parts, "checks": checks}, home)
    except RuntimeError as error:
        return {name: [str(error)] for name in checks}
    return {
        name: [answer["failed"]] if "failed" in answer else list(differences(expected, answer["found"]))
        for name, answer in answers.items()
    }


def check_versions(
    versions: list[str], names: list[str], environments: Path, scratch: Path
) -> Iterator[tuple[str, str, str, list[str]]]:
    """Build and read with every version; (version, benchmark, check, faults) for each check."""
    made = build_repositories(scratch, names)
    expected: dict[str, Digests] = {}
    for benchmark, parts in made.items():
        [answer] = run_job(sys.executable, {**parts, "checks": ["plain"]}, scratch / "here" / benchmark).values()
        if "failed" in answer:
            raise RuntimeError(f"{benchmark} cannot be read by this environment: {answer['failed']}")
        expected[benchmark] = answer["found"]
        print(
            f"{benchmark}: {sum(map(len, answer['found'].values())):,} rows in {len(answer['found'])} splits",
            flush=True,
        )
    for version in versions:
        try:
            python = make_environment(version, environments / version)
        except RuntimeError as error:
            yield version, "", "plain", [f"cannot be installed: {error}"]
            continue
        for benchmark, parts in made.items():
            found = check(python, parts, expected[benchmark], list(CHECKS), scratch / version / benchmark)
            yield from ((version, benchmark, name, wrong) for name, wrong in found.items())


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
    parser.add_argument("--only", nargs="+", metavar="BENCHMARK", help="these benchmarks; all by default")
    parser.add_argument("--work", type=Path, metavar="DIR", help="keep the environments here")
    parser.add_argument("--read", nargs=2, metavar=("JOB", "ANSWER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        job, answer = arguments.read
        Path(answer).write_text(json.dumps(read(json.loads(job))))
        return 0
    sys.path[:0] = [str(TESTS), str(TESTS / "support")]
    import conftest  # gives this process caches of its own, and the sources their helpers

    from vl_assay.hub_datasets import benchmark_names

    try:
        with tempfile.TemporaryDirectory() as temporary:
            scratch = Path(temporary)
            environments = (arguments.work or scratch / "environments").absolute()
            names = arguments.only or benchmark_names()
            return 0 if report(list(check_versions(arguments.versions, names, environments, scratch))) else 1
    finally:
        conftest.pytest_unconfigure()


if __name__ == "__main__":
    sys.exit(main())
