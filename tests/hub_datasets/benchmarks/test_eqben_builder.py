"""The EqBen builder: subsets by folder, frames that are arrays, the full set, and how it names what is wrong."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import sources_eqben as sources
from builder_support import Small
from PIL import Image

from vl_assay.hub_datasets.core.build import MissingSourceError
from vl_assay.hub_datasets.eqben.builder import FULL_COUNTS, frame_as_png
from vl_assay.metrics.common.errors import DataError


@pytest.fixture
def small(tmp_path):
    return Small("eqben", tmp_path)


def write_frames(folder):
    """The groups of YouCook2 with their frames, in blue, green and red; by name the frames in red, green and blue."""
    groups = sources.groups(("eqbenyoucook2",), "npy")
    (folder / sources.SUBSET).write_text(json.dumps(groups), encoding="utf-8")
    rng, frames = np.random.default_rng(0), {}
    for name in (group[f"image{side}"] for group in groups for side in "01"):
        frames[name] = rng.integers(0, 256, (6, 9, 3), dtype=np.uint8)
        path = folder / "image_subset" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, frames[name][:, :, ::-1])
    return frames


def test_frames_that_are_arrays_become_png_files_in_red_green_and_blue(small):
    frames = write_frames(small.folder)
    for row in small.rows("eqbenyoucook2"):
        for side in "01":
            image, name = row[f"image_{side}"], row[f"filename_{side}"]
            assert image["path"] == str(Path(name).with_suffix(".png"))
            assert np.array_equal(np.asarray(Image.open(io.BytesIO(image["bytes"]))), frames[name])


class Evil:
    def __reduce__(self):
        return exec, ("raise SystemExit('unpickled')",)


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (np.zeros((4, 4), np.uint8), r"uint8 of shape \(4, 4\)"),
        (np.zeros((4, 4, 3)), "float64"),
        (np.zeros((0, 4, 3), np.uint8), r"\(0, 4, 3\)|mmap"),
        (np.array([Evil()]), "not a file of NumPy with an array"),
    ],
)
def test_a_file_that_holds_no_frame_is_refused_and_never_unpickled(tmp_path, array, found):
    np.save(tmp_path / "frame.npy", array, allow_pickle=True)
    with pytest.raises(DataError, match=found):
        frame_as_png(str(tmp_path / "frame.npy"))


def test_a_frame_that_claims_more_than_its_file_holds_is_refused(tmp_path):
    path = tmp_path / "frame.npy"
    np.save(path, np.zeros((4, 4, 3), np.uint8))
    path.write_bytes(path.read_bytes().replace(b"(4, 4, 3)", b"(99999, 99999, 3)"))
    with pytest.raises(DataError, match=r"frame\.npy"):
        frame_as_png(str(path))


def test_the_full_set_has_its_own_file_and_the_published_counts(small):
    small.error(
        MissingSourceError, "has none of private_info_global.json.*gdown 1gNR4K2Cv4rbnjVRdHuBV6PuoJ5MlRXnZ", full=True
    )
    (small.folder / sources.FULL).write_text(json.dumps(sources.groups()), encoding="utf-8")
    small.error(DataError, "has 2 groups of eqbensd, but the release has 1,513", "eqbensd", full=True)
    assert sum(FULL_COUNTS.values()) == 195_872 + 45_849 + 1_814 + 3 * 2_000 + 1_513
