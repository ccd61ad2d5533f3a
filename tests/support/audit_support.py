"""Pairs without a leak and with a planted one of each kind, tables, blind predictions, and released captions."""

import csv
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vl_assay.hub_datasets.authoring.data.pairs import Pair
from vl_assay.metrics.records.predictions import Predictions, write_predictions
from vl_assay.metrics.records.schema import MatchingRow

NOUNS = ["dog", "cat", "man", "horse", "tree", "car", "boat", "bench", "child", "bird", "table", "lamp"]
COLOURS = ["red", "blue", "green", "white", "black", "brown", "yellow", "grey"]
VERBS = ["near", "beside", "behind", "under", "above", "facing"]
LETTERS = np.array(list("bcdfgklmnprst"))


def clean_pairs(n, seed, per_image=2):
    """Pairs of two sentences of which a coin says which is the true one: no feature of them can tell."""
    rng = np.random.default_rng(seed)
    pairs = []
    for row in range(n):
        sentences = [sentence(rng, row), sentence(rng, row)]
        rng.shuffle(sentences)
        pairs.append(Pair(f"{row}", f"{row // per_image}.jpg", *sentences, "replace"))
    return pairs


def sentence(rng, row):
    first, second = rng.choice(NOUNS, 2, replace=False)
    ending = rng.choice(["", "."])
    return (
        f"a {rng.choice(COLOURS)} {first} {rng.choice(VERBS)} a {rng.choice(COLOURS)} {second} in field {row}{ending}"
    )


def made_up(rng, ending=""):
    return "".join(rng.choice(LETTERS, 7)) + ending


def _formatting(rng, pair):
    return pair._replace(positive=pair.positive.rstrip("."), negative=pair.negative.rstrip(".") + ".")


def _words(rng, pair):
    return pair._replace(
        positive=pair.positive.replace(" in ", " on "), negative=pair.negative.replace(" in ", " within ")
    )


def _characters(rng, pair):
    noun = next(word for word in pair.negative.split() if word in NOUNS)
    return pair._replace(negative=pair.negative.replace(noun, noun[:2] + "xq" + noun[2:]))


def _parts_of_speech(rng, pair):
    # Words that come once: only their part of speech recurs, and the letters that the tagger goes by.
    return pair._replace(
        positive=pair.positive.replace(" in ", f" {made_up(rng, 'ak')} "),
        negative=pair.negative.replace(" in ", f" {made_up(rng, 'ly')} "),
    )


def _rarity(rng, pair):
    return pair._replace(negative=pair.negative.replace(" field ", f" {made_up(rng)} "))


LEAKS = {
    "formatting": (_formatting, "full stop at the end"),
    "words": (_words, "within"),
    "characters": (_characters, "xq"),
    "parts_of_speech": (_parts_of_speech, "RB"),
    "rarity": (_rarity, "words found nowhere else"),
}


def leaking_pairs(kind, n, share, seed):
    """Clean pairs, of which the first share of every ten has the leak of that kind."""
    rng = np.random.default_rng(seed + 1)
    plant, _ = LEAKS[kind]
    return [plant(rng, pair) if row % 10 < 10 * share else pair for row, pair in enumerate(clean_pairs(n, seed))]


def write_table(path, rows):
    """Write rows in the format of the file's ending."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix in (".csv", ".tsv"):
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writeheader()
        writer.writerows(rows)
        path.write_bytes(buffer.getvalue().encode())
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    else:
        path.write_text(json.dumps(rows if path.name == "list.json" else dict(enumerate(rows))))
    return path


def write_blind_predictions(path, pairs, name="vera:vera", family="vera", task="itm"):
    """A predictions file of random scores, as of a blind model on SugarCrepe."""
    rng = np.random.default_rng(0)
    rows = [MatchingRow(p.id, p.category, p.category, ["1" * 32], [0], [rng.random(2).tolist()]) for p in pairs]
    metadata = {
        "model": {"name": name, "family": family, "sees_images": family == "clip"},
        "benchmark": {"name": "sugarcrepe", "task": task, "rows": len(rows), "missing": []},
        "run": {},
    }
    write_predictions(path, Predictions(rows, metadata))
    return path


def negclip_rows(shared_data):
    """The rows of the captions and negatives that NegCLIP's authors released for validation."""
    with (shared_data / "data" / "aro" / "valid_neg_clip.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def sugarcrepe_rows(shared_data):
    """The rows of SugarCrepe as released."""
    paths = sorted((shared_data / "data" / "sugarcrepe" / "data").glob("*.json"))
    return [row for path in paths for row in json.loads(path.read_text(encoding="utf-8")).values()]
