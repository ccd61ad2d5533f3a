"""The steps over a corpus: captions a second on one core, memory as rows grow, and what a second process gives.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_corpus.py --sugarcrepe data --most-rows 10000000

Captions are made of halves of SugarCrepe's, images of noise, 384 pixels wide, in tars. Each run is a process of its
own. Exits with 1 unless peak memory grows by at most 10 % from `--rows` to `--most-rows`, and two processes are 1.8
times as fast as one, which needs two idle cores; similar captions are also searched with MinHash, to compare.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import time
import zlib
from collections import defaultdict
from pathlib import Path

import numpy as np
from harness import check_goals, read_options, workplace
from PIL import Image

SHARD_ROWS = 50_000
IMAGES = 1000
STEPS = ("statistics", "generate", "audit", "contamination")

# The first argument is what to run, then folder, number of shards, processes, and SugarCrepe's folder.
RUN = """
import resource, sys, time
from pathlib import Path
from vl_assay.hub_datasets.corpora import contamination, rules, running, shards, statistics
name, folder, count, workers, sugarcrepe = sys.argv[1:]
def search(**options):
    items = contamination.read_items(["sugarcrepe"], data_dir=Path(sugarcrepe), with_images=False)
    if options:
        items = contamination.read_items(["toy_scenes/itm"], image_model=options.get("image_model"))
    return contamination.ContaminationSearch(items, 0.7, 0.95, **options)
