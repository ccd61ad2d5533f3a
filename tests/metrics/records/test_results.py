"""Results come back from their file, and files of other versions, or edited ones, are refused."""

import json

import pytest

from vl_assay.metrics.common.errors import PredictionsError
from vl_assay.metrics.records.results import Result, read_results, write_results

RESULT = Result(
    model={"name": "m"},
    benchmark={"name": "toy_scenes", "task": "hard_positives", "blind": {"brittleness": {"brittleness": 0.2}}},
    run={},
    predictions={"file": "s.parquet", "sha256": "a" * 64},
    metric="brittleness",
    options={"ties": "right"},
    missing=0,
    scores={"brittleness": 0.25, "both_wrong": 0.5, "n": 8},
    table_scores=["brittleness", "both_wrong"],
    main_score="brittleness",
    higher_is_better={"brittleness": False, "both_wrong": False},
    chance={"brittleness": 1 / 3},
)


def test_results_come_back_from_their_file(tmp_path):
    path = tmp_path / "results.json"
    write_results(path, [RESULT])
    assert read_results(path) == [RESULT]
    assert RESULT.blind == {"brittleness": 0.2}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"schema": "other", "version": 1}', "was written with the schema 'other', version 1; expected 'vl-assay/r"),
        (
            '{"schema": "vl-assay/results", "version": 3, "code": "0.1.0", "results": []}',
            r"results\.json was written by vl-assay 0\.1\.0 with the schema 'vl-assay/results', version 3; expected "
            "'vl-assay/results', version 4: run the command that wrote it again",
        ),
        ("[", "is not a results file"),
        ("[]", "is not a results file"),
        ('{"schema": "vl-assay/results", "version": 4, "results": [{"metric": "x"}]}', "is not a results file"),
    ],
)
def test_other_files_are_not_taken_for_results(content, message, tmp_path):
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(PredictionsError, match=message):
        read_results(tmp_path / "results.json")
    with pytest.raises(PredictionsError, match="is not a results file"):
        read_results(tmp_path / "nowhere.json")


@pytest.mark.parametrize("number", ["0.25", "8"])
def test_results_that_were_edited_are_refused(number, tmp_path):
    path = tmp_path / "results.json"
    write_results(path, [RESULT])
    path.write_text(path.read_text().replace(f": {number},", ": 0.75,").replace(f": {number}\n", ": 0.75\n"))
    with pytest.raises(PredictionsError, match=r"was changed since it was written; compute .* `vl-assay report`"):
        read_results(path)
    path.write_text(json.dumps(json.loads(path.read_text().replace(": 0.75", f": {number}"))))  # another layout
    assert read_results(path) == [RESULT]
