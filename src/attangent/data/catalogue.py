"""The data sets that claims, tests and benchmarks can use, as catalogue.toml lists them."""

import difflib
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from attangent._core.errors import AttangentError


@dataclass(frozen=True)
class DataFile:
    """A file below a data folder; `content` is the SHA-256 of what it holds, unpacked where it is a .gz.

    It is empty where any file of the kind will do.
    """

    path: str
    content: str
    url: str = ""
    """Where the content is to be had as one file; empty where it has to be made by hand."""


@dataclass(frozen=True)
class DataSet:
    """A public data set: what it is, under which licence, where it is to be had and what uses it."""

    name: str
    what: str
    licence: str
    source: str
    used_by: str
    files: tuple[DataFile, ...]

    @property
    def can_be_fetched(self) -> bool:
        """Whether every file has an address that `attangent data get` can take it from."""
        return all(file.url for file in self.files)


@cache
def all_sets() -> tuple[DataSet, ...]:
    """Every data set, in the order of the catalogue."""
    content = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))
    return tuple(_made(entry) for entry in content["set"])


def get_set(name: str) -> DataSet:
    """The data set of this name.

    >>> get_set("gsm8k").licence
    'MIT'
    """
    by_name = {one.name: one for one in all_sets()}
    if name in by_name:
        return by_name[name]
    near = difflib.get_close_matches(name, by_name, 1)
    meant = f"; did you mean {near[0]}?" if near else ""
    raise AttangentError(f"there is no data set {name!r}, expected one of {', '.join(by_name)}{meant}")


def _made(entry: dict[str, object]) -> DataSet:
    texts = {name: str(entry[name]) for name in ("name", "what", "licence", "source", "used_by")}
    files = entry["file"]
    assert isinstance(files, list)
    return DataSet(**texts, files=tuple(DataFile(**file) for file in files))
