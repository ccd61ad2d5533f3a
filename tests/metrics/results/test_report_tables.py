"""The tables and plots of a report: nothing is cut, and names, notes and levels are shown."""

import re
import statistics

import numpy as np
import pytest
from report_support import answers, matching, write

from vl_assay.hub_datasets import report
from vl_assay.metrics.results.scores import score_rows

QUICK = {"resamples": 100}
TRIPLES = [[3, 2, 1], [3, 1, 2], [1, 1, 1], [1, 2, 3]]


def printed(found, capsys, monkeypatch, width=80):
    monkeypatch.setenv("COLUMNS", str(width))
    capsys.readouterr()
    found.print()
    return capsys.readouterr().out


def test_models_of_one_name_are_told_apart_everywhere(tmp_path, capsys, monkeypatch):
    rows = matching(np.random.default_rng(0).normal(size=(20, 2)))
    paths = [
        write(tmp_path / f"{dtype}.parquet", rows, model="clip", about={"dtype": dtype})
        for dtype in ("float32", "float16")
    ]
    found = report(paths, **QUICK)
    names = ["clip (dtype float32)", "clip (dtype float16)"]
    for name in names:
        assert f"{name} on toy_scenes (itm)" in printed(found, capsys, monkeypatch)
        assert f"### {name} on toy_scenes (itm)" in found.to_markdown()
        assert name in repr(found)
        assert name in found._repr_html_()
    assert list(dict.fromkeys(found.to_pandas()["model"])) == names
    [shown] = found.plot().legends
    assert [text.get_text() for text in shown.get_texts()] == [*names, "chance"]


def test_the_macro_average_says_what_it_goes_over(tmp_path):
    rows = matching([[1, 0]] * 30 + [[0, 1]] * 4, ["red & big"] * 30 + ["old & wet", "old & dry"] * 2)
    found = report(write(tmp_path / "s.parquet", rows, "aro", "attribution"), **QUICK)
    [result] = found
    macro = score_rows(result)[-1]
    assert (macro.category, macro.n, macro.value) == ("macro average", 30, 1.0)
    text = found.to_markdown()
    assert re.search(r"\| macro average \| 100\.0 % \| .* \|  \| 30 \|", text)
    assert (
        "The macro average is over 1 of 3 categories, 30 of 34 examples; not in it: old & wet, old & dry "
        "(fewer than 25 examples)." in text
    )


@pytest.mark.parametrize(
    ("ties", "sentences"),
    [
        (None, ["A tie counts as wrong. ", "A tie counts for the model (right): it adds nothing to brittleness. ",
                "Chance: original accuracy 50.0 %, augmented accuracy 33.3 %, gap 16.7 %."]),
        ("half", ["A tie counts with its chance of being right (half). ",
                  "A tie adds to brittleness with its chance (half)."]),
    ],
)  # fmt: skip
def test_notes_explain_ties_and_chance(ties, sentences, tmp_path):
    path = write(tmp_path / "s.parquet", matching(TRIPLES), task="hard_positives")
    text = report(path, ties=ties, **QUICK).to_markdown()
    assert all(sentence in text for sentence in sentences)


def test_known_blind_levels_are_shown_with_each_score(tmp_path):
    rows = matching([[1, 0], [0, 1]] * 10)
    levels = {"accuracy": 0.61, "macro_accuracy": 0.6, "per_category": {"swap_obj": {"accuracy": 0.72}}}
    found = report(write(tmp_path / "s.parquet", rows, blind={"sugarcrepe_itm": levels}), **QUICK)
    text = found.to_markdown()
    assert "|  | accuracy | interval | blind | ties | n |" in text
    assert re.search(r"\| swap_obj \| 100\.0 % \| [^|]* \| ≥ 72\.0 % \|", text)
    assert re.search(r"\| swap_att \| 0\.0 % \| [^|]* \|  \|", text)
    assert "blind 61.0 %" in repr(found)
    found.write(tmp_path / "report", figures=["html"])
    page = (tmp_path / "report" / "profile.html").read_text()
    drawn = dict(
        re.findall(r'<b>([\w ]+)</b>.*?</i>(?:<i class="level blind" style="left:([\d.]+)%"></i>)?</span>', page)
    )
    assert drawn == {"swap_obj": "72.0", "swap_att": "", "micro average": "61.0", "macro average": "60.0"}
    frame = found.to_pandas().set_index("category")["blind"]
    assert frame.to_dict() == pytest.approx(
        {"swap_obj": 0.72, "swap_att": np.nan, "micro average": 0.61, "macro average": 0.6}, nan_ok=True
    )
    of_category = {"sugarcrepe_itm": {"per_category": levels["per_category"]}}
    for blind, names in (({"sugarcrepe_itm": levels}, 3), (of_category, 3), ({}, 2)):
        [shown] = report(write(tmp_path / "s.parquet", rows, blind=blind), **QUICK).plot().legends
        assert [text.get_text() for text in shown.get_texts()] == ["a", "chance", "blind"][:names]


