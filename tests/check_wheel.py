"""Check that a wheel holds exactly the files of the four folders that belong in it. Run by ``.ci/run``."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("hub_datasets", "metrics", "model_wrappers", "space_app")


def expected() -> set[str]:
    """The files that git tracks in the four folders, as paths in the wheel."""
    tracked = subprocess.run(
        ["git", "ls-files", "--", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return {f"vl_assay/{path}" for path in tracked}


def main(wheel: str) -> int:
    """Compare and print the differences; the exit status."""
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    missing, extra = sorted(expected() - packed), sorted(packed - expected())
    for title, names in (("not in the wheel", missing), ("only in the wheel", extra)):
        for name in names:
            print(f"{title}: {name}")
    print(f"{len(packed)} files in the wheel, {len(missing)} missing, {len(extra)} too many")
    return 1 if missing or extra else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
