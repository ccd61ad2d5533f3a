"""Open built dataset repositories with several versions of `datasets`, and compare every row.

    python tests/compatibility/check_datasets_versions.py [--versions 2.14.7 3.6.0] [--only toy_scenes]

Every benchmark is built by this environment, from the small files of `tests/support/sources_<name>.py`; where images
may be missing, one is. An environment is made for each version; it opens every configuration and split offline, plain
and streaming, and must read the rows that this environment reads: text, numbers, nesting, nulls and pixels. Prints what
each found and exits with 1 when rows differ or cannot be read.
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
from pathlib import Path
from typing import Any

VERSIONS = ("2.14.7", "2.21.0", "3.6.0", "4.8.5", "5.2.0")
# What was current when a version of `datasets` came out; newer releases no longer work with it.
PINS = {"2": ("numpy<2", "pandas<3", "pyarrow<18", "huggingface_hub<0.26"), "3": ("huggingface_hub<1",)}
# Beside those that the sources ask for: a train split too.
OPTIONS = {"toy_scenes": {"train_scenes": 3}}
TESTS = Path(__file__).parents[1]
# Digests of rows by configuration and split, or how reading failed; plain and streaming.
Found = dict[str, Any]


def read(job: dict[str, Any]) -> Found:
    """Read all rows of a repository.

    This and what it calls runs in the environment of each version: it has the standard library and `datasets` alone.
    """
    import datasets

    found: Found = {}
    for streaming in (False, True):
        for config in job["configs"]:
            place = f"{config}, {'streaming' if streaming else 'plain'}"
            try:
                loaded = datasets.load_dataset(job["repository"], config, streaming=streaming)
                found[place] = {split: [digest(row) for row in rows] for split, rows in loaded.items()}
            except Exception:
                found[place] = traceback.format_exc()[-1000:]
    return found


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
    """The Python of a new environment with that version of `datasets`."""
    import PIL

    run([sys.executable, "-m", "venv", str(folder)])
    # The same Pillow everywhere: what is compared is `datasets`, not decoders of JPEG.
    wanted = [f"datasets=={version}", f"pillow=={PIL.__version__}", *PINS.get(version.split(".")[0], ())]
    run([str(folder / "bin" / "python"), "-m", "pip", "install", "-q", *wanted])
    return folder / "bin" / "python"


def read_with(python: Path | str, job: dict[str, Any], home: Path) -> Found:
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


def check_versions(versions: list[str], names: list[str], scratch: Path) -> int:
    """Build, and read with every version; the number of places whose rows are not those of this environment."""
    faults = 0
    made = build_repositories(scratch, names)
    expected = {name: read_with(sys.executable, job, scratch / "here" / name) for name, job in made.items()}
    for version in versions:
        python = make_environment(version, scratch / "environments" / version)
        for name, job in made.items():
            found = read_with(python, job, scratch / version / name)
            differing = {
                place: rows for place, rows in found.items() if rows != expected[name][place] or isinstance(rows, str)
            }
            print(f"datasets {version}, {name}: {len(found) - len(differing)} of {len(found)} as expected", flush=True)
            for place, rows in differing.items():
                print(f"  {place}: {rows if isinstance(rows, str) else 'other rows'}")
            faults += len(differing)
    return faults


def main() -> int:
    """Parse the command line and run; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", nargs="+", default=list(VERSIONS), metavar="VERSION")
    parser.add_argument("--only", nargs="+", metavar="BENCHMARK", help="these benchmarks; all by default")
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
        with tempfile.TemporaryDirectory() as scratch:
            return int(check_versions(arguments.versions, arguments.only or benchmark_names(), Path(scratch)) > 0)
    finally:
        conftest.pytest_unconfigure()


if __name__ == "__main__":
    sys.exit(main())