def test_a_blind_model_among_the_results_is_the_level_of_the_others(tmp_path, capsys, monkeypatch):
    blind = {"is_baseline": True, "sees_images": False}
    triples = [[3, 2, 1], [3, 1, 2], [3, 2, 1], [1, 2, 3]]
    text_model = write(
        tmp_path / "b.parquet", matching(triples), task="hard_positives", model="text model", about=blind
    )
    other = write(tmp_path / "s.parquet", matching([[3, 2, 1]] * 4), task="hard_positives")
    found = report([text_model, other], **QUICK)
    frame = found.to_pandas()
    chosen = frame[(frame["model"] == "a") & (frame["category"] == "micro average")].set_index("score")["blind"]
    # The text model: c above c_n in 3 of 4; both above in 2 of 4, one in 1 of 4.
    assert chosen["original_accuracy"] == 0.75
    assert chosen["augmented_accuracy"] == 0.5
    assert chosen["brittleness"] == 0.25
    assert frame[frame["model"] == "text model"]["blind"].isna().all()
    assert "sees only the text, of scorers that with the best augmented accuracy." in found.to_markdown()
    assert re.search(r"│ +blind ≥ 75\.0 │ +blind ≥ 50\.0 │", printed(found, capsys, monkeypatch))


def test_shares_of_rankings_and_mean_scores_are_tables_by_category(tmp_path):
    rows = matching([*TRIPLES, [3, 2, 1], [3, 1, 2]], ("swap", "replace_att"))
    found = report(write(tmp_path / "s.parquet", rows, task="hard_positives"), **QUICK)
    text = found.to_markdown()
    rankings = text.partition("#### rankings")[2].partition("####")[0]
    # swap: c>c_p>c_n, tied, c>c_p>c_n; replace_att: c>c_n>c_p, c_n>c_p>c, c>c_n>c_p.
    assert re.search(r"\| swap \| 66\.7 % \| .* \| 33\.3 % \| \d+\.\d – \d+\.\d \|$", rankings, flags=re.M)
    assert re.search(r"\| all \| 33\.3 % \| \d+\.\d – \d+\.\d \| 0\.0 % \|", rankings)
    labels = [axes.get_ylabel() for axes in found.plot().axes]
    assert labels == ["augmented accuracy, %", "brittleness, % (lower is better)"]
    means = text.partition("#### mean scores")[2]
    assert re.search(r"\| swap \| 2\.333 \| [^|]* \| 1\.667 \| [^|]* \| 1\.000 \|", means)


@pytest.mark.parametrize(
    ("benchmark", "task", "categories", "title", "parts"),
    [
        ("toy_scenes", "itm", ("swap_obj", "add_att", "swap_att", "swap_obj"), "per form", {"SWAP": (66.7, 50.0)}),
        (
            "aro",
            "relation",
            ("on", "riding", "under", "under"),
            "per group",
            {"spatial": (66.7, 75.0), "verb": (100.0, 100.0)},
        ),
    ],
)
def test_averages_of_groups_of_categories_have_a_table(benchmark, task, categories, title, parts, tmp_path):
    rows = matching([[1, 0], [1, 0], [0, 1], [1, 0]], categories)
    text = report(write(tmp_path / "s.parquet", rows, benchmark, task), **QUICK).to_markdown()
    table = text.partition(f"#### {title}")[2]
    assert "|  | accuracy | interval | macro accuracy | interval | ties | n |" in table
    for name, (micro, macro) in parts.items():
        assert re.search(rf"\| {name} \| {micro} % \| [^|]* \| {macro} % \|", table)


def test_shares_of_errors_by_category_and_scores_outside_the_tables_are_shown(tmp_path):
    path = write(tmp_path / "s.parquet", answers(np.random.default_rng(0).normal(size=40)), task="vqa")
    found = report(path, **QUICK)
    text = found.to_markdown()
    assert "#### by category\n\n|  | false positive share | false negative share |" in text
    [result] = found
    part = result.scores["per_category"]["objects"]
    shares = [f"{100 * part[f'false_{kind}_share']:.1f} %" for kind in ("positive", "negative")]
    assert f"| objects | {' | '.join(shares)} |" in text.partition("#### by category")[2]
    assert f"{100 * result.scores['f1_yes']:.1f} %" in text.partition("#### further scores")[2]


def test_a_report_is_short_as_text_and_has_a_row_for_each_number_as_a_frame(tmp_path):
    rows = matching([[1, 0]] * 15 + [[0, 1]] * 5)
    found = report(write(tmp_path / "s.parquet", rows), **QUICK)
    low, high = (100 * bound for bound in found[0].scores["accuracy_interval"])
    assert repr(found) == (
        "Report:\n  a on toy_scenes (itm): sugarcrepe_itm: accuracy 75.0 % "
        f"[{low:.1f} – {high:.1f}], n 20, chance 50.0 %"
    )
    frame = found.to_pandas()
    assert list(frame["category"]) == ["swap_obj", "swap_att", "micro average", "macro average"]
    assert list(frame["n"]) == [10, 10, 20, 20]
    assert frame["value"].iloc[2] == 0.75
    assert (frame["higher_is_better"]).all()


def orders(rng, n=40):
    return matching(rng.normal(size=(n, 5)), ("order",))


def test_seeds_have_a_table_of_their_mean_and_deviation(tmp_path, capsys):
    rng = np.random.default_rng(0)
    paths = [
        write(tmp_path / f"{seed}.parquet", orders(rng), task="order", fingerprint=f"{seed}", options={"seed": seed})
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
