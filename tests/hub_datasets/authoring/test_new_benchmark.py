"""A new benchmark from captions and images: its stages, what people have to do, and what comes out of them."""

import json
import re
import shlex
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import datasets
import pytest
from console import invoke
from language_model_stand_in import LanguageModelStandIn
from new_benchmark_support import photos, quick
from PIL import Image
from review_support import decide

from vl_assay.hub_datasets.authoring.audit.audit import audit, failures
from vl_assay.hub_datasets.authoring.audit.blind import shipped_levels
from vl_assay.hub_datasets.authoring.audit.report import to_summary
from vl_assay.hub_datasets.authoring.data.pairs import read_pairs
from vl_assay.hub_datasets.authoring.pipeline.captions import STAGES
from vl_assay.hub_datasets.authoring.pipeline.new_benchmark import new_benchmark, stages_of
from vl_assay.hub_datasets.authoring.pipeline.settings import Settings
from vl_assay.hub_datasets.authoring.pipeline.stages import STAGE_FILE, Stage, Waiting, states_of
from vl_assay.hub_datasets.authoring.review.review import open_review
from vl_assay.hub_datasets.core.benchmarks import adopt, get_builder
from vl_assay.hub_datasets.core.build import MissingSourceError
from vl_assay.hub_datasets.toy_scenes.language import parse
from vl_assay.hub_datasets.toy_scenes.world import Scene
from vl_assay.metrics.common.errors import DataError, StorageError, UnknownNameError, VLAssayError


@pytest.mark.slow
def test_the_readmes_command_builds_a_benchmark(tmp_path):
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    [command] = re.findall(r"^vl-assay (new-benchmark .*)$", readme, re.MULTILINE)
    result = invoke(*shlex.split(command), folder=tmp_path)
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "my-scenes" / "repository" / "README.md").is_file()


def make(settings, say=lambda line: None):
    """What people have to do, or else "" when the benchmark is made."""
    try:
        new_benchmark(settings, say)
    except Waiting as waiting:
        return str(waiting)
    return ""


def waiting_desk(settings):
    return open_review(settings.work / "review", images=settings.images, annotators=settings.annotators)


def judge_by_scene(settings):
    """Decide as a person would who makes no mistakes: keep what the scene makes false and the grammar allows."""
    review = waiting_desk(settings)
    scenes = {}
    for candidate in review.items:
        if candidate.image not in scenes:
            with Image.open(review.pictures.path(candidate.image)) as image:
                scenes[candidate.image] = Scene.from_json(image.info["scene"])
        statement = parse(candidate.candidate)
        is_true = statement is not None and statement.is_true_of(scenes[candidate.image])
        decision = "nonsensical" if statement is None else "false_negative" if is_true else "keep"
        decide(review, "scene", candidate.id, decision=decision)
    return scenes


def states(settings):
    return {name: state for name, state, _ in states_of(stages_of(settings))}


def content(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != STAGE_FILE}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return photos(tmp_path_factory.mktemp("source") / "photos")


@pytest.fixture(scope="module")
def whole(source, tmp_path_factory):
    """A benchmark of swapped attributes that was made without a break."""
    settings = quick(source, tmp_path_factory.mktemp("whole"))
    assert make(settings) == ""
    return settings


@pytest.mark.slow
def test_what_comes_out_is_false_of_its_image_and_passes_the_audit(tmp_path):
    settings = Settings(name="toy_rules", source="toy_scenes/itm", work=tmp_path, rules=True, limit=150)
    assert "decisions of people are missing" in make(settings)
    scenes = judge_by_scene(settings)
    assert make(settings) == ""
    pairs = read_pairs(settings.folder / "pairs.jsonl")
    assert len(pairs) > 150
    for pair in pairs:
        assert parse(pair.positive).is_true_of(scenes[pair.image])
        assert not parse(pair.negative).is_true_of(scenes[pair.image])
    found = audit(pairs, "toy_rules")
    assert failures(found, 0.55) == []
    told = json.loads((settings.folder / "audit.json").read_text(encoding="utf-8"))["audits"]
    assert told == {"toy_rules": json.loads(json.dumps(to_summary(found)))}
    before = json.loads((settings.work / "audit" / "audit.json").read_text(encoding="utf-8"))
    assert len(failures(before, 0.55)) > 3
    card = (settings.folder / "README.md").read_text(encoding="utf-8")
    sizes = Counter(pair.category for pair in pairs)
    assert dict(re.findall(r"^\| (\w+) \| test \| (\d+)", card, re.MULTILINE)) == {k: str(n) for k, n in sizes.items()}
    assert "add_obj" not in sizes
    assert re.search(r"Left out, as too few pairs .*\d+ add_obj", card)