step, merge = {
    "statistics": lambda: (statistics.CaptionStatistics(), statistics.merge),
    "generate": lambda: (rules.RuleCandidates(("swap_att",)), rules.merge_candidates),
    "audit": lambda: (rules.BlindRules(negative="negative"), rules.merge_audit),
    "contamination": lambda: (search(), None),
    "files": lambda: (search(image_column="image"), None),
    "images": lambda: (search(image_model="histogram", image_column="image"), None),
}[name]()
found = shards.find_shards([folder])[: int(count)]
start = time.perf_counter()
outcomes = running.run_shards(found, step, Path(folder + "-" + name + count + workers), workers=int(workers))
seconds = time.perf_counter() - start
assert not any(outcome.problem for outcome in outcomes), outcomes[0].problem
merge(outcomes) if merge else contamination.merge(step, outcomes)
peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
used = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(seconds, time.perf_counter() - start - seconds, peak / 1024, used)
"""


def main() -> int:
    options = read_options(__doc__, sugarcrepe=Path, rows=100_000, most_rows=2_000_000, steps=",".join(STEPS))
    goals = []
    with workplace() as folder:
        write_captions(folder / "captions", options.sugarcrepe, options.most_rows // SHARD_ROWS)
        write_images(folder / "images")
        for name in options.steps.split(","):
            few, many = (rows // SHARD_ROWS for rows in (options.rows, options.most_rows))
            seconds, merging, peak, _ = measure(name, folder / "captions", few, 1, options.sugarcrepe)
            rate = few * SHARD_ROWS / seconds
            print(
                f"{name}: {rate:,.0f} captions/s, merged in {merging:.1f} s, {peak:,.0f} MiB (load {load()})",
                flush=True,
            )
            seconds, merging, most, _ = measure(name, folder / "captions", many, 1, options.sugarcrepe)
            print(
                f"  {many * SHARD_ROWS:,} rows: {seconds:.0f} s, merged in {merging:.0f} s, {most:,.0f} MiB", flush=True
            )
            goals.append((f"{name}: memory, {options.most_rows:,} / {options.rows:,} rows", most / peak, "<=", 1.1))
            # Enough work that the start of processes, a second, does not count.
            count = min(many, max(few, 40))
            one, two = (measure(name, folder / "captions", count, n, options.sugarcrepe, "w") for n in (1, 2))
            cpu = f"CPU {one[3]:.1f} and {two[3]:.1f} s; load {load()}"
            print(f"  1 process {one[0]:.1f} s, 2 processes {two[0]:.1f} s ({cpu})", flush=True)
            goals.append((f"{name}: speed, 2 processes / 1", one[0] / two[0], ">=", 1.8))
        for name, title in {"files": "same image files", "images": "similar images (histogram)"}.items():
            seconds, _, peak, _ = measure(name, folder / "images", 1, 1, options.sugarcrepe)
            print(f"{title}: {IMAGES / seconds:,.0f} images/s, {peak:,.0f} MiB (load {load()})")
    goals.append(
        ("similar captions a CPU second, filter / MinHash", compare_with_minhash(options.sugarcrepe), ">=", 1.0)
    )
    return check_goals("corpora", goals)


def compare_with_minhash(sugarcrepe: Path) -> float:
    """The speed of the prefix filter over that of the faster of two MinHashes; prints how much these find."""
    from vl_assay.hub_datasets.corpora.contamination import read_items
    from vl_assay.hub_datasets.corpora.similar_texts import SimilarTexts, shingles

    items = read_items(["sugarcrepe"], data_dir=sugarcrepe, with_images=False)
    texts, rng = [caption.split() for caption in items.captions], np.random.default_rng(0)
    vocabulary = sorted({word for text in texts for word in text})
    asked = [list(texts[number]) for number in rng.integers(len(texts), size=10_000)]
    for text in asked:  # captions with a word replaced
        text[int(rng.integers(len(text)))] = str(rng.choice(vocabulary))
    index = SimilarTexts(texts, 0.7)
    start = time.process_time()
    true = {(row, number) for row, text in enumerate(asked) for number, _ in index.find(text)}
    filtered = time.process_time() - start
    print(f"prefix filter: {len(asked) / filtered:,.0f} texts a CPU second, {len(true):,} similar pairs")
    prime = (1 << 31) - 1
    factors, terms = rng.integers(1, prime, (2, 128), dtype=np.uint64)

    def bands(text: list[str], rows: int) -> list[tuple[int, bytes]]:
        hashes = np.array([zlib.crc32("\0".join(each).encode()) & prime for each in shingles(text)], np.uint64)
        least = ((hashes[:, None] * factors + terms) % np.uint64(prime)).min(axis=0)
        return [(at, least[at : at + rows].tobytes()) for at in range(0, len(least), rows)]

    seconds = []
    for rows in (8, 4):
        tables = defaultdict(list)
        for number, text in enumerate(texts):
            for key in bands(text, rows):
                tables[key].append(number)
        start = time.process_time()
        found = {(row, n) for row, text in enumerate(asked) for key in bands(text, rows) for n in tables.get(key, ())}
        seconds.append(time.process_time() - start)
        share = len(found & true) / len(true)
        rate = len(asked) / seconds[-1]
        print(f"MinHash, {128 // rows} bands of {rows}: {rate:,.0f}, {share:.1%} of them, {len(found):,} candidates")
    return min(seconds) / filtered


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def measure(name: str, folder: Path, count: int, workers: int, data: Path, again: str = "") -> list[float]:
    """Seconds of the shards and of the merge, peak memory of the largest process in MiB, CPU seconds of all."""
    linked = folder.with_name(f"{folder.name}{again}{workers}-{count}-{name}")
    linked.symlink_to(folder)
    words = [name, str(linked), str(count), str(workers), str(data)]
    done = subprocess.run([sys.executable, "-c", RUN, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return [float(text) for text in done.stdout.split()]


def write_captions(folder: Path, sugarcrepe: Path, count: int) -> None:
    """Shards of captions, each the beginning of one and the end of another, with a third as its negative."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = sorted(sugarcrepe.rglob("data/*.json"))
    rows = [row for file in files for row in json.loads(file.read_text(encoding="utf-8")).values()]
    captions = [row[name].split() for row in rows for name in ("caption", "negative_caption")]
    halves = [(words[: len(words) // 2], words[len(words) // 2 :]) for words in captions]
    rng = np.random.default_rng(0)
    folder.mkdir()
    for number in range(count):
        first, second, other = rng.integers(len(halves), size=(3, SHARD_ROWS)).tolist()
        captions = [" ".join(halves[a][0] + halves[b][1]) for a, b in zip(first, second, strict=True)]
        negatives = [" ".join(halves[a][0] + halves[b][1]) for a, b in zip(first, other, strict=True)]
        columns = {"caption": captions, "negative": negatives, "kind": ["made"] * SHARD_ROWS}
        pq.write_table(pa.table(columns), folder / f"{number:05d}.parquet")


def write_images(folder: Path) -> None:
    rng = np.random.default_rng(0)
    folder.mkdir()
    with tarfile.open(folder / "0.tar", "w") as archive:
        for number in range(IMAGES):
            small = Image.fromarray(rng.integers(256, size=(24, 32, 3), dtype=np.uint8))
            file = io.BytesIO()
            small.resize((384, 288), Image.Resampling.BICUBIC).save(file, "JPEG")
            for suffix, content in (("jpg", file.getvalue()), ("txt", b"a picture")):
                member = tarfile.TarInfo(f"{number:06d}.{suffix}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


if __name__ == "__main__":
    sys.exit(main())
