"""Models side by side: marks by paired tests, levels beside the scores, and LaTeX that compiles."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from report_support import groups, matching, retrieval, write

from vl_assay.hub_datasets import report

QUICK = {"resamples": 100}
ODD = r"o/clip_é & 50% #1 $x^2~{\y} --|<z>"


def scores(right):
    """Forty examples on forty images, of which the first ones are right."""
    return [[1.0, 0.0] if number < right else [0.0, 1.0] for number in range(40)]


def predictions(folder, name, right, categories=("swap_obj",), **facts):
    rows = matching(scores(right), categories)
    for number, row in enumerate(rows):
        row.images[0] = f"i{number}"
    return write(folder / f"{len(list(folder.iterdir()))}.parquet", rows, model=name, **facts)


def rows_of(markdown):
    """The cells of the first table by the name of the row."""
    table = [line for line in markdown.partition("\n\n###")[0].splitlines() if line.startswith("|")]
    return {line.split(" | ")[0].removeprefix("| "): line.rstrip(" |").split(" | ")[1:] for line in table}


def test_the_best_is_bold_and_models_that_cannot_be_told_from_it_have_a_dagger(tmp_path):
    # One image decides between the first two, p = 1; twenty between the first and the third, p < 0.01 / 2.
    paths = [predictions(tmp_path, name, right) for name, right in (("good", 30), ("close", 29), ("poor", 10))]
    blind = {"is_baseline": True, "sees_images": False}
    paths.append(predictions(tmp_path, "text model", 35, about=blind))
    found = rows_of(report(paths, **QUICK).to_markdown())
    assert [found[name][0].split("<br>")[0] for name in ("good", "close", "poor")] == ["**75.0**", "72.5 †", "25.0"]
    # A baseline is best in nothing, and last of the models; below it the levels.
    assert found["text model"][0].startswith("87.5<br>")
    assert list(found)[-3:] == ["text model", "blind (text only)", "chance"]
    assert [found[name][0] for name in ("blind (text only)", "chance")] == ["87.5", "50.0"]


def test_models_on_other_data_are_not_compared_and_one_model_has_no_marks(tmp_path):
    paths = [predictions(tmp_path, "good", 30), predictions(tmp_path, "poor", 10, fingerprint="0" * 64)]
    for chosen in (paths, paths[:1]):
        assert "**" not in report(chosen, **QUICK).to_markdown()
        assert "Bold" not in report(chosen, **QUICK).to_latex()


def test_tests_are_on_the_examples_that_both_models_have(tmp_path):
    for name, numbers in (("all", ()), ("some", range(4))):
        write(tmp_path / f"{name}.parquet", lacking(matching(scores(30)), *numbers), model=name)
    # Alike on what both scored, though 30 of 40 is more than 26 of 36.
    found = rows_of(report(sorted(tmp_path.iterdir()), **QUICK).to_markdown())
    assert "**75.0**" in found["all"][2]
    assert "72.2 †" in found["some"][2]


def lacking(rows, *numbers):
    """The rows, of which those with these numbers lack their image."""
    return [
        type(row)(row.id, "itm", row.category, [""], [0], None) if number in numbers else row
        for number, row in enumerate(rows)
    ]


def test_categories_are_tested_alone_where_models_lack_different_images(tmp_path):
    # Each is right on one category alone, so that over all examples they are alike.
    for place, name in enumerate(("obj", "att")):
        rows = matching([[number % 2 == place, number % 2 != place] for number in range(80)])
        write(tmp_path / f"{name}.parquet", lacking(rows, 2 * place, 2 * place + 1), model=name)
    found = rows_of(report(sorted(tmp_path.iterdir()), **QUICK).to_markdown())
    values = {name: [cell.split("<br>")[0] for cell in found[name][:3]] for name in ("obj", "att")}
    assert values == {"obj": ["**100.0**", "0.0", "**50.0**"], "att": ["0.0", "**100.0**", "**50.0**"]}


def test_a_category_of_which_models_have_no_common_image_is_not_decided(tmp_path):
    for place, name in enumerate(("good", "poor")):
        rows = matching([[not place, place] for _ in range(80)], ("add_att", *["swap_obj"] * 39))
        write(tmp_path / f"{name}.parquet", lacking(rows, 40 * place), model=name)
    found = rows_of(report(sorted(tmp_path.iterdir()), **QUICK).to_markdown())
    assert [cell.split("<br>")[0] for cell in found["poor"]][:2] == ["0.0", "0.0 †"]  # swap_obj, add_att


def test_the_number_of_captions_that_were_cut_stands_beside_the_scores(tmp_path, capsys):
    for name, cut in (("long", 0), ("short", 1234)):
        write(tmp_path / f"{name}.parquet", matching(scores(20)), model=name, run={"truncated_captions": cut})
    result = report(sorted(tmp_path.iterdir()), **QUICK)
    cells = rows_of(result.to_markdown())
    assert cells["model"][-1] == "captions cut"
    assert (cells["long"][-1], cells["short"][-1]) == ("0", "1,234")
    details = result.to_markdown().partition("### short on")[2]
    assert "|  | accuracy | interval | ties | n | captions cut |" in details
    assert re.search(r"\| micro average \|.*\| 1,234 \|", details)
    assert "& 1,234 " in result.to_latex()
    result.print()
    assert re.search(r"micro average .*1,234", capsys.readouterr().out)


def test_categories_are_columns_grouped_by_their_first_word_and_many_scores_are_main_scores_alone(tmp_path):
    one = predictions(tmp_path, "a", 30, ("swap_obj", "swap_att", "add_att"))
    latex = report(one, **QUICK).to_latex()
    assert r"\multicolumn{2}{c}{swap} & \multicolumn{1}{c}{add}" in latex
    assert latex.count(r"\begin{table}") == 1
    rng = np.random.default_rng(0)
    paths = [
        one,
        write(tmp_path / "g.parquet", groups(rng.normal(size=(40, 2, 2))), task="groups"),
        write(tmp_path / "h.parquet", matching(rng.normal(size=(40, 3))), task="hard_positives"),
    ]
    assert len(rows_of(report(paths[:2], **QUICK).to_markdown())["model"]) == 1 + 3
    # With the five scores of both metrics of hard positives these are nine; ten would be too many.
    assert len(rows_of(report(paths, **QUICK).to_markdown())["model"]) == 9
    paths.append(write(tmp_path / "o.parquet", matching(np.eye(5), ("order",)), task="order"))
    headers = rows_of(report(paths, **QUICK).to_markdown())["model"]
    assert headers == [
        *("itm accuracy", "groups group score", "hard_positives augmented accuracy"),
        *("hard_positives brittleness", "order accuracy"),
    ]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_the_latex_compiles_without_a_line_that_is_too_wide(tmp_path):
    categories = tuple(f"{form}_{part}" for form in ("replace", "swap", "add") for part in ("obj", "att"))
    paths = [predictions(tmp_path, name, right, categories) for name, right in ((ODD, 30), ("b", 29), ("模型", 10))]
    tables = report(paths, **QUICK).to_latex()
    head = "\\documentclass[twocolumn]{article}\n\\usepackage{booktabs,graphicx}\n\\begin{document}\n"
    (tmp_path / "paper.tex").write_text(f"{head}{tables}\n\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    too_wide = [float(points) for points in re.findall(r"Overfull \\hbox \(([\d.]+)pt", done.stdout)]
    assert max(too_wide, default=0.0) < 1
    assert (tmp_path / "paper.pdf").stat().st_size > 10_000


def test_models_whose_metric_had_other_settings_have_their_own_columns(tmp_path):
    rows = retrieval([[2, 1, 0], [0, 2, 1], [2, 0, 1]])
    for name, ks in (("a", [1]), ("b", [1, 2])):
        metrics = {"retrieval_recall": {"pool": "shared", "ks": ks}}
        write(tmp_path / f"{name}.parquet", rows, model=name, task="retrieval", metrics=metrics)
    found = rows_of(report(sorted(tmp_path.iterdir()), **QUICK).to_markdown())
    place = [header.endswith("recall at 2") for header in found["model"]].index(True)
    assert found["a"][place].startswith("–")
    assert found["b"][place].startswith(("**100.0**", "100.0"))