def test_the_repository_holds_the_rows_and_the_licensed_images(whole, tmp_path):
    shutil.copytree(whole.work, tmp_path / "work")
    settings = replace(whole, work=tmp_path / "work", licence="cc0-1.0", copy_images=True)
    assert make(settings) == ""
    rows = datasets.load_dataset(str(settings.repository), "swap_att", split="test")
    pairs = read_pairs(settings.folder / "pairs.jsonl")
    assert [(row["id"], row["caption"], row["negative_caption"]) for row in rows] == [
        (pair.id, pair.positive, pair.negative) for pair in pairs
    ]
    image = (settings.images / pairs[0].image).read_bytes()
    assert rows.cast_column("image", datasets.Image(decode=False))[0]["image"]["bytes"] == image
    assert "license: cc0-1.0\n" in (settings.repository / "README.md").read_text(encoding="utf-8")


def test_the_same_command_again_does_nothing_and_a_change_goes_on_from_where_it_matters(whole):
    said = []
    made = (whole.folder / "made.json").stat().st_mtime_ns
    assert make(whole, said.append) == ""
    assert [line.endswith("(was done)") for line in said] == [True] * len(STAGES)
    assert (whole.folder / "made.json").stat().st_mtime_ns == made
    for change, first in (
        ({"learned": 2}, "refine"),
        ({"annotators": ("ana",)}, "review"),
        ({"limit": 99}, "captions"),
        ({"licence": "mit"}, "build"),
        ({"seed": 1}, "generate"),
    ):
        found = {name: state for name, state in states(replace(whole, **change)).items() if "next" in state}
        assert found == {first: f"next (changed: {next(iter(change))})"}


