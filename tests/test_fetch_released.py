"""The script that downloads released annotations for the tests."""

import hashlib

from fetch_released import FILES, fetch


def test_what_is_downloaded_has_the_known_checksum(tmp_path, capsys):
    sources, table = tmp_path / "sources", tmp_path / "table.txt"
    sources.mkdir()
    (sources / "good.json").write_text("[1]")
    (sources / "changed.json").write_text("[2]")
    digest = hashlib.sha256(b"[1]").hexdigest()
    names = ("good", "changed", "gone")
    table.write_text("".join(f"{digest}  a/{name}.json  {(sources / name).as_uri()}.json\n" for name in names))

    assert fetch(tmp_path, table) == 2
    assert [path.name for path in (tmp_path / "data" / "a").iterdir()] == ["good.json"]
    printed = capsys.readouterr().err.splitlines()
    assert "another content" in printed[0]
    assert "gone.json" in printed[1]

    (sources / "good.json").unlink()
    assert fetch(tmp_path, table) == 2  # what is there is not downloaded again


def test_the_known_checksums_are_those_of_the_released_files(shared_data):
    lines = [line.split() for line in FILES.read_text("utf-8").splitlines()]
    for checksum, name, _ in lines:
        assert hashlib.sha256((shared_data / "data" / name).read_bytes()).hexdigest() == checksum
