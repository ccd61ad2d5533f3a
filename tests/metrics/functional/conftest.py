"""Released data that several metrics are tested on."""

import json

import pytest
from box_rows import Tricd
from released_counts import GPT4V


@pytest.fixture(scope="session")
def tricd(shared_data):
    return Tricd(shared_data / "data" / "tricd")


@pytest.fixture(scope="session")
def gpt4v(shared_data):
    """GPT-4V's released answers on SugarCrepe with the negative caption first, by category."""
    folder = shared_data / "data" / "sugarcrepe" / "gpt4v" / "negative-first"
    files = {name: json.loads((folder / f"gpt4v-{name}.json").read_text(encoding="utf-8")) for name in GPT4V}
    # One of the released files has a float under the key "accuracy", beside the answers.
    return {name: [each for each in file.values() if isinstance(each, dict)] for name, file in files.items()}
