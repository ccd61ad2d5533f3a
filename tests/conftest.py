"""Every test runs offline, with caches of its own, and finds the released data where there are any."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from pathlib import Path

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

settings.register_profile("vl_assay", deadline=None, derandomize=True)
settings.load_profile("vl_assay")


# The files that take longest come first: begun last, one of them would keep a single process busy at the end.
_LONGEST = (
    *("test_commands", "test_every_benchmark", "test_every_family", "test_new_benchmark", "test_browser"),
    *("test_hostile_visitors", "test_study", "test_space", "test_submissions", "test_metric_folders"),
    *("test_review_page", "test_pairs", "test_finetune", "test_runner", "test_hub_storage", "test_space_killed"),
    *("test_contributing", "test_audit", "test_login", "test_generate", "test_publishing_spaces", "test_every_metric"),
    *("test_finetune_resume", "test_storage", "test_released_data", "test_toy_scenes_blind", "test_refine"),
    *("test_launch_predictions", "test_uploads", "test_toy_scenes_baselines", "test_resume"),
)


def pytest_collection_modifyitems(items):
    rank = {name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


def pytest_collection_finish():
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure():
    shutil.rmtree(_HF_HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def shared_data():
    """The folder that holds ``data/`` and ``papers/``, the released files; ``VL_ASSAY_SHARED`` moves it."""
    folder = Path(os.environ.get("VL_ASSAY_SHARED") or Path(__file__).parents[2] / "shared")
    if not (folder / "data").is_dir():
        pytest.skip(f"no released files at {folder}; VL_ASSAY_SHARED names the folder that holds data/")
    return folder


@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium, driven by Playwright; what needs it is skipped where it is not installed."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium")
    if path is None:
        pytest.skip("Debian's chromium is not installed: apt-get install chromium")
    quiet = ("no-sandbox", "disable-quic", "no-first-run", "disable-sync", "disable-background-networking")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[f"--{name}" for name in quiet])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """toy_scenes with fewer scenes, which are the first of all; see `submission_support`."""
    from submission_support import small_toy_scenes

    with small_toy_scenes(tmp_path_factory.mktemp("toy")) as small:
        yield small


@pytest.fixture(scope="session")
def tiny_clip(tmp_path_factory):
    """The folder of a small CLIP checkpoint with random weights, as a user would have one."""
    import torch
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

    from vl_assay.model_wrappers.demo_clip.train import build_tokenizer

    torch.manual_seed(0)
    tokenizer = build_tokenizer()
    tower = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2}
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": 32, "eos_token_id": tokenizer.eos_token_id}
    vision = {"image_size": 32, "patch_size": 8}
    config = CLIPConfig(text_config=tower | text, vision_config=tower | vision, projection_dim=16)
    folder = tmp_path_factory.mktemp("checkpoints") / "tiny-clip"
    # Weights of ordinary size: with the default ones of 0.02 all captions would look alike to so small a model.
    model = CLIPModel(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2) if parameter.ndim > 1 else None
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    size = {"height": 32, "width": 32}
    CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=size).save_pretrained(folder)
    return folder


@pytest.fixture
def coco(tmp_path):
    """A function that lays out a small stand-in for SugarCrepe's sources and returns the folder."""
    from sources_sugarcrepe import make_sugarcrepe

    return lambda rows=24, images=8, **options: make_sugarcrepe(tmp_path / "coco", rows, images, **options)
