"""What the tests of the builders share: a small copy of a benchmark's sources, builders that read it, and its card.

`sources_<name>.py` lays the small copy out, for the suites over every benchmark too. It holds

- `make(folder)`: writes the files and returns the builder's options that they need, such as ``{"verify": False}``;
- `PLACES`: for each folder that it writes, the other places where the builder finds what is in it;
- `CONFIGS`, where the files are of some configurations only: which;
- `VERIFIED`, where a checksum or number of rows is known of some configurations only: which;
- `stored(folder)`, where images are inside files: what stands for them (``parquet_sources.stored_images``).
"""

import importlib
import re
from dataclasses import replace
from pathlib import Path

import datasets
import pytest

from vl_assay.hub_datasets import get_benchmark
from vl_assay.hub_datasets.core.benchmarks import config_names, get_builder, get_card
from vl_assay.hub_datasets.core.build import MissingSourceError
from vl_assay.metrics.common.errors import DataError

_IMAGES = (".jpg", ".jpeg", ".png")


class Small:
    """A user's own small copy of a benchmark's sources in `folder`, and builders that read it.

    A builder gets the options that the copy needs, a cache of its own, and `config` unless it is told another.
    """

    def __init__(self, name, tmp_path, config=None, **options):
        self.name, self.split_of = name, get_benchmark(name).split_of
        self.sources = importlib.import_module(f"sources_{name}")
        # One of each form, and the last one.
        every = list(getattr(self.sources, "CONFIGS", config_names(name)))
        forms = {form_of(name, each): each for each in every[::-1]}
        self.configs = [each for each in every if each in (*forms.values(), every[-1])]
        self.needing = [each for each in config_names(name) if each not in get_benchmark(name).generated]
        # The first and the last, which differ most.
        self.ends = list(dict.fromkeys((self.configs[0], self.configs[-1])))
        self.config = config or self.configs[0]
        self.folder = tmp_path / "sources"
        self.folder.mkdir()
        self.data_dir = self.folder if get_benchmark(name).source else None
        self.options = self.sources.make(self.folder) | options
        self._caches, self._made = tmp_path / "caches", 0

    def builder(self, config=None, **options):
        """A builder of this copy; `data_dir` may be another, None for no copy at all."""
        data_dir = options.pop("data_dir", self.data_dir)
        self._made += 1
        return get_builder(self.name)(
            cache_dir=str(self._caches / str(self._made)),
            dataset_name=self.name,
            config_name=config or self.config,
            data_dir=None if data_dir is None else str(data_dir),
            **self.options | options,
        )

    def build(self, config=None, split=None, **options):
        """A split, by default that which is scored, built into a cache."""
        builder = self.builder(config, **options)
        builder.download_and_prepare()
        return builder.as_dataset(split=split or self.split_of(config or self.config))

    def rows(self, config=None, **options):
        """The rows of that split, streamed, with images as files."""
        return raw(self.builder(config, **options).as_streaming_dataset(split=self.split_of(config or self.config)))

    def error(self, kind, match, config=None, **options):
        """The message of the error before anything is written; `DataError` means damage, not a missing source."""
        builder = self.builder(config, **options)
        with pytest.raises(kind, match=match) as caught:
            builder.download_and_prepare()
        assert kind is not DataError or not isinstance(caught.value, MissingSourceError)
        assert not Path(builder.cache_dir).exists()
        return str(caught.value)

    def images(self):
        """The files of images in the copy, or what stands for those inside other files."""
        if hasattr(self.sources, "stored"):
            return self.sources.stored(self.folder)
        return sorted(path for path in self.folder.rglob("*") if path.suffix in _IMAGES)

    def files(self):
        """The other files in the copy."""
        return sorted(path for path in self.folder.rglob("*") if path.is_file() and path.suffix not in _IMAGES)


def form_of(name, config):
    """What distinguishes the rows of a configuration and their scores from those of others."""
    tasks = [
        replace(each, name="", configs=(), skills=None) for each in get_benchmark(name).tasks if config in each.configs
    ]
    return repr((get_builder(name)(config_name=config).info.features, tasks))


def image_columns(features):
    return [name for name, feature in features.items() if isinstance(feature, datasets.Image)]


def raw(dataset):
    """Rows with images as their files, undecoded."""
    for column in image_columns(dataset.features):
        dataset = dataset.cast_column(column, datasets.Image(decode=False))
    return list(dataset)


def card_table(name, marker):
    """The cells of a table of a benchmark's card, by the first cell of each line."""
    return {line[0]: line[1:] for line in card_lines(name, marker)}


def card_lines(name, marker):
    """The cells of the table between two markers of a benchmark's card, without its head."""
    inside = get_card(name).split(f"<!-- {marker} -->")[1].split(f"<!-- /{marker} -->")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in inside.split("\n") if line][2:]


def paper_text(shared_data, number):
    """The text of a paper; skips the test where it is not there."""
    found = sorted((shared_data / "papers").glob(f"{number}_*.txt"))
    if not found:
        pytest.skip("the paper's text is not there")
    return found[0].read_text(encoding="utf-8")


def hard_positives_tables(shared_data):
    """The rows of Hard Positives, Tables 4-6: words, synonym, number, and the example's three captions."""
    rows = []
    for line in paper_text(shared_data, "003").splitlines():
        cells = line.split("\t")
        example = re.fullmatch(r"O: (.+) HP: (.+) HN: (.+)", cells[-1])
        if len(cells) == 4 and example:
            rows.append((tuple(cells[0].split(", ")), cells[1], int(cells[2]), example.groups()))
    return rows
