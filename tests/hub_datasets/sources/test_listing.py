"""What `list` and `build --all` tell: sizes, sources, what is missing; what fails stops nothing else."""

import importlib
import json
import re
import shutil
import socket
import subprocess
import sys

import pytest
from console import invoke

from vl_assay.hub_datasets import Task, benchmark_names, build, get_benchmark, load_examples
from vl_assay.hub_datasets.core.benchmarks import config_names
from vl_assay.hub_datasets.core.examples import cached_build, is_cached
from vl_assay.hub_datasets.core.repository import read_build
from vl_assay.hub_datasets.sources import availability
from vl_assay.hub_datasets.sources.availability import (
    DAMAGED,
    DOWNLOADED,
    MADE,
    MISSING,
    OWN,
    READY,
    TO_DOWNLOAD,
    source_problems,
)
from vl_assay.metrics.common.errors import UnknownNameError
from vl_assay.metrics.modules.discovery import metric_names
from vl_assay.model_wrappers import family_names


def entry(name, **options):
    [found] = availability.list_benchmarks([name], **options)
    return found


def states(found):
    return {config.name: config.state for config in found.configs}


@pytest.fixture
def no_network(monkeypatch):
    """Let any attempt to connect, or to look an address up, fail the test."""

    def refuse(*_):
        pytest.fail("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


# What there is


def test_json_has_every_configuration_with_its_metrics_and_state_and_nothing_is_downloaded(no_network):
    listed = invoke("list", "benchmarks", "--json")
    assert listed.exit_code == 0
    content = json.loads(listed.output)
    assert list(content) == ["benchmarks"]
    assert [found["name"] for found in content["benchmarks"]] == benchmark_names()
    for found in content["benchmarks"]:
        benchmark = get_benchmark(found["name"])
        assert [config["name"] for config in found["configs"]] == config_names(found["name"])
        for config in found["configs"]:
            tasks = [task for task in benchmark.tasks if config["name"] in task.configs]
            assert config["tasks"] == [task.name for task in tasks]
            assert set(config["metrics"]) == {metric for task in tasks for metric in task.metrics}
            is_made = not benchmark.source or config["name"] in benchmark.generated
            assert config["origin"] in ([MADE] if is_made else [DOWNLOADED, OWN])
            assert config["state"] in ([READY] if is_made else [TO_DOWNLOAD, MISSING])
            assert bool(config["problem"]) != is_made
            assert {"rows", "images", "built", "by_default"} < config.keys()


@pytest.mark.parametrize("name", ["bivlc", "retrieval", "sugarcrepe", "winoground"])
def test_sources_of_a_copy_are_found_ready(name, tmp_path, no_network):
    options = importlib.import_module(f"sources_{name}").make(tmp_path)
    by_default = {config for task in get_benchmark(name).tasks if task.by_default for config in task.configs}
    found = states(entry(name, data_dir=tmp_path, options=options))
    assert {config: found[config] for config in by_default} == dict.fromkeys(by_default, READY)


def test_a_folder_that_lacks_the_sources_is_told_with_a_drawing_of_what_belongs_there(tmp_path, monkeypatch):
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path / "cache"))  # without what other tests have built
    problems = source_problems(["mmvp_vlm", "crepe", "hard_positives"], data_dir=tmp_path)
    [full] = source_problems(["eqben"], data_dir=tmp_path, options={"full": True}).values()
    assert "\n├── private_info_global.json" in str(full)
    drawn = "DATA_DIR\n├── Questions.csv\n└── MLLM_VLM Images/   the images, or MMVP_VLM_Images"
    assert str(problems["mmvp_vlm"]).endswith(drawn)
    assert re.search(r"\n├── data/.*\.jsonl?\n.*\n└── data/VG_100K_2/   the", str(problems["hard_positives"]))
    assert re.search(r"├── data/prod_hard_negatives/.*\n├── and 5 more\n└── VG_100K/   the", str(problems["crepe"]))


def test_what_is_missing_or_damaged_is_told_in_the_builders_words(coco):
    folder = coco(categories=("add_att", "swap_obj"))
    found = entry("sugarcrepe", data_dir=folder)
    by_name = {config.name: config for config in found.configs}
    assert by_name["add_att"].state == DAMAGED
    assert "SHA-256" in by_name["add_att"].problem
    assert by_name["add_obj"].state == TO_DOWNLOAD
    (folder / "val2017" / "000000000001.jpg").unlink()
    found = entry("sugarcrepe", data_dir=folder, options={"verify": False})
    by_name = {config.name: config for config in found.configs}
    assert by_name["swap_obj"].state == MISSING
    assert "000000000001.jpg" in by_name["swap_obj"].problem


