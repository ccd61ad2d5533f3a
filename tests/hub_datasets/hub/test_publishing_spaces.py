"""Spaces: what is published runs by itself, where VL-Assay is not installed, on the versions that were tested."""

import os
import socket
import subprocess
import sys
import time
import venv
from importlib.metadata import distribution, version
from pathlib import Path
from urllib.request import urlopen

import evaluate
import pytest
import yaml
from file_server import serving
from gradio_client import Client, handle_file
from packaging.requirements import Requirement
from test_publishing import Hub

from vl_assay.hub_datasets.hub.publish import plan, publish
from vl_assay.metrics.common.errors import UnknownNameError
from vl_assay.metrics.modules.discovery import load_metric, metric_names

ROOT = Path(__file__).parents[3]
METRIC_TOP = {"README.md", "app.py", "group_match.py", "page.yaml", "requirements.txt", "spec.py"}


def text(planned, path):
    content = planned.contents[path]
    return content.decode() if isinstance(content, bytes) else content.read_text(encoding="utf-8")


def top(planned):
    return {path for path in planned.contents if not path.startswith("vl_assay")}


def carried(planned):
    return {path.split("/")[1] for path in planned.contents if path.startswith("vl_assay/")}


def test_a_space_carries_what_it_imports_and_no_more():
    metric, board = plan("group_match", "me/group_match"), plan("leaderboard", "me/x")
    assert (top(metric), carried(metric)) == (METRIC_TOP, {"metrics"})
    assert top(board) == {"README.md", "app.py", "requirements.txt"}
    assert carried(board) == {"metrics", "hub_datasets", "space_app"}
    for path in [*metric.contents, *board.contents]:
        assert "__pycache__" not in path
        assert not any(part.startswith(".") for part in path.split("/"))


def test_a_space_is_planned_by_its_name_or_its_folder():
    names = {name: ROOT / "metrics" / name for name in metric_names()} | {"leaderboard": ROOT / "space_app"}
    for name, folder in names.items():
        planned = plan(name, "me/x")
        assert planned == plan(folder, "me/x")
        card = yaml.safe_load(text(planned, "README.md").split("---\n")[1])
        assert (card["sdk"], card.get("hf_oauth", False)) == ("gradio", name == "leaderboard")
        assert card["app_file"] in planned.contents
        assert len(card.get("short_description", "")) <= 60


def test_requirements_are_pinned_to_what_is_installed():
    planned = plan("leaderboard", "me/x")
    lines = [Requirement(line) for line in text(planned, "requirements.txt").splitlines()]
    asked = [Requirement(each) for each in distribution("vl-assay").requires]
    wanted = {each.name for each in asked if each.marker is None or each.marker.evaluate({"extra": "space"})}
    assert {each.name for each in lines} == wanted
    assert {"numpy", "gradio", "pandas"} <= wanted
    for each in lines:
        assert str(each.specifier) == f"=={version(each.name)}"
    assert "oauth" in next(each.extras for each in lines if each.name == "gradio")
    card = yaml.safe_load(text(planned, "README.md").split("---\n")[1])
    assert card["sdk_version"] == version("gradio")
    assert card["python_version"] == f"{sys.version_info.major}.{sys.version_info.minor}"


def test_a_space_of_ones_own_carries_this_package_if_it_imports_it(tmp_path):
    (tmp_path / "README.md").write_text("---\ntitle: x\nsdk: gradio\nsdk_version: 5.0.0\n---\n")
    (tmp_path / "app.py").write_text("print('vl_assay')\n")
    assert plan(tmp_path, "me/x").contents == {name: tmp_path / name for name in ("README.md", "app.py")}
    (tmp_path / "app.py").write_text("from vl_assay.hub_datasets import report\n")
    planned = plan(tmp_path, "me/x")
    assert carried(planned) == {"metrics", "hub_datasets"}
    assert text(planned, "requirements.txt") == text(plan("leaderboard", "me/x"), "requirements.txt")
    assert f"sdk_version: {version('gradio')}\n" in text(planned, "README.md")


def test_a_space_is_published_in_one_commit_that_removes_an_earlier_package():
    mine, old = "notes.md", ["vl_assay/metrics/gone.py", "vl_assay-0.0.9.dist-info/METADATA"]
    hub = Hub(there=[mine, *old, "app.py", "vl_assay/metrics/__init__.py"])
    publish("group_match", "me/group_match", api=hub)
    (_, _, repo), (_, _, paths, commit) = hub.calls
    assert repo == {"repo_type": "space", "private": False, "exist_ok": True, "space_sdk": "gradio"}
    assert commit == {"commit_message": "Publish group_match", "repo_type": "space"}
    deleted = {path for path, operation in hub.operations.items() if type(operation).__name__.endswith("Delete")}
    assert deleted == set(old)
    assert set(paths) - deleted == set(plan("group_match", "me/group_match").contents)


