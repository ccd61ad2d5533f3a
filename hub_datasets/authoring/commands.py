"""The commands of benchmark authors: audit, refine, generate, review."""

from __future__ import annotations

import typer

app = typer.Typer()
