"""A leaderboard that is served for a test: its address, its storage and what it shows."""

from __future__ import annotations

from contextlib import contextmanager
from typing import NamedTuple

import gradio as gr

from vl_assay.hub_datasets.core.benchmarks import benchmark_names, main_scores
from vl_assay.space_app import app
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.board.entries import RECOMPUTED, BoardColumn, BoardEntry
from vl_assay.space_app.storage import open_storage
from vl_assay.space_app.storage.protocol import Storage

TYPED = {"name": "", "family": "clip", "parameters": "1.5M", "training_data": "none", "link": ""}
ITM = BoardColumn("toy_scenes", "itm", "sugarcrepe_itm", "accuracy")
VQA = BoardColumn("toy_scenes", "vqa", "yes_no_f1", "accuracy")


class Served(NamedTuple):
    address: str
    folder: str
    storage: Storage
    catalogue: Catalogue
    blocks: gr.Blocks


@contextmanager
def served(folder):
    """The leaderboard of an empty folder."""
    storage = open_storage(str(folder))
    catalogue = Catalogue(storage)
    blocks = app.build(catalogue)
    _, address, _ = app.launch(blocks, prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    try:
        yield Served(address.rstrip("/"), str(folder), storage, catalogue, blocks)
    finally:
        blocks.close(verbose=False)


def many_models(models, tasks):
    """Entries of so many models, with so many of the main scores of benchmarks but no predictions."""
    every = [(name, *score) for name in benchmark_names() for score in main_scores(name)]
    return [
        BoardEntry(
            model=f"model {number}",
            family=f"family {number % 20}",
            parameters=10**6 * (number % 1500 + 1),
            training_data=f"data {number % 7}",
            **BoardColumn(*place[:3], place[3].replace("*", "1"))._asdict(),
            value=(37 * number % 1009 + index) / 1200,
            interval=((37 * number % 1009) / 1200, (37 * number % 1009 + 100) / 1200),
            n=1000,
            origin=RECOMPUTED,
            source="made for a test",
        )
        for number in range(models)
        for index, place in enumerate(every[:tasks])
    ]
