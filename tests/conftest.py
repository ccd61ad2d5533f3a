"""Every test runs offline, with caches of its own, and finds the released data where there are any."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings

# The Hugging Face libraries read the environment when the tests import them, which is after this file. Each
# process of pytest-xdist runs it too, and so has caches of its own.
_HF_HOME = tempfile.mkdtemp(prefix="vl-assay-tests-")
for _cache in (
    "HF_DATASETS_CACHE",
    "HF_EVALUATE_CACHE",
    "HF_METRICS_CACHE",
    "HF_MODULES_CACHE",
    "HF_HUB_CACHE",
    "VL_ASSAY_CACHE",
    "WORLD_SIZE",
    "RANK",
):
    os.environ.pop(_cache, None)
os.environ.update(
    HF_HOME=_HF_HOME,
    HF_HUB_OFFLINE="1",
    HF_DATASETS_OFFLINE="1",
    HF_EVALUATE_OFFLINE="1",
    HF_DATASETS_DISABLE_PROGRESS_BARS="1",
    OMP_NUM_THREADS="1",
    TOKENIZERS_PARALLELISM="false",
)
# Tests start many processes, each of which would otherwise compile the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Imports leave millions of objects that no test frees; each full collection would visit all of them again. So none
# takes place while the tests are collected, and what is there then is left out of those that follow.
gc.disable()

# The datasets that are built for scoring, which nothing changes, are shared: a process of pytest-xdist finds here what
# another has built. They are in the folder of the first process, which goes last.
_BUILT = Path(os.environ.setdefault("VL_ASSAY_TESTS_HOME", _HF_HOME), "vl_assay", "datasets")
_BUILT.mkdir(parents=True, exist_ok=True)
if not _BUILT.is_relative_to(_HF_HOME):
    Path(_HF_HOME, "vl_assay").mkdir()
    Path(_HF_HOME, "vl_assay", "datasets").symlink_to(_BUILT)

settings.register_profile("vl_assay", deadline=None, derandomize=True, max_examples=30)
settings.load_profile("vl_assay")


# The files that take longest come first: begun last, one of them would keep a single process busy at the end. Those of
# the first line take longest in the slow lane.
_LONGEST = (
    *("test_resume", "test_fuzzed_uploads", "test_space_killed", "test_finetune_resume", "test_corpus_shards"),
    *("test_commands", "test_every_benchmark", "test_every_family", "test_every_metric", "test_new_benchmark"),
    *("test_pages_in_a_browser", "test_toy_scenes_blind", "test_finetune", "test_review_page"),
    *("test_metric_folders", "test_contributing", "test_toy_scenes_baselines", "test_publishing_spaces", "test_pairs"),
    *("test_runner", "test_audit", "test_released_data", "test_examples", "test_launch", "test_uploads", "test_space"),
    *("test_hub_storage", "test_login", "test_generate", "test_storage", "test_refine"),
)


def pytest_xdist_auto_num_workers(config):
    """One process more than there are cores: a quarter of the time tests wait for pages, servers and processes."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None  # pytest-xdist reads it
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else None


def pytest_collection_modifyitems(items):
    rank = {name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


def pytest_collection_finish():
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure():
    shutil.rmtree(_HF_HOME, ignore_errors=True)


@pytest.fixture(autouse=True)
def no_remembered_sources():
    """Forget after each test which of its folders hold the sources of benchmarks."""
    yield
    shutil.rmtree(Path(_HF_HOME, "vl_assay", "data-dirs"), ignore_errors=True)


@pytest.fixture(scope="session")
def shared_data():
    """The folder that holds ``data/`` and ``papers/``, the released files; ``VL_ASSAY_SHARED`` moves it."""
    folder = Path(os.environ.get("VL_ASSAY_SHARED") or Path(__file__).parents[2] / "shared")
    if not (folder / "data").is_dir():
        pytest.skip(f"no released files at {folder}; VL_ASSAY_SHARED names the folder that holds data/")
    return folder


@pytest.fixture(scope="module")
def browser():
    """A profile of Debian's Chromium, whose cache the pages of a file share; skips where it is not installed."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium")
    if path is None:
        pytest.skip("Debian's chromium is not installed: apt-get install chromium")
    quiet = ("no-sandbox", "disable-quic", "no-first-run", "disable-sync", "disable-background-networking")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[f"--{name}" for name in quiet])
        yield browser.new_context()
        browser.close()


@pytest.fixture
def new_page(browser):
    """A function that opens an empty page of some width; at the end no page may have met an error."""
    errors, pages = [], []

    def new_page(width=1440, **media):
        page = browser.new_page()
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(**media)
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: (errors.append("a script ran"), dialog.dismiss()))
        pages.append(page)
        return page

    yield new_page
    for page in pages:
        page.close()
    assert errors == []


@pytest.fixture
def online(monkeypatch, tmp_path):
    """Let huggingface_hub speak to a local server, without waits of its own."""
    from huggingface_hub import close_session, constants
    from huggingface_hub.utils import _http

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(_http, "time", SimpleNamespace(sleep=lambda seconds: None))
    yield
    close_session()


@pytest.fixture(scope="session")
def toy_folder(tmp_path_factory):
    """Where the small toy_scenes are rendered and scored once for all files of tests."""
    return tmp_path_factory.mktemp("toy")


@pytest.fixture(scope="module")
def toy(toy_folder):
    """toy_scenes with fewer scenes, which are the first of all; see `submission_support`."""
    from submission_support import small_toy_scenes

    with small_toy_scenes(toy_folder) as small:
        yield small


@pytest.fixture(scope="session")
def tiny_clip():
    """The folder of a small CLIP checkpoint with random weights, as a user would have one."""
    from tiny_models import checkpoint

    return checkpoint("clip")


@pytest.fixture
def coco(tmp_path):
    """A function that lays out a small stand-in for SugarCrepe's sources and returns the folder."""
    from sources_sugarcrepe import make_sugarcrepe

    return lambda rows=24, images=8, **options: make_sugarcrepe(tmp_path / "coco", rows, images, **options)
