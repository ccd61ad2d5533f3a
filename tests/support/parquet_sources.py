"""Small Parquet files of rows and images, as datasets on the Hub have them, and their images as if they were files."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image


def write_parquet(folder, split, rows, images, shards=1):
    """Write rows into ``folder/<split>-<number>-of-<shards>.parquet``, in row groups of two; bytes become images."""
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-len(rows) // shards)
    for shard in range(shards):
        part = [dict(row) for row in rows[shard * size :][:size]]
        for row in part:
            row |= {name: {"bytes": row[name], "path": None} for name in images}
        kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
        table = pa.Table.from_pylist(part)
        for name in images:
            table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(kind))
        pq.write_table(table, folder / f"{split}-{shard:05}-of-{shards:05}.parquet", row_group_size=2)


@dataclass(frozen=True)
class StoredImage:
    """An image in a Parquet file, with the name that a builder gives it and what the tests do with files."""

    file: Path
    column: str
    row: int
    name: str

    def read_bytes(self):
        return pq.read_table(self.file)[self.column][self.row]["bytes"].as_py()

    def write_bytes(self, content):
        table = pq.read_table(self.file)
        cells = table[self.column].to_pylist()
        cells[self.row]["bytes"] = content
        index = table.schema.get_field_index(self.column)
        changed = table.set_column(index, self.column, pa.array(cells, table.schema.field(index).type))
        pq.write_table(changed, self.file, row_group_size=2)

    def unlink(self):
        self.write_bytes(None)


def stored_images(folder, templates, pattern="*.parquet"):
    """The images of the Parquet files in a folder; `templates` as `HubTable.images`."""
    found, number = [], 0
    for path in sorted(folder.rglob(pattern)):
        for row, record in enumerate(pq.read_table(path).to_pylist()):
            names = {column: Path(name.format(**{"row": number} | record)).name for column, name in templates.items()}
            found += [StoredImage(path, column, row, name) for column, name in names.items()]
            number += 1
    return found


def noise_files(count, kind="PNG", size=(20, 24), seed=0):
    """The bytes of image files of noise, no two alike."""
    rng, files = np.random.default_rng(seed), []
    for _ in range(count):
        buffer = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)).save(buffer, kind)
        files.append(buffer.getvalue())
    return files
