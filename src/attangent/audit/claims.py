"""A claim: one statement of a paper with the check that measures it."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from attangent._core.errors import AttangentError
from attangent.audit.finding import Finding

Profile = Literal["quick", "full"]
PROFILES = get_args(Profile)
FIRST_SEEDS = {"quick": 0, "full": 1000}
"""Settings were chosen on seeds below 1000, so the full profile does not use those."""
Kind = Literal["theorem", "identity", "experiment", "misprint", "ours"]
LONGEST_QUOTE = 300
_ID = re.compile(r"[A-Z][A-Za-z0-9]*/[a-z][a-z0-9.-]*")
_KINDS_OF_NAMES: dict[str, Kind] = {
    **dict.fromkeys(("theorem", "lemma", "proposition", "corollary", "claim", "fact"), "theorem"),
    **dict.fromkeys(("definition", "equation", "algorithm"), "identity"),
}


class Settings(Mapping[str, Any]):
    """The sizes and constants that a check runs with: read `settings.n` or `settings["n"]`.

    Args:
        **values: The settings by name.

    Example:
        >>> (Settings(n=8, d=4) | {"n": 2}).n
        2
    """

    def __init__(self, **values: Any):
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            raise AttributeError(f"no setting {name!r}; expected one of {', '.join(self._values) or 'none'}")
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
    """One statement of a paper with the check that measures it.

    Attributes:
        id: The id, such as P2/lemma-5.1.
        place: Its section and number in the paper.
        title: The statement in a few words.
        statement: The statement in our words.
        check: A function of settings and seed that returns a `Finding`.
        quick: The settings of the quick profile.
        full: The settings of the full profile.
        seeds: Number of seeds per run.
        full_seeds: Number of seeds in the full profile, if it differs.
        seconds: Estimated time of one seed on one core in the quick profile; orders the work and feeds the
            progress bar.
        data: The files below ATTANGENT_DATA that the check reads. A finding is recomputed if they change.
        kind: theorem (anything with a proof), identity, experiment, misprint, or ours (counted separately).
        quote: The paper's sentence, at most 300 letters.
        rests_on: The claims that the proof uses.
        repairs: The claim that this statement repairs; the report shows it there.
        derivation: Why a repaired statement is right, in a few lines.

    Example:
        >>> from attangent.audit import get
        >>> get("P2/lemma-5.1").kind
        'theorem'
    """

    id: str
    place: str
    title: str
    statement: str
    check: Check
    quick: Settings
    full: Settings
    seeds: int = 3
    full_seeds: int | None = None
    seconds: float = 1.0
    data: tuple[str, ...] = ()
    kind: Kind = "theorem"
    quote: str = ""
    rests_on: tuple[str, ...] = ()
    repairs: str = ""
    derivation: str = ""

    def __post_init__(self) -> None:
        for id in (self.id, *self.rests_on, *([self.repairs] if self.repairs else [])):
            if not is_claim_id(id):
                raise AttangentError(f"claim id {id!r} must look like P2/theorem-4.2, in lower case")
        if self.kind not in get_args(Kind):
            raise AttangentError(
                f"{self.id} has the kind {self.kind!r}; expected one of {', '.join(get_args(Kind))}"
            )
        if len(self.quote) > LONGEST_QUOTE:
            raise AttangentError(
                f"the quote of {self.id} must have at most {LONGEST_QUOTE} letters (got {len(self.quote)}); "
                "quote the sentence that decides"
            )
        if self.repairs:
            self._check_repair()

    def _check_repair(self) -> None:
        sizes = getattr(self.check, "sizes", ())
        if self.kind != "ours" or self.seeds < 3 or len(sizes) < 2 or not self.derivation:
            raise AttangentError(
                f"{self.id} repairs {self.repairs}, so it needs kind='ours', a derivation, at least three "
                "seeds and two sizes"
            )

    @property
    def module(self) -> str:
        """The module that holds the check."""
        return getattr(self.check, "check", self.check).__module__

    @property
    def paper(self) -> str:
        """The name of the paper, such as P2."""
        return self.id.split("/")[0]

    def settings(self, profile: str) -> Settings:
        """Return the settings of the profile."""
        if profile not in PROFILES:
            raise AttangentError(f"unknown profile {profile!r}; expected one of {', '.join(PROFILES)}")
        return self.quick if profile == "quick" else self.full

    def seeds_of(self, profile: str) -> int:
        """Return the number of seeds of the profile."""
        return self.full_seeds if profile == "full" and self.full_seeds is not None else self.seeds


def is_claim_id(text: str) -> bool:
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def kind_of(id: str) -> Kind:
    """Return the kind of statement that an id names: theorem-4.2 is a theorem, figure-3 an experiment."""
    return _KINDS_OF_NAMES.get(id.partition("/")[2].partition("-")[0], "experiment")


def claim_order(id: str) -> tuple[str, str, list[tuple[bool, int, str]]]:
    """Return a sort key by paper, kind and number: figure-2a, lemma-5.3, lemma-10, lemma-b.1."""
    paper, _, name = id.partition("/")
    kind, _, rest = name.partition("-")
    numbers = [re.match(r"(\d*)(.*)", text) for text in re.split(r"[.-]", rest)]
    return paper, kind, [(not match[1], int(match[1] or 0), match[2]) for match in numbers if match]