def test_sizes_are_the_cards_until_there_is_a_build_and_then_the_newest_builds(coco, tmp_path, monkeypatch):
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path / "cache"))
    folder = coco(rows=12, images=5, categories=("swap_obj",))

    def swap_obj():
        [config] = [config for config in entry("sugarcrepe").configs if config.name == "swap_obj"]
        return config.rows, config.images, config.built

    assert swap_obj() == (245, 224, False)  # SugarCrepe, table 2: 245 of swap-object
    cached_build("sugarcrepe", "swap_obj", folder, {"verify": False})
    assert swap_obj() == (12, 5, True)


def test_the_list_is_one_line_per_benchmark_and_its_name_shows_the_details(monkeypatch, tmp_path):
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path))  # other tests build benchmarks
    output = invoke("list", "benchmarks", width=80).output
    lines = [line for name in benchmark_names() for line in output.splitlines() if line.startswith(f" {name} ")]
    assert len(lines) == len(benchmark_names())
    assert all(len(line) <= 80 and "…" not in line for line in lines)
    assert re.search(r"^ sugarcrepe +fluent captions with one change +7,511 +to be downloaded", output, re.M)
    assert re.search(r"^ hard_positives .* 56,191 +needs --data-dir", output, re.M)
    output = invoke("list", "sugarcrepe").output
    assert re.search(r"^sugarcrepe – fluent .*; downloaded: github\.com/RAIVNLab", output, re.M)
    assert re.search(r"swap_obj +│ +\d+ │ +\d+ │ sugarcrepe_itm +│ to be downloaded", output)
    assert "winoground" not in output
    assert re.search(r"^missing: The sources .* git clone", invoke("list", "hard_positives").output, re.M)
    output = invoke("list", "metrics").output
    assert "sugarcrepe_itm" in output
    assert "RAIVNLab" not in output
    with pytest.raises(UnknownNameError, match="unknown thing to list 'sugarcrep'"):
        raise invoke("list", "sugarcrep").exception


def test_sources_of_the_environment_or_of_the_last_use_are_found(coco, tmp_path, monkeypatch, no_network):
    shutil.copytree(coco(rows=4, images=2, categories=("swap_obj",)), tmp_path / "sources" / "sugarcrepe")
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("VL_ASSAY_DATA_DIR", str(tmp_path / "sources"))
    assert states(entry("sugarcrepe", options={"verify": False}))["swap_obj"] == READY
    [task, *_] = load_examples("sugarcrepe/swap_obj", options={"verify": False})
    assert len(task.examples) == 4
    build("sugarcrepe", tmp_path / "built", configs=["swap_obj"], options={"verify": False})
    monkeypatch.delenv("VL_ASSAY_DATA_DIR")
    assert states(entry("sugarcrepe", options={"verify": False}))["swap_obj"] == TO_DOWNLOAD
    # The folder of `--data-dir` is used until another one is given.
    load_examples("sugarcrepe/swap_obj", options={"verify": False}, data_dir=tmp_path / "sources")
    assert states(entry("sugarcrepe", options={"verify": False}))["swap_obj"] == READY
    [task] = load_examples("sugarcrepe/swap_obj", options={"verify": False})
    assert is_cached("sugarcrepe", ["swap_obj"], {"verify": False})
    assert len(task.examples) == 4
    # The environment wins over the last use.
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("VL_ASSAY_DATA_DIR", str(tmp_path / "empty"))
    assert states(entry("sugarcrepe", options={"verify": False}))["swap_obj"] == TO_DOWNLOAD
    monkeypatch.delenv("VL_ASSAY_DATA_DIR")
    shutil.rmtree(tmp_path / "sources")
    assert states(entry("sugarcrepe", options={"verify": False}))["swap_obj"] == TO_DOWNLOAD


def test_the_whole_list_fits_a_screen_and_names_everything():
    lines = invoke("list", width=80).output.splitlines()
    assert len(lines) <= 80
    assert max(map(len, lines)) <= 80
    for name in (*benchmark_names(), *metric_names(), *family_names()):
        assert any(re.search(rf"\b{name}\b", line) for line in lines), name


