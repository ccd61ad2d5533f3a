"""The splits of Karpathy and Li (2015) for COCO and Flickr30k: their files and photographs.

ARO tests on the test splits, and chooses among its models on COCO's validation split (appendix C.3).
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from ..authoring.text import perturb as shuffling
from ..authoring.text.shuffles import SHUFFLES
from ..sources.builders import SourceBuilder, VerifiedConfig
from ..sources.downloads import looked_in
from ..sources.hub_tables import HubTable, read_table
from ..sources.image_archives import COCO_VAL2014, ImageArchive, fetch_images
from ..sources.records import check_row_count, check_rows
from ..sources.source_files import ImagePaths, SourceFile, data_folder, first_file, is_inner_path

_URL = "https://storage.googleapis.com/sfr-vision-language-research/datasets"
_SCHEMA = {"image": str, "caption": [str]}
# The captions of so many images are tagged together; more at a time saves nothing.
_IMAGES_AT_A_TIME = 50
# The mirror's captions are cleaned of these signs, and cut.
_CLEANED = re.compile(r'[.!"()*#:;~]')
_MOST_WORDS = 30
Entry = dict[str, Any]


class CaptionRelease(NamedTuple):
    """One of the files as released, and the photographs that go with it.

    Attributes:
        file: the file of captions.
        images: how many images it has, and `captions` how many captions.
        photographs: whose photographs they are.
        remedy: how to get them.
        archives: from which they are fetched where the user has none; empty if that is not allowed.
        mirror: a dataset with the photographs, without their names, and the cleaned captions as `correct_caption`, one
            in each row; for photographs without an archive.
        split: which of the splits it is.
    """

    file: SourceFile
    images: int
    captions: int
    photographs: str
    remedy: str
    archives: tuple[ImageArchive, ...] = ()
    mirror: HubTable | None = None
    split: str = "test"


SOURCES = {
    "coco": CaptionRelease(
        SourceFile(
            "coco_karpathy_test.json",
            url=f"{_URL}/coco_karpathy_test.json",
            # As stated by the project LAVIS, which released the file.
            checksum="md5:3ff34b0ef2db02d01c37399f6a2a6cd1",
        ),
        images=5_000,
        captions=25_010,
        photographs="COCO val2014",
        remedy=f"Get {COCO_VAL2014.url} (6 GB) and unzip it in data_dir, as val2014/",
        archives=(COCO_VAL2014,),
    ),
    "flickr30k": CaptionRelease(
        SourceFile("flickr30k_test.json", url=f"{_URL}/flickr30k_test.json"),
        images=1_000,
        captions=5_000,
        photographs="Flickr30k",
        remedy=(
            "Ask for them with the form at https://forms.illinois.edu/sec/229675 and unpack them in data_dir, as "
            "flickr30k-images/"
        ),
        mirror=HubTable(
            "mteb/ARO-Flickr-Order",
            "data/test-*.parquet",
            {"images": "{content}.jpg"},
            "e5d7f3502345b2c398a6645b4d09b44e650287bf",
        ),
    ),
}
SOURCES |= {
    "coco_validation": SOURCES["coco"]._replace(
        file=SourceFile(
            "coco_karpathy_val.json",
            url=f"{_URL}/coco_karpathy_val.json",
            checksum="md5:b273847456ef5580e33713b1f7de52a0",  # as stated by LAVIS, too
        ),
        split="validation",
    ),
    "flickr30k_validation": SOURCES["flickr30k"]._replace(
        file=SourceFile("flickr30k_val.json", url=f"{_URL}/flickr30k_val.json"),
        images=1_014,
        captions=5_070,
        mirror=None,
        split="validation",
    ),
}


@dataclass
class ShuffleConfig(VerifiedConfig):
    """Options of the shuffles of captions.

    Another `seed`, any whole number, makes other permutations. `tagger` finds nouns and adjectives:
    "spacy", "textblob" or "auto", spaCy if it and its model are installed and TextBlob otherwise. `units` are
    what is permuted: "words" without their punctuation, or "tokens", which include punctuation. With `allow_identity`
    a permutation that changes nothing may be drawn. The authors' code has ``units="tokens"`` and
    ``allow_identity=True``.
    """

    seed: int = 0
    tagger: str = "auto"
    units: str = "words"
    allow_identity: bool = False


class KarpathyBuilder(SourceBuilder):
    """A builder that reads one of these files, with an entry of it as a row."""

    config: Any  # a `ShuffleConfig`
    _is_shuffled = True
    _text_shuffles = SHUFFLES

    @property
    @abstractmethod
    def _source(self) -> CaptionRelease:
        """The file of the configuration."""

    @property
    def _folder(self) -> Any:
        source = self._source
        remedy = f"The photographs of {source.photographs} are not downloaded. {source.remedy}"
        remedy = f"{remedy}; or pass with_images=False for the text alone"
        return data_folder(
            self.config.data_dir, remedy, is_needed=self.config.with_images and not (source.archives or source.mirror)
        )

    def _read_rows(self, dl_manager: Any) -> list[Entry]:
        config = self.config
        if self._is_shuffled:
            # Refuses an unknown or missing tagger and an unknown kind of units now.
            shuffling.perturb([], self._text_shuffles, tagger=config.tagger, units=config.units)
        entries, origin = _read_entries(self._source, self._folder, dl_manager, verify=config.verify)
        self._note("captions", origin, self._folder)
        return [{"id": f"{config.name}/{index}", **entry} for index, entry in enumerate(entries)]

    def _find_images(self, dl_manager: Any, rows: list[Entry]) -> ImagePaths:
        """Return the path of each photograph by its file name."""
        folder, source = self._folder, self._source
        images = {row["filename"]: folder and first_file(folder / inside for inside in _places(row)) for row in rows}
        roots = {PurePosixPath(row["path"]).parts[0] for row in rows}
        has_folder = folder and any(
            (parent / root).is_dir() for parent in (folder, folder / "images") for root in roots
        )
        where = f"{folder} (photographs of {source.photographs})"
        if (source.archives or source.mirror) and not has_folder and not any(images.values()):
            remedy = f"put {min(roots)}/ into data_dir, or pass with_images=False"
            with looked_in(folder, _places(rows[0])):
                if source.mirror:
                    captions = {row["filename"]: row["captions"] for row in rows}
                    images, where = _mirrored(captions, source.mirror, folder, dl_manager), source.mirror.source
                else:
                    where = f"the archive {' and '.join(archive.url for archive in source.archives)}"
                    images = fetch_images(images, source.archives, remedy)
            self._note("images", where, folder)
        return self._require_images(rows, images, where, source.remedy)


def _places(row: Entry) -> tuple[str, str, str]:
    """Return the paths at which a user's folder may have the photograph of a row."""
    return row["path"], f"images/{row['path']}", row["filename"]


