"""The runner: what it encodes, that scores are the model's own, and that nothing changes them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from vl_assay.hub_datasets import build, load_examples
from vl_assay.metrics.errors import DataError, ModelError, SheetError, StorageError, UnknownNameError
from vl_assay.metrics.sheets import read_sheet
from vl_assay.model_wrappers import LoadOptions, ModelInfo, load_model, score

REFERENCES = ("sugarcrepe/add_att", "sugarcrepe/swap_obj")
UNVERIFIED = {"verify": False}


def scores_of(path):
    return {row.id: row.scores for row in read_sheet(path).rows}


def all_scores(paths):
    return np.array([score for path in paths for rows in scores_of(path).values() for score in rows[0]])


def run_quietly(model, folder, out, references=REFERENCES, **options):
    return score(model, references, out=out, data_dir=folder, options=UNVERIFIED, progress=False, **options)


class Recorder:
    """A dual encoder in NumPy that counts what it encodes and can fail on the way."""

    def __init__(self, noise=0.0, fail_after=None, name="recorder"):
        self.info = ModelInfo(name, "test", name, "1", "float32")
        self.max_tokens = 1000
        self.images = self.captions = self.exact = 0
        self.noise, self.fail_after = noise, fail_after
        self.rng = np.random.default_rng(0)

    def prepare_image(self, image):
        return np.asarray(image.convert("RGB").resize((4, 4)), np.float32).ravel() - 128

    def prepare_captions(self, captions):
        return [list(caption.encode()) for caption in captions]

    def encode_images(self, images, *, exact=False):
        return self._embed(np.stack(images), "images", exact)

    def encode_captions(self, captions, *, exact=False):
        rows = [np.bincount([byte % 48 for byte in ids], np.arange(1, len(ids) + 1), 48) for ids in captions]
        return self._embed(np.stack(rows), "captions", exact)

    def _embed(self, rows, kind, exact):
        if exact:
            assert len(rows) == 1
            self.exact += 1
        else:
            setattr(self, kind, getattr(self, kind) + len(rows))
            if self.fail_after is not None and self.images + self.captions > self.fail_after:
                raise KeyboardInterrupt
        rows = rows.astype(np.float64)
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return rows if exact else rows + self.noise * self.rng.standard_normal(rows.shape)


def test_every_different_image_and_caption_is_encoded_once(coco, tmp_path):
    folder = coco(rows=30, images=5)
    twin = folder / "val2017" / "000000000004.jpg"
    twin.write_bytes((folder / "val2017" / "000000000000.jpg").read_bytes())
    model = Recorder()
    [one, two] = run_quietly(model, folder, tmp_path / "out")
    captions = {
        c
        for path in (folder / "data").iterdir()
        for r in json.loads(path.read_text()).values()
        for c in (r["caption"], r["negative_caption"])
    }
    assert (model.images, model.captions) == (4, len(captions))
    assert len(read_sheet(one).rows) + len(read_sheet(two).rows) == 60


def test_scores_equal_a_bare_forward_of_one_pair_at_a_time(tiny_clip, coco, tmp_path):
    import torch
    from transformers import AutoImageProcessor, AutoTokenizer, CLIPModel

    folder = coco()
    [path] = run_quietly(str(tiny_clip), folder, tmp_path / "out", ["sugarcrepe/swap_obj"])
    ours = scores_of(path)
    model = CLIPModel.from_pretrained(tiny_clip).eval()
    tokenizer = AutoTokenizer.from_pretrained(tiny_clip)
    processor = AutoImageProcessor.from_pretrained(tiny_clip, backend="pil")
    records = json.loads((folder / "data" / "swap_obj.json").read_text())
    assert len(ours) == len(records) == 24
    for key, record in records.items():
        image = Image.open(folder / "val2017" / record["filename"])
        pixels = processor(image, return_tensors="pt")["pixel_values"]
        for position, caption in enumerate((record["caption"], record["negative_caption"])):
            tokens = tokenizer(caption, truncation=True, max_length=32, return_tensors="pt")
            with torch.inference_mode():
                output = model(**tokens, pixel_values=pixels)
            theirs = float(output.image_embeds[0] @ output.text_embeds[0])
            assert ours[f"swap_obj/{key}"][0][position] == pytest.approx(theirs, abs=1e-5)


def test_batch_size_changes_no_score_beyond_1e_6_and_no_decision(tiny_clip, coco, tmp_path):
    folder = coco(rows=40)
    runs = [all_scores(run_quietly(str(tiny_clip), folder, tmp_path / str(n), batch_size=n)) for n in (1, 7, 64)]
    for other in runs[1:]:
        assert np.abs(other - runs[0]).max() <= 1e-6
        assert (np.sign(other[::2] - other[1::2]) == np.sign(runs[0][::2] - runs[0][1::2])).all()


def test_near_ties_are_settled_one_at_a_time_in_double_precision(coco, tmp_path):
    folder = coco(rows=20)
    path = folder / "data" / "swap_obj.json"
    records = json.loads(path.read_text())
    # To this model the order of equal bytes 48 apart is all that differs: the two captions are the same vector.
    records["0"]["negative_caption"] = records["0"]["caption"].replace("a", "1")
    path.write_text(json.dumps(records))
    exact = scores_of(run_quietly(Recorder(), folder, tmp_path / "exact", ["sugarcrepe/swap_obj"])[0])
    noisy_model = Recorder(noise=1e-7)
    noisy = scores_of(run_quietly(noisy_model, folder, tmp_path / "noisy", ["sugarcrepe/swap_obj"])[0])
    assert noisy_model.exact >= 2
    first, second = noisy["swap_obj/0"][0]
    assert first == second
    assert noisy["swap_obj/0"] == exact["swap_obj/0"]


def test_an_interrupted_run_goes_on_where_it_stopped(coco, tmp_path):
    folder = coco(rows=400, images=300)
    broken = Recorder(fail_after=1000)
    with pytest.raises(KeyboardInterrupt):
        run_quietly(broken, folder, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.parquet"))
    resumed, undisturbed = Recorder(), Recorder()
    ours = all_scores(run_quietly(resumed, folder, tmp_path / "out"))
    theirs = all_scores(run_quietly(undisturbed, folder, tmp_path / "other"))
    assert (ours == theirs).all()
    assert resumed.images == 0
    assert 0 < resumed.captions < undisturbed.captions
    assert not (tmp_path / "out" / ".unfinished").exists()


def test_a_damaged_part_is_computed_again(coco, tmp_path):
    folder = coco(rows=400, images=300)
    with pytest.raises(KeyboardInterrupt):
        run_quietly(Recorder(fail_after=1000), folder, tmp_path / "out")
    part = next((tmp_path / "out" / ".unfinished").rglob("images-*.npy"))
    part.write_bytes(part.read_bytes()[:50])
    ours = all_scores(run_quietly(Recorder(), folder, tmp_path / "out"))
    assert (ours == all_scores(run_quietly(Recorder(), folder, tmp_path / "other"))).all()


def test_parts_of_another_model_are_not_taken(coco, tmp_path):
    folder = coco(rows=400, images=300)
    with pytest.raises(KeyboardInterrupt):
        run_quietly(Recorder(fail_after=1000), folder, tmp_path / "out")
    other = Recorder(name="other")
    run_quietly(other, folder, tmp_path / "out")
    assert other.images == 300


def command(*arguments, processes=1, **environment):
    launcher = [sys.executable, "-m"]
    if processes > 1:
        launcher += ["torch.distributed.run", "--standalone", "--nproc_per_node", str(processes), "-m"]
    env = os.environ | {"OMP_NUM_THREADS": "1"} | environment
    return subprocess.Popen(
        [*launcher, "vl_assay.metrics.console", *map(str, arguments)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process):
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output


def score_command(model, folder, out, **options):
    arguments = ["score", model, "sugarcrepe/add_att", "sugarcrepe/swap_obj", "--data-dir", folder, "--out", out]
    return command(*arguments, "-o", "verify=false", **options)


def test_two_processes_give_the_scores_of_one(tiny_clip, coco, tmp_path):
    folder = coco(rows=300, images=200)
    paths = run_quietly(str(tiny_clip), folder, tmp_path / "one")
    one = all_scores(paths)
    finish(score_command(tiny_clip, folder, tmp_path / "two", processes=2))
    two_paths = [tmp_path / "two" / path.name for path in paths]
    two = all_scores(two_paths)
    assert read_sheet(two_paths[0]).metadata["run"]["processes"] == 2
    assert np.abs(one - two).max() <= 1e-6
    assert (np.sign(one[::2] - one[1::2]) == np.sign(two[::2] - two[1::2])).all()


def wait_for_a_part(folder, process):
    """Wait until a run has finished a first part of its work."""
    while not list(folder.rglob("*.npy")):
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.002)


def kill_and_resume(model, folder, tmp_path, rounds, processes=1, seed=0):
    """Start a run and kill it at random moments, `rounds` times; then let it end. Returns the sheets' scores."""
    rng = np.random.default_rng(seed)
    started = time.monotonic()
    finish(score_command(model, folder, tmp_path / "undisturbed", processes=processes))
    full = time.monotonic() - started
    killed = 0
    for number in range(rounds):
        process = score_command(model, folder, tmp_path / "killed", processes=processes)
        if number == 0:  # at least one kill with work done and work left
            wait_for_a_part(tmp_path / "killed", process)
        else:
            time.sleep(float(rng.uniform(0.3, 1.0)) * full)
        killed += process.poll() is None
        for child in subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split():
            os.kill(int(child), signal.SIGKILL)
        process.kill()
        process.communicate()
    left = list((tmp_path / "killed").rglob("*.npy"))
    output = finish(score_command(model, folder, tmp_path / "killed", processes=processes))
    assert not left or "going on" in output
    names = ["sugarcrepe.add_att.parquet", "sugarcrepe.swap_obj.parquet"]
    return killed, *(all_scores([tmp_path / run / name for name in names]) for run in ("undisturbed", "killed"))


