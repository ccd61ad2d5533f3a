"""The files of a Space: its own, the parts of this package that it needs, and pinned requirements.

VL-Assay is not on a package index, and a Space installs its requirements before its own files are there. So the package
is copied into a folder next to ``app.py``, where Python finds it without installing, with metadata for its version. Its
requirements are pinned to the versions that are installed where the Space is published.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from ...metrics.common.errors import DataError

NAME = "vl-assay"
PACKAGE = Path(__file__).parents[2]
CARRIED = ("vl_assay/", "vl_assay-")  # prefixes of the copied files
_REQUIREMENTS = f"{NAME}[space]\n"
_FOLDERS = ("metrics", "hub_datasets", "space_app")  # each imports only itself and those before it


def files_in(folder: Path) -> dict[str, Path]:
    """Return the files below a folder by relative path, without caches and hidden files."""
    paths = ((path, path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        inside.as_posix(): path
        for path, inside in paths
        if not any(name.startswith(".") or name == "__pycache__" for name in inside.parts)
    }


def space_files(folder: Path) -> dict[str, Path | bytes]:
    """Return all files of a Space, by their paths in its repository.

    Args:
        folder: with the Space's card. If it is itself a part of this package, only its card, ``app.py`` and
            requirements go to the top of the repository.

    Returns:
        For each path the file to copy, or its content. The card gets the installed versions of gradio and Python; in
        ``requirements.txt`` a line for vl-assay is replaced by its requirements, pinned.

    Raises:
        DataError: a requirement of the Space is not installed, so that its version was not tested.
    """
    space_files = files_in(folder)
    if "__init__.py" in space_files:
        space_files = {
            name: path for name, path in space_files.items() if name in ("README.md", "app.py", "requirements.txt")
        }
    sources = "\n".join(path.read_text(encoding="utf-8") for path in space_files.values() if path.suffix == ".py")
    imported = [number for number, name in enumerate(_FOLDERS, 1) if re.search(rf"\bvl_assay\.{name}\b", sources)]
    if not imported:
        return {**space_files}
    package = {
        f"vl_assay/{name}/{inside}": path
        for name in _FOLDERS[: max(imported)]
        for inside, path in files_in(PACKAGE / name).items()
    }
    file = space_files.get("requirements.txt")
    requirements = file.read_text(encoding="utf-8") if file else _REQUIREMENTS
    card = space_files["README.md"].read_text(encoding="utf-8")
    python = f'"{sys.version_info.major}.{sys.version_info.minor}"'
    try:
        for key, value in (("sdk_version", version("gradio")), ("python_version", python)):
            card = re.sub(rf"^{key}: .*$", f"{key}: {value}", card, count=1, flags=re.MULTILINE)
        written = {
            "README.md": card,
            "requirements.txt": pinned(requirements),
            f"vl_assay-{version(NAME)}.dist-info/METADATA": (
                f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version(NAME)}\n"
            ),
        }
    except PackageNotFoundError as error:
        raise DataError(
            f"a Space is pinned to the versions that are installed here, and {error.name} is not; "
            "pip install 'vl-assay[space]', and try the page before it is published"
        ) from error
    return {**space_files, **package, **{path: text.encode() for path, text in written.items()}}


def pinned(requirements: str) -> str:
    """Return a ``requirements.txt`` in which vl-assay's requirements, in the installed versions, replace its line."""
    lines: list[str] = []
    for line in requirements.splitlines():
        lines += sorted(set(_pins(line))) if line.startswith(NAME) else [line]
    return "\n".join(lines) + "\n"


def _pins(line: str) -> Iterator[str]:
    from packaging.requirements import Requirement

    asked = Requirement(line)
    for text in distribution(asked.name).requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in asked.extras):
            extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
            if requirement.name == asked.name:
                yield from _pins(requirement.name + extras)
            else:
                yield f"{requirement.name}{extras}=={version(requirement.name)}"
