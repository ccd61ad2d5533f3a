"""Build the documentation site from documents, cards and docstrings: ``python docs/build_site.py [FOLDER]``.

It needs ``pip install -e ".[docs]"`` and no network. Documents stay where a reader of the repository finds them; here
they become pages, the guide one for each section, laid out by ``mkdocs.yml``. The folder (``build/docs`` if none is
given) gets the pages and, in ``site``, the site.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from os.path import relpath
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
FOLDERS = ("metrics", "hub_datasets", "model_wrappers")
API = {
    "Benchmarks": ["hub_datasets"],
    "Models": ["model_wrappers", "model_wrappers.engine.protocol"],
    "Metrics": [
        *(f"metrics.functional.{path.stem}" for path in sorted((ROOT / "metrics" / "functional").glob("[a-z]*.py"))),
        *(f"metrics.estimation.{path.stem}" for path in sorted((ROOT / "metrics" / "estimation").glob("[a-z]*.py"))),
    ],
    "Files": ["metrics.records.predictions", "metrics.records.results"],
}
LINK = re.compile(r"(?<!`)(!?)\[([^\]]*)\]\(([^)\s]+)\)")
EXAMPLE = re.compile(r'^( *)(>>> .*(?:\n\1(?!"""|\s*$).*)*)', re.M)
FENCE = re.compile(r"^(```.*?^```)", re.M | re.S)


def documents() -> dict[str, str]:
    """The page of each document, by its path in the repository."""
    pages = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
    pages |= {f"docs/{path.name}": path.name for path in (ROOT / "docs").glob("*.md")}
    for folder, kind in (("metrics", "metrics"), ("hub_datasets", "benchmarks"), ("model_wrappers", "models")):
        for card in (ROOT / folder).glob("*/README.md"):
            pages[card.relative_to(ROOT).as_posix()] = f"{kind}/{card.parent.name}.md"
    return pages


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and the site make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def sections(text: str) -> dict[str, str]:
    """The sections of the guide as pages, by their anchors; a section's heading becomes its page's title."""
    parts = re.split(r"^## (.+)$", text, flags=re.M)[1:]
    return {
        slug(title): re.sub(r"^##(#+ )", r"#\1", f"# {title}\n{body}", flags=re.M)
        for title, body in zip(parts[::2], parts[1::2], strict=True)
    }


def prose(text: str) -> Iterator[tuple[str, bool]]:
    """The parts of a document, and whether each is prose and not a block of code."""
    for part in FENCE.split(text):
        yield part, not part.startswith("```")


class Site:
    """The pages of the site, and where a link of a document leads on it."""

    def __init__(self) -> None:
        self.pages = documents()
        guide = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
        self.guide = sections(guide)
        self.anchors = {
            slug(heading): name for name, text in self.guide.items() for heading in re.findall(r"^#+ (.+)$", text, re.M)
        }
        self.images: set[str] = set()

    def target(self, link: str, source: str, page: str) -> str | None:
        """Where a link of the document `source`, shown as `page`, leads; None where the site has no such page."""
        path, _, anchor = link.partition("#")
        found = relpath(ROOT / Path(source).parent / path, ROOT).replace("\\", "/") if path else source
        if found == "docs/guide.md":
            name = self.anchors.get(anchor, next(iter(self.guide)))
            where, anchor = f"guide/{name}.md", "" if anchor == name else anchor
        elif found in self.pages:
            where = self.pages[found]
        elif found.endswith((".png", ".svg")):
            self.images.add(found)
            where = f"images/{Path(found).name}"
        else:
            return None
        return relpath(where, Path(page).parent).replace("\\", "/") + (f"#{anchor}" if anchor else "")

    def rewrite(self, text: str, source: str, page: str) -> str:
        """A document as a page: links to other documents lead to their pages, those to code to none."""

        def link(match: re.Match[str]) -> str:
            mark, label, to = match.groups()
            if re.match(r"[a-z]+:", to):
                return match[0]
            new = self.target(to, source, page)
            return f"{mark}[{label}]({new})" if new else label

        return "".join(LINK.sub(link, part) if words else part for part, words in prose(text))

    def write(self, folder: Path) -> None:
        """Write all pages and the images that they show."""
        texts: dict[str, str] = {f"api/{slug(title)}.md": api(title, modules) for title, modules in API.items()}
        for source, page in self.pages.items():
            text = (ROOT / source).read_text(encoding="utf-8")
            text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)
            if source == "docs/guide.md":
                for name, part in self.guide.items():
                    texts[f"guide/{name}.md"] = self.rewrite(part, source, f"guide/{name}.md")
            else:
                texts[page] = self.rewrite(text, source, page)
        for page, text in texts.items():
            (folder / page).parent.mkdir(parents=True, exist_ok=True)
            (folder / page).write_text(text, encoding="utf-8")
        for image in self.images:
            (folder / "images").mkdir(exist_ok=True)
            shutil.copy(ROOT / image, folder / "images")


def api(title: str, modules: list[str]) -> str:
    """A page of docstrings."""
    return f"# {title} in Python\n\n" + "\n".join(f"::: vl_assay.{module}\n" for module in modules)


def write_sources(package: Path) -> None:
    """Write the package's sources where the site reads their docstrings, with examples and formulas as Markdown."""
    for folder in FOLDERS:
        for source in (ROOT / folder).rglob("*.py"):
            text = EXAMPLE.sub(r"\1```pycon\n\1\2\n\1```", source.read_text(encoding="utf-8"))
            copy = package / source.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(re.sub(r"::$", ":", text, flags=re.M), encoding="utf-8")


def navigation(entry: Any, site: Site, pages: Path) -> Any:
    """An entry of the navigation, with "folder/*" replaced by the folder's pages; the guide keeps its order."""
    if isinstance(entry, str) and entry.endswith("/*"):
        found = sorted(path.name for path in (pages / entry[:-2]).glob("*.md"))
        return [
            f"{entry[:-1]}{name}" for name in ([f"{name}.md" for name in site.guide] if "guide" in entry else found)
        ]
    if isinstance(entry, dict):
        return {title: navigation(inner, site, pages) for title, inner in entry.items()}
    return [navigation(inner, site, pages) for inner in entry] if isinstance(entry, list) else entry


def main(folder: Path) -> int:
    """Write the pages, build the site, and return the builder's exit status."""
    shutil.rmtree(folder, ignore_errors=True)
    site = Site()
    site.write(folder / "pages")
    write_sources(folder / "vl_assay")
    config = yaml.safe_load((ROOT / "docs" / "mkdocs.yml").read_text(encoding="utf-8"))
    config["nav"] = navigation(config["nav"], site, folder / "pages")
    written = folder / "mkdocs.yml"
    written.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return subprocess.run(["zensical", "build", "--clean", "--strict", "-f", str(written)]).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "docs"))