def test_killed_runs_end_with_the_same_bits(coco, tmp_path):
    killed, undisturbed, resumed = kill_and_resume("mock:bag-of-words", coco(400, 300), tmp_path, rounds=2)
    assert killed >= 1
    assert (undisturbed == resumed).all()


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_a_clip_run_killed_ten_times_ends_with_the_same_bits(coco, tmp_path, processes):
    folder = coco(1500, 900)
    killed, undisturbed, resumed = kill_and_resume("demo-clip", folder, tmp_path, rounds=10, processes=processes)
    assert killed >= 5
    assert (undisturbed == resumed).all()


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3])
def test_a_run_killed_and_resumed_by_more_processes_decides_the_same(tiny_clip, coco, tmp_path, processes):
    folder = coco(rows=1500, images=900)
    started = time.monotonic()
    finish(score_command(tiny_clip, folder, tmp_path / "one"))
    process = score_command(tiny_clip, folder, tmp_path / "many")
    time.sleep(0.8 * (time.monotonic() - started))
    process.kill()
    process.communicate()
    finish(score_command(tiny_clip, folder, tmp_path / "many", processes=processes))
    names = ["sugarcrepe.add_att.parquet", "sugarcrepe.swap_obj.parquet"]
    one, many = (all_scores([tmp_path / run / name for name in names]) for run in ("one", "many"))
    assert np.abs(one - many).max() <= 1e-6
    assert (np.sign(one[::2] - one[1::2]) == np.sign(many[::2] - many[1::2])).all()


