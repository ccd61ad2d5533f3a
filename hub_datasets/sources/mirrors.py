"""Images of a release out of a dataset of the Hub that has them inside, without their names.

A mirror's rows have the texts of the release, as they are or cleaned, by which each image gets its name back. So the
rows of a build are always those of the release, whichever source its images are from.
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
from .source_files import ImagePaths, check_rows
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
    """The paths of images from the archives of their publisher or, if these cannot be had, from a mirror.

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
        # What the archive gave before it failed is kept, and compared.
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
        """The addresses of images, and where they are from, with what is different there.

        Args:
            wanted: by the name of each image the texts of its rows.
            kept: images of the release itself that are there, with which the mirror's pixels are compared.
            folder: the user's own copy, which may have the mirror's files.
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


def _differing_texts(wanted: Texts, found: Texts) -> str:
    texts = [tuple(each) for rows in wanted.values() for each in rows]
    exact = {tuple(each) for rows in found.values() for each in rows}
    cleaned = {_key(each) for each in exact}
    same, alike = sum(each in exact for each in texts), sum(_key(each) in cleaned for each in texts)
    return (
        f"of {len(texts):,} rows {same:,} have the same text there, {alike - same:,} the same but for cleaning, "
        f"{len(texts) - alike:,} none"
    )


def _differing_pixels(images: ImagePaths, kept: ImagePaths) -> str:
    pairs = [(path, other) for name, path in images.items() if path and (other := kept.get(name))]
    if not pairs:
        return "their pixels were not compared with the release"
    others = sum(open_image(path).tobytes() != open_image(other).tobytes() for path, other in pairs)
    return f"of {len(pairs):,} images that were also fetched from the release {others:,} have other pixels"


def match_by_texts(wanted: Mapping[str, Collection[str]], found: Mapping[str, Collection[str]]) -> dict[str, str]:
    """By the name of each wanted image the found one with most of its texts; none with half of them, or as many others.

    >>> match_by_texts({"a.jpg": ["a cat", "a pet"], "b.jpg": ["a dog", "a pet"], "c.jpg": ["a pet"]},
    ...                {"1": ["a dog", "a pet"], "2": ["a pet", "a cat"]})
    {'a.jpg': '2', 'b.jpg': '1'}
    """
    places: defaultdict[str, set[str]] = defaultdict(set)
    for name, texts in found.items():
        for text in texts:
            places[text].add(name)
    matched = {}
    for name, texts in wanted.items():
        own = set(texts)
        votes = Counter(place for text in own for place in places.get(text, ())).most_common(2)
        if votes and 2 * votes[0][1] > len(own) and (len(votes) == 1 or votes[0][1] > votes[1][1]):
            matched[name] = votes[0][0]
    return matched


def _key(texts: Sequence[str]) -> str:
    """Return what a text shares with its cleaned form: letters and digits of the first words, in small letters."""
    words = (_CLEANED.sub(" ", text.lower()).split()[:_MOST_WORDS] for text in texts)
    return "\n".join("".join(filter(str.isalnum, "".join(each))) for each in words)
