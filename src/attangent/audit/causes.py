"""What falls in a paper, and why: failed statements by their weight, and grouped by root cause."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attangent.audit.finding import Verdict
from attangent.audit.plugins import cited
from attangent.audit.results import Result

A_CONSTANT_CHANGES = ("a constant changes", "a factor changes")
"""A failure with this consequence leaves the result standing with another factor."""
WEIGHTS: dict[str, tuple[str, str]] = {
    "false result": ("false result", "false results"),
    "definition": ("wrong definition or assumption", "wrong definitions or assumptions"),
    "proof step": ("false proof step", "false proof steps"),
    "constant": ("missing factor or constant", "missing factors or constants"),
    "quotation": ("misquoted known result", "misquoted known results"),
    "remark": ("remark that says too much", "remarks that say too much"),
    "experiment": ("report on experiments that fails", "reports on experiments that fail"),
    "misprint": ("misprint", "misprints"),
}
"""The ways in which a statement fails, the heaviest first, as one and as several."""
HEAVY = ("false result", "definition", "proof step")
_RESULTS = ("main result", "lemma")


@dataclass(frozen=True)
class Cause:
    """A root cause with the statements that fail by it, in the order of the proofs and the root first."""

    id: str
    name: str
    results: tuple[Result, ...]

    @property
    def weight(self) -> tuple[int, int]:
        """Sort key: the number of false main results, then of all that fails, the most first."""
        main = sum(result.origin.nature == "main result" for result in self.results)
        return -main, -len(self.results)

    @property
    def is_heavy(self) -> bool:
        return any(weight_of(result) in HEAVY for result in self.results)


def fallen(results: Iterable[Result]) -> list[Result]:
    """Return the statements of the papers that fail; ours do not count."""
    return [result for result in results if result.verdict is Verdict.VIOLATED and not result.is_ours]


def weight_of(result: Result) -> str:
    """Return the way in which a failed statement fails: a key of `WEIGHTS`."""
    failure = result.origin.failure
    if result.origin.nature not in _RESULTS:
        return result.origin.nature
    constant = failure is not None and failure.consequence.lower().startswith(A_CONSTANT_CHANGES)
    return "constant" if constant else "false result"


def causes(results: Iterable[Result]) -> list[Cause]:
    """Group the failed statements by their root cause, the gravest cause first."""
    failed = {result.claim: result for result in fallen(results)}
    groups: dict[str, list[Result]] = {}
    for result in failed.values():
        groups.setdefault(_root(result, failed), []).append(result)
    by_root = (Cause(id, _name(failed[id]), _in_order(id, members)) for id, members in groups.items())
    return sorted(by_root, key=lambda cause: cause.weight)


def _root(result: Result, failed: Mapping[str, Result]) -> str:
    """Follow the causes to a statement that fails by itself, as far as the run has them."""
    seen = [result.claim]
    while (failure := failed[seen[-1]].origin.failure) and failure.cause in failed:
        if failure.cause in seen:  # the root names itself; a circle has its first statement as root
            return min(seen[seen.index(failure.cause) :])
        seen.append(failure.cause)
    return seen[-1]


def _name(root: Result) -> str:
    failure = root.origin.failure
    return failure.root if failure and failure.root else root.origin.title


def _in_order(root: str, members: Sequence[Result]) -> tuple[Result, ...]:
    """Put the root first, and each statement after those of the group that its proof uses."""
    known = {result.claim: result for result in members}
    ordered: dict[str, Result] = {root: known[root]}

    def add(id: str, above: frozenset[str]) -> None:
        for used in known[id].origin.rests_on:
            if used in known and used not in above | ordered.keys():
                add(used, above | {id})
        ordered.setdefault(id, known[id])

    for id in known:
        add(id, frozenset({id}))
    return tuple(ordered.values())


def weights(results: Iterable[Result]) -> dict[str, int]:
    """Count the failed statements by the way in which they fail."""
    kinds = [weight_of(result) for result in fallen(results)]
    return {kind: kinds.count(kind) for kind in WEIGHTS if kind in kinds}


def in_words(results: Sequence[Result]) -> str:
    """Return what fails: `8 false results from 3 causes, 1 wrong definition or assumption`."""
    counts = weights(results)
    phrases = [_phrase(kind, count, results) for kind, count in counts.items()]
    return ", ".join(phrases) or "nothing fails"


def _phrase(kind: str, count: int, results: Sequence[Result]) -> str:
    text = f"{count} {WEIGHTS[kind][count > 1]}"
    if kind != "false result":
        return text
    false = [result for result in fallen(results) if weight_of(result) == kind]
    main = sum(result.origin.nature == "main result" for result in false)
    roots = sum(any(member in false for member in cause.results) for cause in causes(results))
    return f"{text} ({_main_among(main, count)}) from {roots} {'cause' if roots == 1 else 'causes'}"


def _main_among(main: int, count: int) -> str:
    if not main:
        return "a lemma" if count == 1 else "all lemmas"
    if main == count:
        return "a main result" if count == 1 else "all main results"
    return "one of them a main result" if main == 1 else f"{main} of them main results"


def status(paper: str) -> str:
    """Return what to say beside every count of a paper, such as its withdrawal."""
    paper_cited = cited(paper)
    return paper_cited.status if paper_cited else ""


def named(paper: str) -> str:
    """Return the name of a paper with its status, as counts show it."""
    return f"{paper} ({status(paper)})" if status(paper) else paper


def by_paper(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Group the papers' own statements by paper."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        if not result.is_ours:
            groups.setdefault(result.origin.paper, []).append(result)
    return groups


def headlines(results: Iterable[Result]) -> list[str]:
    """Return one line per paper, such as `P1: 8 false results from 3 causes, 5 misprints`."""
    return [_headline(paper, members) for paper, members in by_paper(results).items()]


def _headline(paper: str, results: Sequence[Result]) -> str:
    note = "; no main result fails" if main_results_stand(results) else ""
    return f"{named(paper)}: {in_words(results)}{note}"


def main_results_stand(results: Iterable[Result]) -> bool:
    """Return whether there are main results and none of them fails."""
    main = [result for result in results if result.origin.nature == "main result"]
    return bool(main) and not fallen(main)


def as_json(results: Iterable[Result]) -> dict[str, Any]:
    """Return per paper what fails, by weight and by cause, in JSON's types."""
    return {
        paper: {
            "status": status(paper),
            "summary": in_words(members),
            "failed": weights(members),
            "causes": [
                {"root": cause.id, "name": cause.name, "claims": [result.claim for result in cause.results]}
                for cause in causes(members)
            ],
        }
        for paper, members in by_paper(results).items()
    }