def test_a_sheet_says_what_model_scored_what_data_with_which_code(tiny_clip, coco, tmp_path):
    folder = coco()
    [path, _] = run_quietly(str(tiny_clip), folder, tmp_path / "out")
    metadata = read_sheet(path).metadata
    assert metadata["model"]["name"] == "tiny-clip"
    assert metadata["model"]["revision"].startswith("sha256:")
    assert metadata["model"]["dtype"] == "float32"
    assert metadata["model"]["preprocessing"]["backend"] == "pil"
    [data] = load_examples("sugarcrepe/add_att", data_dir=folder, options=UNVERIFIED)
    assert metadata["benchmark"]["fingerprint"] == data.fingerprint
    assert metadata["run"]["code"]
    assert metadata["run"]["libraries"]["torch"]
    assert metadata["run"]["seconds"].keys() == {"data", "model", "scores"}
    assert pq.read_schema(path).names == ["id", "config", "category", "images", "correct", "scores"]


def test_long_captions_are_cut_as_the_tokenizer_would_and_counted(tiny_clip, coco, tmp_path):
    folder = coco()
    path = folder / "data" / "swap_obj.json"
    records = json.loads(path.read_text())
    records["0"]["caption"] = "a red box " * 30
    path.write_text(json.dumps(records))
    [sheet] = run_quietly(str(tiny_clip), folder, tmp_path / "out", ["sugarcrepe/swap_obj"])
    model = load_model(str(tiny_clip))
    [cut] = model.encode_captions(model.prepare_captions([records["0"]["caption"]]))
    ids = model._tokenizer(records["0"]["caption"], truncation=True, max_length=32)["input_ids"]
    [expected] = model.encode_captions([ids])
    assert (cut == expected).all()
    facts = read_sheet(sheet).metadata["run"]
    longer = [
        ids
        for ids in model.prepare_captions([r[c] for r in records.values() for c in ("caption", "negative_caption")])
        if len(ids) > 32
    ]
    assert facts["truncated_captions"] == len({tuple(ids) for ids in longer}) >= 1


