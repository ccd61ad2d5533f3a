"""What is told of captions: statistics, candidates and audits equal plain counts over all rows."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from console import invoke

from vl_assay.hub_datasets.authoring.audit.features import formatting
from vl_assay.hub_datasets.authoring.generate.rejected import Rejected
from vl_assay.hub_datasets.authoring.generate.rules import make_by_rule
from vl_assay.hub_datasets.corpora.shards import find_shards
from vl_assay.metrics.common.wording import words

NOUNS = ("dog", "cat", "table", "bus", "horse", "狗", "été")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Captions in three shards, among which many recur, some in other typing."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(0)
    shards = []
    for number in range(3):
        nouns = rng.choice(NOUNS, (100, 2))
        captions = [f"A red {a} and {['a', 'A  large'][n % 2]} {b}{'.' * (n % 3)}" for n, (a, b) in enumerate(nouns)]
        captions += [None, "", " ", "!"]
        shards.append(captions)
        pq.write_table(pa.table({"text": pa.array(captions, pa.string())}), folder / f"{number}.parquet")
    return folder, shards


def test_statistics_are_those_of_all_captions_together(corpus, tmp_path):
    folder, shards = corpus
    result = invoke("corpus", "statistics", folder, "--out", tmp_path, "--column", "caption=text")
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "statistics.json").read_text())
    captions = [text for shard in shards for text in shard if text and text.strip()]
    split = [words(text) for text in captions]
    same, vocabulary = Counter(map(tuple, split)), Counter(word for each in split for word in each)
    assert (record["rows"], record["captions"], record["empty"], record["without"]) == (312, 303, 6, 3)
    assert (record["distinct"], record["vocabulary"]) == (len(same), len(vocabulary))
    assert record["once"] == sum(count == 1 for count in vocabulary.values())
    lengths = Counter(map(len, split))
    assert record["lengths"] == {str(length): count for length, count in sorted(lengths.items())}
    assert record["mean_length"] == pytest.approx(np.mean([*map(len, split)]))
    assert record["quantiles"]["0.5"] == np.quantile([*map(len, split)], 0.5, method="inverted_cdf")
    typing = formatting(captions)
    means = dict(zip(typing.names, np.asarray(typing.values.mean(axis=0)).ravel(), strict=True))
    assert record["typing"] == pytest.approx(means)
    assert dict(record["common"]["word"]) == dict(vocabulary.most_common(20))
    assert [count for _, count in record["common"]["caption"]] == [count for _, count in same.most_common(20)]
    assert all(same[tuple(words(text))] == count for text, count in record["common"]["caption"])
    share = 100 - 100 * len(same) / 303
    assert f"{share:.1f} % repeat the words of another one" in " ".join(result.output.split())
    assert (tmp_path / "statistics.html").read_text().count("<rect") == len(lengths)


def test_no_caption_at_all_is_told_and_not_divided_by(tmp_path):
    pq.write_table(pa.table({"caption": pa.array([None, ""], pa.string())}), tmp_path / "a.parquet")
    for command in ("statistics", "generate"):
        result = invoke("corpus", command, tmp_path / "a.parquet", "--out", tmp_path / command)
        assert result.exit_code == 0, result.exception
        assert "0 captions" in result.output


def test_candidates_are_those_of_the_rules_and_can_be_audited(corpus, tmp_path):
    folder, shards = corpus
    kinds = ["swap_obj", "positive_swap"]
    command = ["corpus", "generate", folder, "--out", tmp_path / "made", "--column", "caption=text", "--each", 2]
    result = invoke(*command, "--kind", kinds[0], "--kind", kinds[1])
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "made" / "candidates.json").read_text())
    total = Counter()
    for shard, captions in zip(find_shards([str(folder)]), shards, strict=True):
        there = {row: text for row, text in enumerate(captions) if text and text.strip()}
        wanted = set()
        for kind in kinds:
            for row, own in zip(there, make_by_rule(kind, [*there.values()], most=2), strict=True):
                texts = {found[0] for found in own if not isinstance(found, Rejected)}
                wanted |= {(row, there[row], text, kind, kind == "positive_swap") for text in texts}
                total[kind] += len(texts)
        rows = pq.read_table(tmp_path / "made" / "shards" / f"{shard.name}.parquet").to_pylist()
        assert {tuple(row.values()) for row in rows} == wanted
    assert {kind: own["made"] for kind, own in record["kinds"].items()} == total
    assert all(total[kind] > 30 for kind in kinds)
    assert (record["captions"], record["without"]) == (303, 9)
    audited = invoke("corpus", "audit", tmp_path / "made" / "shards", "--out", tmp_path / "audited")
    assert audited.exit_code == 0, audited.output
    found = json.loads((tmp_path / "audited" / "audit.json").read_text())["categories"]
    assert {kind: own["pairs"] for kind, own in found.items()} == total


def test_an_audit_counts_what_rules_get_right_and_pairs_that_cannot_be_told_apart(tmp_path):
    pairs = [
        # positive, negative: which the formatting rule, no final stop, and the length rule, the shorter, take
        ("a dog", "a large dog."),  # both right
        ("a dog.", "dog a."),  # both tie; the same words
        ("A dog", "a dog."),  # both right; the same after normalisation, and the same words
        ("two big dogs.", "a dog"),  # both wrong
        ("a dog", None),
    ]
    positive, negative = (list(side) for side in zip(*pairs, strict=True))
    table = {"caption": positive, "false": negative, "kind": ["swap"] * 3 + [None, "swap"]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    result = invoke(
        *("corpus", "audit", tmp_path / "a.parquet", "--out", tmp_path / "out", "--column", "negative=false"), width=200
    )
    record = json.loads((tmp_path / "out" / "audit.json").read_text())
    swap = {"pairs": 3, "identical_normalised": 1, "same_bag_of_words": 2}
    swap |= {
        f"{rule} {what}": n for rule in ("formatting_rule", "length_rule") for what, n in (("right", 2), ("tied", 1))
    }
    other = {"pairs": 1, "identical_normalised": 0, "same_bag_of_words": 0}
    other |= {"formatting_rule wrong": 1, "length_rule wrong": 1}
    assert (record["without"], record["categories"]) == (1, {"swap": swap, "–": other})
    [file] = (tmp_path / "out" / "shards").iterdir()
    assert pq.read_table(file).to_pydict() == {
        "row": [0, 1, 2, 3], "formatting_rule": [1, 0, 1, -1], "length_rule": [1, 0, 1, -1],
    }  # fmt: skip
    # (2 + 1 / 2) / 3 = 83.3 %
    assert "The formatting rule prefers the caption in 83.3 % of swap; 50 % is chance." in result.output