def test_the_list_imports_nothing_heavy():
    code = "from vl_assay.metrics.common.command_line import build_app\n"
    code += "build_app()(['list'], standalone_mode=False)\n"
    code += "import sys\nprint([m for m in ('torch', 'transformers', 'datasets', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# Building all


@pytest.fixture
def three(monkeypatch):
    """As if there were three benchmarks."""
    for module in ("build", "benchmarks"):
        names = f"vl_assay.hub_datasets.core.{module}.benchmark_names"
        monkeypatch.setattr(names, lambda: ["cola", "sugarcrepe", "tricd"])


@pytest.fixture
def sources(tmp_path, three):
    """Folders of sources by benchmark: all of cola, some of sugarcrepe, none of tricd."""
    folder = tmp_path / "sources"
    for name in ("cola", "sugarcrepe"):
        (folder / name).mkdir(parents=True)
        importlib.import_module(f"sources_{name}").make(folder / name)
    return folder


def build_every(sources, out):
    return invoke("build", "--all", "--out", out, "--data-dir", sources, "-o", "verify=false")


def test_all_that_can_be_built_is_and_missing_sources_are_listed_and_leave_the_exit_code_alone(sources, tmp_path):
    result = build_every(sources, tmp_path / "all")
    assert (result.exit_code, result.exception) == (0, None)
    assert "1 of 3 benchmarks are whole, 1 in part" in result.output
    table = " ".join(re.sub("[│┃]", " ", result.output[result.output.index("Not built") :]).split())
    for told in ("unrefined_swap_obj", "TRICD_grounding_val.json", "github.com/ashkamath/TRICD"):
        assert told in table
    refined = [config for config in config_names("sugarcrepe") if not config.startswith("unrefined_")]
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == ["cola", "sugarcrepe"]
    assert sorted(read_build(tmp_path / "all" / "sugarcrepe")["configs"]) == sorted(refined)
    names = [path.name for path in (tmp_path / "all" / "sugarcrepe").iterdir()]
    assert sorted(names) == sorted([*refined, "README.md", "build.json"])
    assert invoke("build", "tricd", "--out", tmp_path / "one", "--data-dir", sources).exit_code == 1


def test_damaged_sources_and_unforeseen_errors_stop_nothing_else_and_make_the_exit_code_1(
    sources, tmp_path, monkeypatch
):
    from vl_assay.hub_datasets.tricd.builder import TRICD

    (sources / "cola" / "data" / "COLA_multiobjects_matching_benchmark.json").write_text("[[")
    monkeypatch.setattr(TRICD, "_split_generators", lambda *_: {}["unforeseen"])
    result = build_every(sources, tmp_path / "all")
    assert result.exit_code == 1
    assert "damaged: " in result.output
    assert "unforeseen" in result.output
    assert "0 of 3 benchmarks are whole, 1 in part" in result.output
    assert (tmp_path / "all" / "sugarcrepe" / "build.json").is_file()


def test_a_configuration_that_fails_half_way_leaves_no_files(coco, tmp_path, monkeypatch):
    from vl_assay.hub_datasets.sugarcrepe.builder import SugarCrepe

    generate = SugarCrepe._generate_examples

    def broken(self, rows, images):
        yield from generate(self, rows, images)
        if self.config.name == "swap_obj":
            raise ValueError("the last row is damaged")

    monkeypatch.setattr(SugarCrepe, "_generate_examples", broken)
    errors = {}
    out = build(
        "sugarcrepe", tmp_path / "sc", configs=["swap_obj", "add_att"], data_dir=coco(), options={"verify": False},
        on_error=errors.__setitem__,
    )  # fmt: skip
    assert "sugarcrepe/swap_obj: the last row is damaged" in str(errors["swap_obj"])
    assert sorted(path.name for path in out.iterdir()) == ["README.md", "add_att", "build.json"]
    counts = (out / "README.md").read_text().split("<!-- counts -->")[1].split("<!-- /counts -->")[0]
    assert "add_att" in counts
    assert "swap_obj" not in counts


def test_one_column_is_no_tuple_of_columns():
    with pytest.raises(
        TypeError, match=r"captions of the task itm is the text 'caption'; give a tuple: \('caption',\)"
    ):
        Task("itm", {}, captions="caption")
