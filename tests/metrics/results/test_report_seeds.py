"""Several seeds of a benchmark: the mean and the deviation of their scores."""

from __future__ import annotations

import re
import statistics

import numpy as np
from report_support import matching, write

from vl_assay.hub_datasets import report

QUICK = {"resamples": 200}


def orders(rng, n=40):
    return matching(rng.normal(size=(n, 5)), ("order",))


def test_seeds_have_a_table_of_their_mean_and_deviation(tmp_path, capsys):
    rng = np.random.default_rng(0)
    paths = [
        write(
            tmp_path / f"{seed}.parquet",
            orders(rng),
            task="order",
            fingerprint=f"{seed}" * 8,
            options={"seed": seed, "units": "words"},
        )
        for seed in range(3)
    ]
    found = report(paths, **QUICK)
    values = [result.scores["accuracy"] for result in found]
    found.write(tmp_path / "report")
    text = (tmp_path / "report" / "report.md").read_text()
    assert re.findall(r"^### (.*)", text, flags=re.M) == [
        "Scores on toy_scenes",
        *(f"a (seed {seed}) on toy_scenes (order): itm_accuracy" for seed in range(3)),
        "a on toy_scenes (order): itm_accuracy over 3 seeds",
    ]
    shown = f"{100 * statistics.fmean(values):.1f} ± {100 * statistics.stdev(values):.1f} %"
    assert f"| order | {shown} | 120 |" in text
    assert "(seed 0; seed 1; seed 2)" in text
    found.print()
    assert shown in capsys.readouterr().out
    assert list(found.to_pandas()["variant"]) == ["seed 0", "seed 1", "seed 2"]
    assert [text.get_text() for text in found.plot().legends[0].get_texts()] == ["a", "chance"]


def test_only_what_differs_by_chance_is_averaged(tmp_path):
    rng = np.random.default_rng(0)
    runs = [write(tmp_path / f"run{run}.parquet", orders(rng), task="order") for run in range(2)]
    assert "(file run0.parquet; file run1.parquet)" in report(runs, **QUICK).to_markdown()
    words, tokens = (
        write(tmp_path / f"{units}.parquet", orders(rng), task="order", options={"seed": 0, "units": units})
        for units in ("words", "tokens")
    )
    one, two = (
        write(tmp_path / f"{config}.parquet", matching([[1, 0], [0, 1]], (config,)), "sugarcrepe", configs=[config])
        for config in ("add_att", "swap_obj")
    )
    found = report([words, tokens, one, two], **QUICK)
    assert list(found.to_pandas()["variant"]) == [
        "units words", "units tokens", "configs add_att", "configs swap_obj"
    ]  # fmt: skip
    assert "seeds" not in found.to_markdown() + report([words, words], **QUICK).to_markdown()