def test_evaluate_loads_and_combines_what_is_published_by_the_name_of_its_space(tmp_path, monkeypatch):
    published = {"me/sugarcrepe_itm": "sugarcrepe_itm", "me/triples": "brittleness"}
    for repo, metric in published.items():
        for path, content in plan(metric, repo).contents.items():
            if "/" not in path and isinstance(content, Path):
                place = tmp_path / "spaces" / repo / "resolve" / "main" / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content.read_bytes())
    with serving(tmp_path) as server:
        monkeypatch.setattr(evaluate.config, "HF_EVALUATE_OFFLINE", False)
        monkeypatch.setattr(evaluate.config, "HF_UPDATE_DOWNLOAD_COUNTS", False)
        monkeypatch.setattr(
            evaluate.config, "HUB_EVALUATE_URL", f"{server.url}/spaces/{{path}}/resolve/{{revision}}/{{name}}"
        )
        both = evaluate.combine([*published], force_prefix=True)
    assert [type(module).__name__ for module in both.evaluation_modules] == ["SugarCrepeITM", "Brittleness"]
    by_name = evaluate.combine([load_metric("brittleness"), load_metric("augmented_accuracy")])
    result = by_name.compute(predictions=[[0.3, 0.2, 0.1], [0.2, 0.3, 0.1]])
    assert (result["brittleness_n"], result["augmented_accuracy_n"]) == (2, 2)
    with pytest.raises(UnknownNameError, match="unknown option 'references'"):
        by_name.compute(predictions=[[0.3, 0.2, 0.1]], references=[0])


# What is published, started as a Space starts it


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python that has all that is installed here but VL-Assay."""
    folder = tmp_path_factory.mktemp("python")
    venv.create(folder, symlinks=True)
    [packages] = folder.glob("lib/python*/site-packages")
    for place in (Path(place) for place in sys.path):
        for each in place.iterdir() if place.name in ("site-packages", "dist-packages") else ():
            if "vl_assay" not in each.name and each.suffix != ".pth" and not (packages / each.name).exists():
                (packages / each.name).symlink_to(each)
    found = subprocess.run([folder / "bin/python", "-c", "import vl_assay.metrics"], cwd=folder, capture_output=True)
    assert b"No module named 'vl_assay'" in found.stderr
    return folder / "bin/python"


@pytest.fixture
def started(python, tmp_path):
    """A function that writes a Space's files to a folder, starts it there and returns a client of it."""
    processes = []

    def start(name):
        for path, content in plan(name, "me/x").contents.items():
            place = tmp_path / "space" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content if isinstance(content, bytes) else content.read_bytes())
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        space = {"GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SERVER_PORT": port, "HF_HUB_OFFLINE": "1"}
        folders = {"HOME": str(tmp_path), "VL_ASSAY_STORAGE": str(tmp_path / "storage")}
        environment = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", **space, **folders}
        process = subprocess.Popen([python, "app.py"], cwd=tmp_path / "space", env=environment)
        processes.append(process)
        address = f"http://127.0.0.1:{port}"
        for _ in range(600):
            assert process.poll() is None
            try:
                urlopen(address, timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        return Client(address, verbose=False)

    yield start
    for process in processes:
        process.terminate()
        process.wait(30)


@pytest.mark.slow
def test_the_leaderboard_runs_where_nothing_is_installed_and_judges_a_predictions(started, tmp_path):
    client = started("leaderboard")
    with urlopen(f"{client.src}social.png") as picture:
        assert picture.read().startswith(b"\x89PNG")
    predictions = ROOT / "space_app" / "launch" / "mock-constant.toy_scenes.vqa.parquet"
    for _ in range(600):  # the server prepares the data while its pages are there already
        receipt = client.predict([handle_file(predictions)], "", "mock", "", "", "", api_name="/submit")
        if "was not built here" not in receipt.get("error", ""):
            break
        time.sleep(0.2)
    assert receipt["status"] == "flagged"
    assert receipt["results"][0]["scores"]["n"] == 2000
    assert list((tmp_path / "storage" / "requests" / receipt["id"]).glob("*.parquet"))


@pytest.mark.slow
def test_a_metric_runs_where_nothing_is_installed(started):
    client = started("sugarcrepe_itm")
    rows = {"headers": [""] * 3, "data": [["[0.31, 0.27]", "0", "swap_obj"], ["[0.2, 0.3]", "0", "swap_obj"]]}
    _, result = client.predict(rows, "wrong", api_name="/score")
    assert result["accuracy"] == 0.5
