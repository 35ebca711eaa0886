"""Settings from TOML and JSON: read whole or refused, and of the kinds that a dataclass declares."""

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from attangent._core.checks import check_names
from attangent._core.errors import AttangentError

_LARGEST = 16 * 2**20
_Settings = TypeVar("_Settings")


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    return _read(path, "TOML", tomllib.loads, _LARGEST)


def read_json(path: Path, largest: int = _LARGEST) -> dict[str, Any]:
    """The object in a JSON file of at most so many bytes."""
    return _read(path, "JSON", json.loads, largest)


def settings_of(kind: type[_Settings], content: Any, what: str) -> _Settings:
    """`content` as a `kind`, a dataclass: unknown names, and values of other kinds than it declares, are
    refused with the place they stand at."""
    import msgspec

    if not isinstance(content, Mapping):
        raise AttangentError(f"{what} is {type(content).__name__}, expected a table of settings")
    check_names(map(str, content), (field.name for field in fields(kind)), what)  # pyright: ignore[reportArgumentType]
    try:
        return msgspec.convert(dict(content), kind, dec_hook=_path)
    except (msgspec.ValidationError, RecursionError) as error:
        raise AttangentError(f"{what}: {str(error).replace(' - at `$`', '')}") from None


def _path(kind: type, value: Any) -> Any:
    """Paths, which are texts in files."""
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise TypeError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")


def _read(path: Path, form: str, parse: Callable[[str], Any], largest: int) -> dict[str, Any]:
    if not path.is_file():
        raise AttangentError(f"there is no file {path}; give a {form} file")
    if path.stat().st_size > largest:
        raise AttangentError(f"{path} has {path.stat().st_size:,} bytes, expected at most {largest:,}")
    try:
        content = parse(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:  # also what is not UTF-8
        raise AttangentError(f"{path} is not {form}: {error}") from None
    if not isinstance(content, dict):
        raise AttangentError(f"{path} has a {type(content).__name__}, expected names with values")
    return content