def test_nan_scores_are_refused_and_earlier_sheets_stay(coco, tmp_path):
    folder = coco()
    [path, _] = run_quietly("mock:constant", folder, tmp_path / "out")
    before = path.read_bytes()
    with pytest.raises(ModelError, match="mock:nan gave NaN or infinity in the stage pairs"):
        run_quietly("mock:nan", folder, tmp_path / "nan")
    assert path.read_bytes() == before
    assert not list((tmp_path / "nan").glob("*.parquet"))


def test_a_missing_image_fails_by_name_or_is_kept_unscored_and_counted(coco, tmp_path):
    folder = coco(rows=24, images=8)
    (folder / "val2017" / "000000000003.jpg").unlink()
    with pytest.raises(DataError, match=r"000000000003\.jpg"):
        run_quietly("mock:shuffled", folder, tmp_path / "out")
    options = {**UNVERIFIED, "allow_missing": True}
    [path] = score(
        "mock:shuffled", ["sugarcrepe/swap_obj"], out=tmp_path / "out", data_dir=folder, options=options, progress=False
    )
    sheet = read_sheet(path)
    unscored = [row.id for row in sheet.rows if row.scores is None]
    assert (len(sheet.rows), len(unscored)) == (24, 3)
    assert sheet.metadata["benchmark"]["missing"] == unscored