def make_until(settings, stage):
    """What is said until a stage begins, at which it is interrupted."""
    said = []

    def interrupt(line):
        said.append(line)
        if line.startswith(f"{stage} …"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(settings, interrupt)
    return said


def test_ended_in_a_stage_it_goes_on_there_and_comes_to_the_same(whole, tmp_path):
    settings = replace(whole, work=tmp_path)
    for stage in ("generate", "refine"):
        make_until(settings, stage)
        assert states(settings)[stage] == "next"
    said = []
    make(settings, said.append)
    assert [line for line in said if line.endswith("(was done)")] == said[: STAGES.index("refine")]
    assert content(settings.folder) == content(whole.folder)


@pytest.mark.parametrize("keeps", [False, True])
def test_files_of_a_stage_that_was_ended_do_not_count(tmp_path, keeps):
    def run(folder):
        found = [path.name for path in folder.iterdir()]
        (folder / "half").write_text("half")
        if not calls:
            calls.append(folder)
            raise KeyboardInterrupt
        return {"found": found}

    calls = []
    stage = Stage(tmp_path / "one", {}, (), run, keeps=keeps)
    with pytest.raises(KeyboardInterrupt):
        stage.run()
    assert stage.why() == "new"
    assert (tmp_path / "one").exists() == keeps
    assert stage.run() == stage.result() == {"found": ["half"] if keeps else []}
    assert stage.why() == ""


def test_captions_that_changed_are_read_anew_and_what_follows_is_made_anew(whole, tmp_path):
    settings = replace(whole, source=str(tmp_path / "photos"), work=tmp_path / "work")
    shutil.copytree(whole.source, settings.source)
    shutil.copytree(whole.work, settings.work)
    table = tmp_path / "photos" / "metadata.csv"
    table.write_text(table.read_text(encoding="utf-8").rpartition("\n")[0], encoding="utf-8")
    assert make_until(settings, "generate") == [
        "captions … (changed: source, content)",
        "captions: 79 captions of 79 images",
        "generate … (changed: captions/captions.jsonl)",
    ]


def test_a_benchmark_that_captions_give_away_is_not_built_and_the_command_fails(source, tmp_path):
    arguments = ["told", source, "--work", tmp_path / "work", "--rules", "--no-review", "--kind", "replace_obj"]
    config = tmp_path / "config.yaml"
    arguments += ["--config", config]
    text = "learned: 0\nscorer: [characters]\ngrid: 2\nmax_blind_accuracy: "
    config.write_text(f"{text}0.55\n")
    result = invoke("new-benchmark", *arguments)
    assert result.exit_code == 1
    assert re.search(r"fails: .* is right without the image in .*55\.0% is allowed", result.stderr)
    assert "nothing was built; leave out a kind with --kind" in result.stderr
    assert not (tmp_path / "work" / "told").exists()
    config.write_text(f"{text}0.999\n")
    lenient = invoke("new-benchmark", *arguments)
    assert lenient.exit_code == 0, lenient.output
    assert "final-audit: " in lenient.stdout.split("build …")[0].splitlines()[-1]
    assert lenient.stdout.count("(was done)") == 6
    assert "publish it with `vl-assay publish" in lenient.stdout


def test_the_plan_shows_what_is_done_and_what_a_model_would_be_asked_and_does_nothing(source, tmp_path):
    work = tmp_path / "work"
    arguments = ["asked", source, "--work", work, "--kind", "swap_att", "--model", "m", "--base-url"]
    first = invoke("new-benchmark", *arguments, "http://127.0.0.1:9/v1", "--plan")
    assert first.exit_code == 0
    assert re.search(r"captions +│ next .*build +│ later", first.stdout, re.DOTALL)
    assert not work.exists()
    rested = invoke("new-benchmark", "told", source, "--work", work, "--rules", "--kind", "swap_att")
    assert rested.exit_code == 0
    assert (
        f"vl-assay review {work}/review/candidates.jsonl --page candidates --images {work}/captions/images\n"
        in rested.stdout
    )
    second = invoke("new-benchmark", *arguments, "http://127.0.0.1:9/v1", "--plan")
    assert re.search(r"captions +│ done .* 80 captions of 80 images", second.stdout)
    assert re.search(r"generate +│ next \(changed: rules, model\)", second.stdout)
    assert re.search(r"swap_att +│ +[67]\d │", second.stdout)


def test_a_model_is_asked_once_for_each_and_the_card_names_it_and_its_prompts(tmp_path):
    with LanguageModelStandIn() as server:
        asking = {"rules": False, "model": "some|model", "base_url": server.url, "annotators": ("ana", "ben")}
        options = {"review": True, "kinds": ("swap_att", "replace_obj"), "fewest_pairs": 5}
        settings = quick(photos(tmp_path / "photos", 24), tmp_path / "work", **asking, **options)
        make(settings)
        asked = len(server.requests)
        (settings.work / "generate" / STAGE_FILE).unlink()
        waiting = make(settings)
        assert len(server.requests) == len(set(server.requests)) == asked > 70
    missing, items = map(int, re.match(r"(\d+) decisions of people are missing, on (\d+) items", waiting).groups())
    assert missing == 2 * items
    assert "--annotators ana,ben" in waiting
    review = waiting_desk(settings)
    for number, candidate in enumerate(review.items):
        decide(review, "ana", candidate.id, decision="keep")
        decide(review, "ben", candidate.id, decision="not_fluent" if number % 12 == 0 else "keep")
    assert make(settings) == ""
    card = (settings.folder / "README.md").read_text(encoding="utf-8")
    assert "by some\\|model, seed 0" in card
    assert "`swap_att` (0), `locate_obj` (0), `concept_replace_obj` (1.5)" in card
    assert "2 people compared" in card
    assert re.search(r"^\| keep or not \| [\d,]+ \| 91\.7 % \|", card, re.MULTILINE)
    assert re.search(r"decisions of each: annotator 1 \((\d+)\), annotator 2 \(\1\)", card)
    assert "from photos." in card
    assert str(tmp_path.parent.parent) not in "".join(path.read_text("utf-8") for path in settings.folder.iterdir())
    assert sorted(path.name for path in settings.folder.iterdir()) == [
        "README.md", "audit.json", "benchmark.py", "blind.json", "builder.py", "made.json", "pairs.jsonl",
    ]  # fmt: skip
    [level] = shipped_levels(adopt(str(settings.folder)))["itm"]["metrics"].values()
    assert level["kind"] == "probe"


def build_rows(folder, tmp_path, **options):
    """The rows of the benchmark's own builder."""
    builder = get_builder(adopt(str(folder)))(cache_dir=str(tmp_path / "cache"), config_name="swap_att", **options)
    return list(builder.as_streaming_dataset(split="test"))


def test_the_builder_takes_images_from_the_users_folder_and_names_what_is_missing(whole, tmp_path):
    settings = replace(whole, work=tmp_path / "work")
    shutil.copytree(whole.work, settings.work)
    images = settings.work / "captions" / "images"
    rows = build_rows(settings.folder, tmp_path, data_dir=str(images))
    assert build_rows(settings.folder, tmp_path, data_dir=str(images.parent)) == rows
    assert {row["image"].size for row in rows} == {(4, 4)}
    text = [{key: value for key, value in row.items() if key != "image"} for row in rows]
    assert build_rows(settings.folder, tmp_path, with_images=False) == text
    lost = images / rows[0]["filename"]
    lost.write_bytes(b"")
    named = rf"swap_att: 1 of \d+ images are missing .*{lost.name} \(for {rows[0]['id']}\).* allow_missing=True"
    with pytest.raises(MissingSourceError, match=named):
        build_rows(settings.folder, tmp_path, data_dir=str(images))
    left = build_rows(settings.folder, tmp_path, data_dir=str(images), allow_missing=True)
    assert [row["image"] is None for row in left] == [True] + [False] * (len(rows) - 1)
    with pytest.raises(MissingSourceError, match="Pass data_dir, a folder that holds them"):
        build_rows(settings.folder, tmp_path)
    (settings.folder / "pairs.jsonl").write_bytes(b"{}\n")
    with pytest.raises(ValueError, match=r"pairs\.jsonl has SHA-256 .* as released has"):
        build_rows(settings.folder, tmp_path, with_images=False)


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"name": "Photos"}, DataError, "small letters"),
        ({"name": "sugarcrepe"}, DataError, "there is a benchmark sugarcrepe already"),
        ({"name": "refine"}, DataError, "a folder of the stages"),
        ({"kinds": ("positive_swap",)}, VLAssayError, "generate --kind positive_swap"),
        ({"rules": False}, VLAssayError, "give --rules"),
        ({"model": "m"}, VLAssayError, "not both"),
        ({"copy_images": True}, VLAssayError, "--licence"),
        ({"scorer": ["vera"]}, UnknownNameError, "characters"),
        ({"learned": 0}, VLAssayError, "nothing to refine on"),
        ({"max_blind_accuracy": 55}, VLAssayError, "max_blind_accuracy"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(changes, kind, message, tmp_path):
    with pytest.raises(kind, match=message):
        make(replace(quick(str(tmp_path), tmp_path / "work"), **changes))
    assert not (tmp_path / "work" / "generate").exists()


def test_kinds_of_which_too_little_is_kept_are_left_out(whole, tmp_path):
    kept = len(read_pairs(whole.folder / "pairs.jsonl"))
    with pytest.raises(DataError, match=rf"the refinement keeps {kept}, and of no kind {kept + 1} or more"):
        make(replace(whole, work=tmp_path, fewest_pairs=kept + 1))


def test_captions_without_the_file_of_an_image_are_refused(tmp_path):
    table = tmp_path / "captions.csv"
    table.write_text("image,caption\nhttps://example.org/1.png,a red cat near a blue dog\n", encoding="utf-8")
    with pytest.raises(DataError, match="1 captions have no image file, such as '0'"):
        make(quick(str(table), tmp_path / "work"))


def test_a_folder_that_was_not_made_here_is_left_alone(source, tmp_path):
    settings = quick(source, tmp_path / "work", into=tmp_path / "mine")
    (settings.folder / "thesis").mkdir(parents=True)
    with pytest.raises(StorageError, match="was not written by new-benchmark"):
        make(settings)
    (settings.work / "captions" / "thesis").mkdir(parents=True)
    with pytest.raises(StorageError, match="is not a stage of this workflow"):
        make(replace(settings, into=None))
