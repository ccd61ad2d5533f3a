"""YAML files for rarely used settings of a command (its option ``--config``)."""

from __future__ import annotations

import types
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import typer

from .errors import VLAssayError, check_known
from .user_files import read_text

Schema = TypeVar("Schema")

_WRONG = object()
_NOUNS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", Path: "a path", list: "a list"}


def config_option(schema: type, **options: Any) -> Any:
    """Return the `typer.Option` of ``--config``, whose help lists the settings of `schema`.

    Args:
        schema: a dataclass whose fields are annotated as ``Annotated[int | None, "help"]``: `bool`, `int`, `float`,
            `str`, `Path` or `list[str]`, each with a default. ``Annotated[int, "help", 1]`` also has a minimum.
        options: further arguments of `typer.Option`.
    """
    lines = [
        f"- {name} ({_type_text(kind, minimum)}, default {_default_text(default)}): {text}"
        for name, (kind, default, text, minimum) in _settings(schema).items()
    ]
    return typer.Option("--config", metavar="FILE", help="\n".join(["A YAML file with any of", *lines]), **options)


def read_config(path: Path | None, schema: type[Schema]) -> Schema:
    """Read a YAML file into `schema`, the dataclass of `config_option`; without a file every setting has its default.

    Raises:
        VLAssayError: the file cannot be read, is not a YAML mapping, or has an unknown setting, one that comes
            twice, or a value of another type.
    """
    import yaml

    if path is None:
        return schema()
    try:
        text = read_text(path)
        content = yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise VLAssayError(f"cannot read --config {path}: {reason}") from error
    settings = _settings(schema)
    if not isinstance(content, dict):
        raise VLAssayError(f"--config {path} has no settings; write lines such as `{next(iter(settings))}: VALUE`")
    check_known(f"setting in {path}", map(str, content), settings)
    written: Any = yaml.compose(text, yaml.SafeLoader)
    if len(written.value) > len(content):  # PyYAML keeps the last value
        raise VLAssayError(f"a setting comes twice in --config {path}; keep one of its lines")
    values = {}
    for name, value in content.items():
        kind, _, _, minimum = settings[name]
        values[name] = _convert(value, kind)
        if values[name] is _WRONG or (minimum is not None and value is not None and value < minimum):
            raise VLAssayError(f"{name} in {path} is {value!r}; give {_type_text(kind, minimum)}")
    return schema(**values)


def _settings(schema: type) -> dict[str, tuple[Any, Any, str, float | None]]:
    """Return the type, default, help and minimum of each field."""
    hints = get_type_hints(schema, include_extras=True)
    settings = {}
    for field in fields(schema):  # pyright: ignore[reportArgumentType]
        kind, text, *minimum = get_args(hints[field.name])
        settings[field.name] = (kind, field.default, text, minimum[0] if minimum else None)
    return settings


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _type_text(kind: Any, minimum: float | None) -> str:
    nouns = [_NOUNS[get_origin(part) or part] for part in _alternatives(kind) if part is not types.NoneType]
    return " or ".join(nouns) + ("" if minimum is None else f" of at least {minimum}")


def _default_text(default: Any) -> str:
    if default is None or isinstance(default, bool):
        return str(default).lower()
    return '""' if default == "" else str(default)


def _convert(value: Any, kind: Any) -> Any:
    """Return a YAML value as `kind`, or `_WRONG` if it has another type."""
    for part in _alternatives(kind):
        expected = get_origin(part) or part
        if expected is types.NoneType and value is None:
            return None
        if expected is list and isinstance(value, list) and all(isinstance(item, str) for item in value):
            return value
        if expected is Path and isinstance(value, str):
            return Path(value)
        if expected is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if any(expected is plain and type(value) is plain for plain in (bool, int, str)):
            return value
    return _WRONG
