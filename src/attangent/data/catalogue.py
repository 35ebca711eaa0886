"""The catalogue of public data sets (catalogue.toml), and the samples in the package."""

import difflib
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from attangent._core.checks import check_choice
from attangent._core.errors import AttangentError

SAMPLES = {
    "weather": "weather in Seattle on 1,461 days: precipitation, temperatures, wind",
    "employment": "employees in 22 sectors of the United States over 120 months, in long format",
}
"""Descriptions of the samples by name."""


@dataclass(frozen=True)
class DataFile:
    """A file of a data set.

    Attributes:
        path: Its path below a data folder.
        content: SHA-256 of its content, decompressed if it is a .gz; empty if any content will do.
        url: Where to download the content; empty if the file has to be made by hand.
    """

    path: str
    content: str
    url: str = ""


@dataclass(frozen=True)
class DataSet:
    """A public data set.

    Attributes:
        name: Its name in the catalogue.
        what: A description.
        licence: Its licence.
        source: Its origin.
        used_by: Claims, commands and benchmarks that use it.
        files: Its files.
    """

    name: str
    what: str
    licence: str
    source: str
    used_by: str
    files: tuple[DataFile, ...]

    @property
    def can_be_fetched(self) -> bool:
        """Whether `attangent data get` can download every file."""
        return all(file.url for file in self.files)


@cache
def all_sets() -> tuple[DataSet, ...]:
    """Return every data set, in the order of the catalogue.

    Returns:
        The data sets.

    Example:
        >>> all_sets()[0].name
        'ett'
    """
    content = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))
    return tuple(_data_set(**entry) for entry in content["set"])


def get_set(name: str) -> DataSet:
    """Return the data set of this name.

    Args:
        name: A name in the catalogue.

    Returns:
        The data set.

    Raises:
        AttangentError: If there is none; the message suggests the closest name.

    Example:
        >>> get_set("gsm8k").licence
        'MIT'
    """
    by_name = {data_set.name: data_set for data_set in all_sets()}
    if name in by_name:
        return by_name[name]
    closest = difflib.get_close_matches(name, by_name, 1)
    suggestion = f"; did you mean {closest[0]}?" if closest else ""
    raise AttangentError(f"there is no data set {name!r}, expected one of {', '.join(by_name)}{suggestion}")


def sample(name: str) -> Path:
    """Return the path of a small real data set in the package, a compressed CSV in the public domain.

    Args:
        name: `weather` or `employment`.

    Returns:
        The path of the file; samples/README.md names its source.

    Raises:
        AttangentError: If there is no sample of this name.

    Example:
        >>> sample("employment").name
        'employment.csv.gz'
    """
    check_choice("name", name, tuple(SAMPLES))
    return Path(__file__).with_name("samples") / f"{name}.csv.gz"


def _data_set(file: list[dict[str, str]], **texts: Any) -> DataSet:
    return DataSet(**texts, files=tuple(DataFile(**entry) for entry in file))
