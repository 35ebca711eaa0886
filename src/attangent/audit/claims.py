"""A claim: one statement of a paper with the check that measures it."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from attangent._errors import AttangentError
from attangent.audit.finding import Finding

PROFILES = ("quick", "full")
_ID = re.compile(r"P[1-9]/[a-z][a-z0-9.-]*")


class Settings(Mapping[str, Any]):
    """The sizes and constants a check runs with: read `settings.n` or `settings["n"]`.

    >>> (Settings(n=8, d=4) | {"n": 2}).n
    2
    """

    def __init__(self, **values: Any):
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            raise AttributeError(f"no setting {name!r}; there are {', '.join(self._values) or 'none'}")
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __or__(self, other: Mapping[str, Any]) -> "Settings":
        return Settings(**{**self._values, **other})

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _settings_from, (dict(self._values),)


def _settings_from(values: dict[str, Any]) -> Settings:
    return Settings(**values)


Check = Callable[[Settings, int], Finding]


@dataclass(frozen=True)
class Claim:
    """One statement: its id, where it stands, what it says in our words, and how it is checked.

    `seconds` is a guess of one seed's time on one core in the quick profile; it only orders the work and
    feeds the progress bar. `seeds` is how many seeds a profile runs unless the user says otherwise. `data`
    names the files below ATTANGENT_DATA that the check reads; their digests join its settings, so that a
    finding is computed anew when they come, go or change.
    """

    id: str
    place: str
    title: str
    statement: str
    check: Check
    quick: Settings
    full: Settings
    seeds: int = 3
    seconds: float = 1.0
    data: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise AttangentError(f"claim id {self.id!r} should look like P2/theorem-4.2, in lower case")

    @property
    def paper(self) -> str:
        return self.id.split("/")[0]

    def settings(self, profile: str) -> Settings:
        if profile not in PROFILES:
            raise AttangentError(f"unknown profile {profile!r}, expected one of {', '.join(PROFILES)}")
        return self.quick if profile == "quick" else self.full


def claim_order(id: str) -> tuple[str, str, list[tuple[bool, int, str]]]:
    """Sorts ids by paper, kind and number: figure-2a, lemma-5.3, lemma-10, then the appendices' lemma-b.1."""
    paper, _, name = id.partition("/")
    kind, _, rest = name.partition("-")
    parts = [re.match(r"(\d*)(.*)", part) for part in re.split(r"[.-]", rest)]
    return paper, kind, [(not part[1], int(part[1] or 0), part[2]) for part in parts if part]
