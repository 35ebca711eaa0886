"""Settings from TOML and JSON files, converted to the types that a dataclass declares."""

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
    """Return the tables of a TOML file."""
    return _read(path, "TOML", tomllib.loads, _LARGEST)


def read_json(path: Path, largest: int = _LARGEST) -> dict[str, Any]:
    """Return the object in a JSON file of at most `largest` bytes."""
    return _read(path, "JSON", json.loads, largest)


def settings_of(kind: type[_Settings], content: Any, what: str) -> _Settings:
    """Return `content` as the dataclass `kind`.

    Raises:
        AttangentError: If a name is unknown or a value has another type than declared; it says where.
    """
    import msgspec

    if not isinstance(content, Mapping):
        raise AttangentError(f"{what} is {type(content).__name__}, expected a table of settings")
    check_names(map(str, content), (field.name for field in fields(kind)), what)  # pyright: ignore[reportArgumentType]
    try:
        return msgspec.convert(dict(content), kind, dec_hook=_as_path)
    except (msgspec.ValidationError, RecursionError) as error:
        raise AttangentError(f"{what}: {str(error).replace(' - at `$`', '')}") from None


def _as_path(kind: type, value: Any) -> Any:
    """Convert texts to paths; msgspec calls this for types it does not know."""
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise TypeError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")


def _read(path: Path, form: str, parse: Callable[[str], Any], largest: int) -> dict[str, Any]:
    if not path.is_file():
        raise AttangentError(f"there is no file {path}; pass a {form} file")
    if path.stat().st_size > largest:
        raise AttangentError(f"{path} has {path.stat().st_size:,} bytes, expected at most {largest:,}")
    try:
        content = parse(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:  # ValueError also for bytes that are not UTF-8
        raise AttangentError(f"{path} is not {form}: {error}") from None
    if not isinstance(content, dict):
        raise AttangentError(f"{path} has a {type(content).__name__}, expected names with values")
    return content