def perturb(
    entries: Sequence[Entry], shuffles: Sequence[str], config: ShuffleConfig, **options: Any
) -> Iterator[tuple[Entry, Any]]:
    """Yield each entry with its captions and their perturbations, a `Perturbed` of the module that shuffles."""
    options |= {"tagger": config.tagger, "units": config.units, "allow_identity": config.allow_identity}
    for start in range(0, len(entries), _IMAGES_AT_A_TIME):
        batch = entries[start : start + _IMAGES_AT_A_TIME]
        texts = [text for entry in batch for text in entry["captions"]]
        shuffled = shuffling.perturb(texts, shuffles, config.seed, **options)
        end = 0
        for entry in batch:
            captions_of_image = slice(end, end := end + len(entry["captions"]))
            perturbed = {name: results[captions_of_image] for name, results in shuffled.perturbed.items()}
            yield entry, shuffled._replace(captions=shuffled.captions[captions_of_image], perturbed=perturbed)


def _read_entries(
    source: CaptionRelease, folder: Path | None, dl_manager: Any, *, verify: bool
) -> tuple[list[Entry], str]:
    """Read one entry per image of a file: `path`, `filename` and `captions`; also return the file's path or address.

    Raises:
        DataError: the file is malformed or, if `verify`, not the released one; the message names the entry.
        DownloadError: it is not in `folder` and cannot be downloaded.
    """
    seen: dict[str, int] = {}

    def problem(record: Entry) -> str | None:
        if not is_inner_path(record["image"]):
            return f"image {record['image']!r} does not lead to a file in the folder of images"
        if not record["caption"]:
            return "caption is an empty list"
        name, number = PurePosixPath(record["image"]).name, len(seen)
        return None if seen.setdefault(name, number) == number else f"image {record['image']!r} occurs twice"

    rows, origin = source.file.rows(folder, _SCHEMA, dl_manager, verify=verify, count=source.images, problem=problem)
    if verify:
        check_row_count(sum(len(row["caption"]) for row in rows.values()), source.captions, f"{origin}, by caption,")
    entries = [
        {"path": row["image"], "filename": PurePosixPath(row["image"]).name, "captions": row["caption"]}
        for row in rows.values()
    ]
    return entries, origin


def _mirrored(
    captions: Mapping[str, Sequence[str]], mirror: HubTable, folder: Path | None, dl_manager: Any
) -> ImagePaths:
    """Return the addresses of photographs in a mirror, found by their captions; raise as `HubTable.fetch`."""
    schema = {"images": str, "correct_caption": str}
    available: defaultdict[str, list[str]] = defaultdict(list)
    addresses: dict[str, str] = {}
    for path, records, stored in read_table(mirror.find(folder) or mirror.fetch(dl_manager), mirror, schema):
        addresses = stored | addresses
        for row in check_rows(((label, record) for label, _, record in records), schema, str(path)):
            available[row["images"]].append(_cleaned(row["correct_caption"]))
    matched = match_by_texts({name: list(map(_cleaned, texts)) for name, texts in captions.items()}, available)
    return dict.fromkeys(captions) | {name: addresses[match] for name, match in matched.items()}


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


def _cleaned(text: str) -> str:
    """Return what a caption shares with its cleaned form: letters and digits of the first words, in small letters."""
    words = _CLEANED.sub(" ", text.lower()).split()[:_MOST_WORDS]
    return "".join(filter(str.isalnum, "".join(words)))
