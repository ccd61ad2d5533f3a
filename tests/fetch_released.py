"""Download the released annotations that some tests compare with, and which are not copied into this repository.

`python tests/fetch_released.py FOLDER`, then `VL_ASSAY_SHARED=FOLDER pytest`. The addresses are pinned to commits of
the authors' repositories, whose licences come along; every file must have the checksum in `released_files.txt`. What
is there already is not downloaded again. Only the standard library is used: continuous integration calls this before
the package is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from urllib.request import urlopen

FILES = Path(__file__).with_name("released_files.txt")
# The largest file has 1 MB.
_MOST_BYTES = 4 << 20


def fetch(folder: Path, table: Path = FILES) -> int:
    """Download what is missing into ``folder/data``; return the number of files that could not be had."""
    failed = 0
    for line in table.read_text("utf-8").splitlines():
        checksum, name, address = line.split()
        path = folder / "data" / name
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == checksum:
            continue
        try:
            with urlopen(address, timeout=60) as reply:
                content = reply.read(_MOST_BYTES)
        except OSError as error:
            failed += 1
            print(f"{name}: {address}: {error}", file=sys.stderr)
            continue
        if hashlib.sha256(content).hexdigest() != checksum:
            failed += 1
            print(f"{name}: {address} has another content than the tests know", file=sys.stderr)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where data/ is made, outside the repository")
    sys.exit(min(fetch(parser.parse_args().folder), 1))
