"""Mirrors: datasets of the Hub that contain the images of a release without their names.

A mirror's rows contain the texts of the release, unchanged or cleaned, and each image is identified by them. So a build
always has the rows of the release, from whichever source its images are.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .crops import open_image
from .downloads import first_source
from .hub_tables import HubTable, read_table
from .image_archives import ImageArchive, fetch_images, kept_images
from .records import check_rows
from .source_files import ImagePaths
from .stored_images import find_stored

# Code for retrieval cleans captions of these signs, and cuts them.
_CLEANED = re.compile(r'[.!"()*#:;~]')
_MOST_WORDS = 30
# By the name of an image the texts of its rows, of which each may have several.
Texts = Mapping[str, Sequence[Sequence[str]]]


def fetch_or_mirror(
    texts: Texts,
    archives: Sequence[ImageArchive],
    mirror: ImageMirror | None,
    folder: Path | None,
    dl_manager: Any,
    remedy: str,
) -> tuple[ImagePaths, str]:
    """Return the paths of images from the archives of their publisher or, if these are not available, from a mirror.

    Args:
        texts: by the name of each image the texts of its rows, for the mirror.
        archives, remedy: as for `fetch_images`.
        mirror: a dataset with the images, if one is known; one of both there must be.
        folder, dl_manager: as for `ImageMirror.find_images`.

    Returns:
        The paths, None for missing images; and where they are from, for messages and for the build's record.

    Raises:
        DownloadError: no source can be had; `NoSourceError` if there are several.
        DataError: as `ImageMirror.find_images`, if that is the only source.
    """
    sources: list[tuple[str, Callable[[], tuple[ImagePaths, str]]]] = []
    if archives:
        where = " and ".join(archive.url for archive in archives)
        sources.append((where, lambda: (fetch_images(texts, archives, remedy), f"the archive {where}")))
    if mirror:
        # Files read from the archive before it failed are kept, and compared.
        find = mirror.find_images
        sources.append((mirror.table.source, lambda: find(texts, kept_images(texts, archives), folder, dl_manager)))
    return first_source("images", sources)


@dataclass(frozen=True)
class ImageMirror:
    """A dataset of the Hub with the images of a release.

    Args:
        table: its files; the one column of images is named by content.
        texts: its columns of the texts that also the release has, in the order in which `find_images` is given them.
    """

    table: HubTable
    texts: tuple[str, ...]

    def find_images(
        self, wanted: Texts, kept: ImagePaths, folder: Path | None, dl_manager: Any
    ) -> tuple[ImagePaths, str]:
        """Return the addresses of images, and their origin with its differences from the release.

        Args:
            wanted: by the name of each image the texts of its rows.
            kept: images of the release itself that are there, with which the mirror's pixels are compared.
            folder: the user's copy, which may have the mirror's files.
            dl_manager: a `datasets.DownloadManager`.

        Raises:
            MissingSourceError: as `HubTable.fetch`.
            DataError: damaged files, or of other columns.
        """
        [column] = self.table.images
        schema = {column: str, **dict.fromkeys(self.texts, str)}
        found: dict[str, list[tuple[str, ...]]] = {}
        addresses: dict[str, str] = {}
        paths = self.table.find(folder) or self.table.fetch(dl_manager)
        for path, named, stored in read_table(paths, self.table, schema):
            addresses = stored | addresses
            for row in check_rows(((label, record) for label, _, record in named), schema, str(path)):
                found.setdefault(row[column], []).append(tuple(row[name] for name in self.texts))
        matched = match_by_texts(
            *({name: list(map(_key, texts)) for name, texts in rows.items()} for rows in (wanted, found))
        )
        images = find_stored({name: addresses[other] for name, other in matched.items()})
        differences = f"{_differing_texts(wanted, found)}; {_differing_pixels(images, kept)}"
        return dict.fromkeys(wanted) | images, f"{self.table.source}, by the texts of their rows ({differences})"


def _differing_texts(wanted: Texts, mirrored: Texts) -> str:
    texts = [tuple(text) for rows in wanted.values() for text in rows]
    exact = {tuple(text) for rows in mirrored.values() for text in rows}
    cleaned = {_key(text) for text in exact}
    same, alike = sum(text in exact for text in texts), sum(_key(text) in cleaned for text in texts)
    return (
        f"of {len(texts):,} rows {same:,} have the same text there, {alike - same:,} the same but for cleaning, "
        f"{len(texts) - alike:,} none"
    )


def _differing_pixels(images: ImagePaths, cached: ImagePaths) -> str:
    pairs = [(path, released) for name, path in images.items() if path and (released := cached.get(name))]
    if not pairs:
        return "their pixels were not compared with the release"
    differing = sum(open_image(path).tobytes() != open_image(released).tobytes() for path, released in pairs)
    return f"of {len(pairs):,} images that were also fetched from the release {differing:,} have other pixels"


def match_by_texts(wanted: Mapping[str, Collection[str]], available: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Match each wanted image to the one that shares most of its texts: over half of them, and more than any other.

    >>> match_by_texts({"a.jpg": ["a cat", "a pet"], "b.jpg": ["a dog", "a pet"], "c.jpg": ["a pet"]},
    ...                {"1": ["a dog", "a pet"], "2": ["a pet", "a cat"]})
    {'a.jpg': '2', 'b.jpg': '1'}
    """
    names_by_text: defaultdict[str, set[str]] = defaultdict(set)
    for name, texts in available.items():
        for text in texts:
            names_by_text[text].add(name)
    matched = {}
    for name, texts in wanted.items():
        distinct = set(texts)
        votes = Counter(match for text in distinct for match in names_by_text.get(text, ())).most_common(2)
        if votes and 2 * votes[0][1] > len(distinct) and (len(votes) == 1 or votes[0][1] > votes[1][1]):
            matched[name] = votes[0][0]
    return matched


def _key(texts: Sequence[str]) -> str:
    """Return what a text shares with its cleaned form: letters and digits of the first words, in small letters."""
    words = (_CLEANED.sub(" ", text.lower()).split()[:_MOST_WORDS] for text in texts)
    return "\n".join("".join(filter(str.isalnum, "".join(each))) for each in words)
