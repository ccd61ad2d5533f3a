"""Try every image-text-to-text class of the installed `transformers`, and write docs/generative.md's table.

    python tests/compatibility/generative_classes.py [--write] [MODEL_TYPE ...]

Without ``--write`` the table is printed. Needs torchvision (some image processors have no other backend), timm and
num2words.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "generative.md"
START, END = "<!-- classes -->\n", "<!-- /classes -->\n"


def table(verdicts, classes):
    """The page's table, and the line above it that counts."""
    accepted = [verdict for verdict in verdicts if verdict.is_accepted]
    kinds = [len({classes[verdict.model_type] for verdict in some}) for some in (accepted, verdicts)]
    lines = [
        f"With transformers {version('transformers')}, {len(accepted)} of {len(verdicts)} model types are accepted, "
        f"{kinds[0]} of {kinds[1]} classes.",
        "",
        "| model type | class | accepted | rows | difference | why not |",
        "|---|---|---|---|---|---|",
    ]
    for verdict in verdicts:
        words = " ".join(verdict.reason.replace("|", "\\|").split())
        words = f"{words[:197]} …" if len(words) > 200 else words
        cells = ("yes", verdict.rows, f"{verdict.gap:.0e}", "") if verdict.is_accepted else ("no", "", "", words)
        lines.append(f"| `{verdict.model_type}` | `{classes[verdict.model_type]}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model_types", nargs="*")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    sys.path.insert(0, str(TESTS / "support"))
    from generative_classes import CLASSES, Verdict, examine

    verdicts = []
    for model_type in options.model_types or sorted(CLASSES):
        with tempfile.TemporaryDirectory() as folder:
            try:
                verdicts.append(examine(model_type, Path(folder) / model_type))
            except Exception as error:  # a class that cannot be made small, or run
                verdicts.append(Verdict(model_type, "", float("nan"), f"{type(error).__name__}: {error}"))
    found = table(verdicts, CLASSES)
    if options.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
        PAGE.write_text(before + START + found + END + rest.partition(END)[2], encoding="utf-8")
    else:
        print(found)


if __name__ == "__main__":
    main()