def test_an_unreadable_image_is_named_and_mending_it_is_enough(coco, tmp_path):
    folder = coco()
    image = folder / "val2017" / "000000000002.jpg"
    content = image.read_bytes()
    image.write_bytes(content[: len(content) // 3])
    with pytest.raises(DataError, match=r"000000000002\.jpg of sugarcrepe cannot be read.*add_att/2"):
        run_quietly("mock:shuffled", folder, tmp_path / "out")
    image.write_bytes(content)
    assert len(run_quietly("mock:shuffled", folder, tmp_path / "out")) == 2


@pytest.mark.parametrize(
    ("model", "benchmark", "error", "message"),
    [
        ("no-such-model", "toy_scenes", ModelError, "unknown model 'no-such-model'.*demo-clip"),
        ("nobody:x", "toy_scenes", UnknownNameError, "unknown model family 'nobody'; known: clip, mock"),
        ("mock:x", "toy_scenes", UnknownNameError, "unknown mock 'x'; known: constant"),
        ("mock:oracle", "sugarcrepes", UnknownNameError, "unknown benchmark 'sugarcrepes'; known: sugarcrepe, toy"),
        ("mock:oracle", "sugarcrepe/swap", UnknownNameError, "unknown part of sugarcrepe 'swap'; known: .*swap_obj"),
    ],
)
def test_unknown_names_answer_with_the_known_ones(model, benchmark, error, message, coco, tmp_path):
    benchmarks = ["sugarcrepe/swap_obj"] if benchmark == "toy_scenes" else [benchmark]
    with pytest.raises(error, match=message):
        run_quietly(model, coco(), tmp_path / "out", benchmarks)


def test_a_checkpoint_of_another_type_is_refused_with_the_types_that_exist(tmp_path):
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ModelError, match=r"'bert' checkpoint and no family answers.*clip \(clip\)"):
        load_model(str(tmp_path / "bert"))
    with pytest.raises(ModelError, match="is a 'bert' checkpoint, not CLIP"):
        load_model(f"clip:{tmp_path / 'bert'}")


def test_missing_weights_are_an_error_that_lists_them(tiny_clip, tmp_path):
    import shutil

    from safetensors.torch import load_file, save_file

    folder = tmp_path / "incomplete"
    shutil.copytree(tiny_clip, folder)
    weights = load_file(folder / "model.safetensors")
    del weights["visual_projection.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks 1 of CLIP's weights.*visual_projection\.weight"):
        load_model(str(folder))


def test_dtype_is_the_one_asked_for_whatever_the_file_holds(tiny_clip, tmp_path):
    import torch
    from transformers import CLIPModel

    model = load_model(str(tiny_clip), LoadOptions(dtype="bfloat16"))
    assert model._model.dtype == torch.bfloat16
    half = CLIPModel.from_pretrained(tiny_clip, dtype=torch.float16)
    half.save_pretrained(tmp_path / "half")
    for file in ("tokenizer.json", "tokenizer_config.json", "preprocessor_config.json"):
        (tmp_path / "half" / file).write_bytes((tiny_clip / file).read_bytes())
    assert load_model(str(tmp_path / "half"))._model.dtype == torch.float32
    with pytest.raises(ModelError, match="unknown dtype 'int8'; known: float32"):
        load_model(str(tiny_clip), LoadOptions(dtype="int8"))


def test_a_folder_that_build_wrote_can_be_scored(coco, tmp_path):
    folder = coco()
    repository = build("sugarcrepe", tmp_path / "sc", configs=["swap_obj"], data_dir=folder, options=UNVERIFIED)
    [direct] = run_quietly("mock:bag-of-words", folder, tmp_path / "a", ["sugarcrepe/swap_obj"])
    [built] = score("mock:bag-of-words", [str(repository)], out=tmp_path / "b", progress=False)
    assert scores_of(direct) == scores_of(built)
    assert read_sheet(direct).metadata["benchmark"] == read_sheet(built).metadata["benchmark"]


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a file system of 3 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_one_message_and_leaves_earlier_results_intact(small_disk, coco, tmp_path):
    folder = coco(rows=400, images=300)
    [path, _] = run_quietly(Recorder(), folder, small_disk / "out")
    before = path.read_bytes()
    filler = small_disk / "filler"
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_bsize
    filler.write_bytes(b"\0" * (free - 120_000))
    with pytest.raises(StorageError, match=r"No space left on device.*run the same command again"):
        run_quietly(Recorder(name="second"), folder, small_disk / "second")
    assert path.read_bytes() == before
    assert not list((small_disk / "second").glob("*.parquet"))
    filler.unlink()
    [second, _] = run_quietly(Recorder(name="second"), folder, small_disk / "second")
    assert read_sheet(second).model == "second"


def test_the_sheet_of_another_model_or_of_other_data_is_not_replaced(coco, tmp_path):
    folder = coco()
    [path, _] = run_quietly(Recorder(), folder, tmp_path / "out")
    before = path.read_bytes()
    with pytest.raises(SheetError, match=r"holds scores of .*'recorder'.*name another folder with --out"):
        run_quietly(Recorder(name="second"), folder, tmp_path / "out")
    file = folder / "data" / "add_att.json"
    file.write_text(file.read_text().replace("number 1", "number one"))
    with pytest.raises(SheetError, match="another version of the data"):
        run_quietly(Recorder(), folder, tmp_path / "out")
    assert path.read_bytes() == before


class Pairs:
    """A pair scorer whose score tells the image and the caption; can stop after so many images."""

    def __init__(self, stop_after=None, wrong=False):
        self.info = ModelInfo("pairs", "test", "pairs", "1", "float64")
        self.seen, self.stop_after, self.wrong = 0, stop_after, wrong

    def score(self, image, captions):
        self.seen += 1
        if self.stop_after is not None and self.seen > self.stop_after:
            raise KeyboardInterrupt
        level = float(np.asarray(image.convert("L"), np.float64).mean())
        return [level + len(caption) / 1000 for caption in captions][: 1 if self.wrong else None]


def test_parts_of_other_pairs_of_the_same_images_and_captions_are_not_taken(coco, tmp_path):
    folder = coco(rows=400, images=300)
    with pytest.raises(KeyboardInterrupt):
        run_quietly(Pairs(stop_after=200), folder, tmp_path / "out")
    path = folder / "data" / "swap_obj.json"
    records = json.loads(path.read_text())
    records["0"], records["1"] = ({**records[a], "filename": records[b]["filename"]} for a, b in ("01", "10"))
    path.write_text(json.dumps(records))
    model = Pairs()
    ours = all_scores(run_quietly(model, folder, tmp_path / "out"))
    assert (ours == all_scores(run_quietly(Pairs(), folder, tmp_path / "other"))).all()


def test_a_model_that_gives_too_few_scores_is_refused(coco, tmp_path):
    with pytest.raises(ModelError, match=r"pairs gave \(1,\) scores for \d+ captions"):
        run_quietly(Pairs(wrong=True), coco(), tmp_path / "out")


def test_a_model_that_gave_nan_once_may_try_again(coco, tmp_path):
    folder = coco()
    model = Recorder(noise=float("nan"))
    with pytest.raises(ModelError, match="recorder gave NaN or infinity in the stage images"):
        run_quietly(model, folder, tmp_path / "out")
    assert len(run_quietly(Recorder(), folder, tmp_path / "out")) == 2


def test_an_unknown_name_is_said_before_any_data_are_built(coco, tmp_path, monkeypatch):
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path / "cache"))
    for model, references in (("no-such-model", REFERENCES), ("mock:constant", [*REFERENCES, "sugarcrepe/x"])):
        with pytest.raises((ModelError, UnknownNameError), match="unknown"):
            run_quietly(model, coco() if not (tmp_path / "coco").exists() else tmp_path / "coco", tmp_path, references)
    assert not (tmp_path / "cache").exists()


