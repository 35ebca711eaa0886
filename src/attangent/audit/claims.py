"""A claim: one statement of a paper with the check that measures it."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from attangent._core.errors import AttangentError
from attangent.audit.finding import Finding
from attangent.audit.proofs import Proof

Profile = Literal["quick", "full"]
PROFILES = get_args(Profile)
FIRST_SEEDS = {"quick": 0, "full": 1000}
"""Settings were chosen on seeds below 1000, so the full profile does not use those."""
Kind = Literal["theorem", "identity", "experiment", "misprint", "ours"]
Nature = Literal[
    "main result", "lemma", "proof step", "definition", "quotation", "misprint", "remark", "experiment"
]
NATURES: tuple[Nature, ...] = get_args(Nature)
LONGEST_QUOTE = 300
_ID = re.compile(r"[A-Z][A-Za-z0-9]*/[a-z][a-z0-9.-]*")
_KINDS_OF_NAMES: dict[str, Kind] = {
    **dict.fromkeys(("theorem", "lemma", "proposition", "corollary", "claim", "fact"), "theorem"),
    **dict.fromkeys(("definition", "equation", "algorithm"), "identity"),
}
_NATURES_OF_NAMES: dict[str, Nature] = {
    **dict.fromkeys(("theorem", "proposition", "corollary"), "main result"),
    **dict.fromkeys(("lemma", "claim", "fact"), "lemma"),
    **dict.fromkeys(("definition", "assumption"), "definition"),
    **dict.fromkeys(("equation", "algorithm"), "proof step"),
    **dict.fromkeys(("figure", "table"), "experiment"),
}
_KINDS_OF_NATURES: dict[str, Kind] = {
    **dict.fromkeys(("main result", "lemma", "proof step", "quotation", "remark"), "theorem"),
    "definition": "identity",
    "misprint": "misprint",
    "experiment": "experiment",
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
class Failure:
    """Why a statement fails and what follows from it.

    Args:
        cause: The id of the claim with the root cause; the claim's own id if it is the root.
        consequence: What the failure changes: "Theorem 3.2 falls", "a constant changes", "used nowhere".
        first_size: The first size at which the printed statement fails, or "in the limit only".
        root: A short name of the root cause, given at the root: "the kernel leaves out the value part".

    Example:
        >>> Failure("P1/lemma-d.6", "used nowhere", "one sign", root="a factor of two is missing").consequence
        'used nowhere'
    """

    cause: str
    consequence: str
    first_size: str
    root: str = ""

    def __post_init__(self) -> None:
        if not is_claim_id(self.cause):
            raise AttangentError(
                f"the cause {self.cause!r} of a failure must be a claim id such as P2/lemma-5.1"
            )
        for name in ("consequence", "first_size"):
            if not getattr(self, name).strip():
                raise AttangentError(f"the failure caused by {self.cause} needs a {name}")


@dataclass(frozen=True, kw_only=True)
class ClaimTexts:
    """What a claim declares and its findings store; `Claim` describes the fields."""

    quote: str = ""
    rests_on: tuple[str, ...] = ()
    repairs: str = ""
    derivation: str = ""
    sharp: str = ""
    nature: str = ""
    plain: str = ""
    failure: Failure | None = None
    erratum: str = ""
    ours: tuple[str, ...] = ()
    unconditional: bool = False


@dataclass(frozen=True)
class Claim(ClaimTexts):
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
        seconds: Estimated time of one seed on one core in the quick profile, if that is not short; orders the
            work and feeds the progress bar.
        data: The files below ATTANGENT_DATA that the check reads. A finding is recomputed if they change.
        kind: theorem (anything with a proof), identity, experiment, misprint, or ours (counted separately).
        quote: The paper's sentence, at most 300 letters.
        rests_on: The claims that the proof uses.
        repairs: The claim that this statement repairs; the report shows it there.
        derivation: Why a repaired statement is right, in a few lines.
        sharp: Whether a repaired bound is sharp: "sharp: equality at ...", "not sharp: ...", "not known".
        nature: What the statement is in the paper: main result, lemma, proof step, definition, quotation (of
            a known result), misprint, remark or experiment.
        plain: One sentence for people: what is printed, what is true, whether a main result falls.
        failure: Cause and consequence, for a statement that fails.
        proof: A function without arguments that returns an exact argument. It shows why a statement with
            `failure` fails, and decides it.
        erratum: An author's reply, an erratum, or the withdrawal of the paper.
        ours: Quantifiers or conditions that we added to the statement.
        unconditional: Whether the paper states no hypothesis at all.

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
    seconds: float = 0.2
    data: tuple[str, ...] = ()
    kind: Kind = "theorem"
    proof: Callable[[], Proof] | None = None

    def __post_init__(self) -> None:
        for id in (self.id, *self.rests_on, *([self.repairs] if self.repairs else [])):
            if not is_claim_id(id):
                raise AttangentError(f"claim id {id!r} must look like P2/theorem-4.2, in lower case")
        if self.kind not in get_args(Kind):
            raise AttangentError(
                f"{self.id} has the kind {self.kind!r}; expected one of {', '.join(get_args(Kind))}"
            )
        if self.nature not in ("", *NATURES):
            raise AttangentError(
                f"{self.id} has the nature {self.nature!r}; expected one of {', '.join(NATURES)}"
            )
        if self.failure and self.failure.cause == self.id and not self.failure.root:
            raise AttangentError(f"{self.id} is the root of a failure, so it must name it; pass root=")
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


def nature_of(id: str, kind: str = "") -> Nature:
    """Return the nature that an id suggests, for claims that declare none: figure-3 is an experiment."""
    by_kind: dict[str, Nature] = {"misprint": "misprint", "experiment": "experiment"}
    return by_kind.get(kind) or _NATURES_OF_NAMES.get(id.partition("/")[2].partition("-")[0], "remark")


def kind_of_nature(nature: str) -> Kind | None:
    """Return the kind of statement of this nature, or None if the nature is not declared."""
    return _KINDS_OF_NATURES.get(nature)


def claim_order(id: str) -> tuple[str, str, list[tuple[bool, int, str]]]:
    """Return a sort key by paper, kind and number: figure-2a, lemma-5.3, lemma-10, lemma-b.1."""
    paper, _, name = id.partition("/")
    kind, _, rest = name.partition("-")
    numbers = [re.match(r"(\d*)(.*)", text) for text in re.split(r"[.-]", rest)]
    return paper, kind, [(not match[1], int(match[1] or 0), match[2]) for match in numbers if match]