def test_a_damaged_dataset_in_the_cache_is_named(coco, tmp_path, monkeypatch):
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "arrow"))
    folder = coco()
    run_quietly("mock:constant", folder, tmp_path / "out", ["sugarcrepe/swap_obj"])
    [parquet] = (tmp_path / "cache").rglob("*.parquet")
    parquet.write_bytes(parquet.read_bytes()[:1000])
    with pytest.raises(DataError, match=r"swap_obj-[0-9a-f]+ cannot be read; remove it"):
        run_quietly("mock:constant", folder, tmp_path / "out", ["sugarcrepe/swap_obj"])


def test_checkpoints_that_would_score_nonsense_are_refused(tiny_clip, tmp_path):
    import shutil

    shutil.copytree(tiny_clip, tmp_path / "wordless")
    for file in (tmp_path / "wordless").glob("tokenizer*"):
        file.unlink()
    with pytest.raises(ModelError, match="tokenizer"):
        load_model(str(tmp_path / "wordless"))
    shutil.copytree(tiny_clip, tmp_path / "broken")
    weights = tmp_path / "broken" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelError, match=r"cannot load .*broken as CLIP"):
        load_model(str(tmp_path / "broken"))


def test_the_revision_of_a_folder_changes_with_its_configuration(tiny_clip, tmp_path):
    import shutil

    shutil.copytree(tiny_clip, tmp_path / "other")
    config = tmp_path / "other" / "config.json"
    config.write_text(config.read_text().replace("quick_gelu", "gelu"))
    one, other = (load_model(str(folder)).info.revision for folder in (tiny_clip, tmp_path / "other"))
    assert one != other


def test_a_sheet_with_a_broken_rule_is_refused_by_row(coco, tmp_path):
    [path, _] = run_quietly("mock:constant", coco(), tmp_path / "out")
    table = pq.read_table(path)
    doubled = table.slice(0, 2).replace_schema_metadata(table.schema.metadata)
    import pyarrow as pa

    pq.write_table(pa.concat_tables([doubled, doubled]), tmp_path / "double.parquet")
    with pytest.raises(SheetError, match=r"double\.parquet: row 2 \(id 'add_att/0'\): its id came before"):
        read_sheet(tmp_path / "double.parquet")
    (tmp_path / "text.parquet").write_text("no")
    with pytest.raises(SheetError, match="not a readable Parquet file"):
        read_sheet(tmp_path / "text.parquet")
    with pytest.raises(SheetError, match="no such score sheet"):
        read_sheet(Path("nowhere.parquet"))
