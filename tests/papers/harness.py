"""What the tests of claims share: running a check, finding its lines, the suite that all claims pass."""

import os
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from attangent.audit import Conclusion, Finding, Verdict, registry

Check = Callable[..., Finding]


def checking(smaller: dict[str, dict[str, Any]] | None = None, seed: int = 0) -> Check:
    """A function that runs the check of a claim with its quick settings, these smaller ones, and changes."""

    def check(id: str, seed: int = seed, **changes: Any) -> Finding:
        claim = registry.get(id)
        return claim.check(claim.quick | (smaller or {}).get(id, {}) | changes, seed)

    return check


check = checking()


def line(finding: Finding, part: str) -> Conclusion:
    """The first conclusion with this in its name."""
    return next(line for line in finding.conclusions if part in line.name)


def measured(finding: Finding, part: str) -> float:
    return line(finding, part).measured


def ours(finding: Finding) -> list[Conclusion]:
    """The lines that the statement does not claim."""
    return [line for line in finding.conclusions if not line.claimed]


class ClaimSuite:
    """What a file of claims finds, and that each of them can find the opposite.

    `found` has the verdict of each claim; `broken` has changes of the settings under which its check must
    fail, `benign` those under which a check that fails must not.
    """

    found: ClassVar[dict[str, str]] = {}
    broken: ClassVar[dict[str, dict[str, Any]]] = {}
    benign: ClassVar[dict[str, dict[str, Any]]] = {}
    check: ClassVar[Check] = staticmethod(check)
    _findings: ClassVar[dict[str, Finding]] = {}

    def __init_subclass__(cls) -> None:
        """A suite without cases of a kind has no test of them."""
        cls._findings = {}
        fails, does_not = (
            "test_it_fails_where_the_statement_is_made_false",
            "test_it_does_not_fail_where_the_flaw_cannot_show",
        )
        setattr(cls, fails, vars(ClaimSuite)[fails] if cls.broken else None)
        setattr(cls, does_not, vars(ClaimSuite)[does_not] if cls.benign else None)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        for name in ("found", "broken", "benign"):
            if f"{name}_id" in metafunc.fixturenames:
                metafunc.parametrize(f"{name}_id", list(getattr(metafunc.cls, name)))

    def finding(self, id: str) -> Finding:
        """The finding of a claim with the settings of this suite, computed once per suite."""
        findings = type(self)._findings
        if id not in findings:
            findings[id] = self.check(id, seed=1)
        return findings[id]

    def test_what_the_audit_finds(self, found_id: str) -> None:
        finding = self.finding(found_id)
        if "Set ATTANGENT_DATA" in finding.remark and not os.environ.get("ATTANGENT_DATA"):
            pytest.skip(finding.remark)
        assert finding.verdict == self.found[found_id]
        assert "\n" not in finding.remark
        self.examine(finding)

    def examine(self, finding: Finding) -> None:
        """What else must be true of every finding of this file."""

    def test_it_fails_where_the_statement_is_made_false(self, broken_id: str) -> None:
        assert self.check(broken_id, **self.broken[broken_id]).verdict.failed

    def test_it_does_not_fail_where_the_flaw_cannot_show(self, benign_id: str) -> None:
        finding = self.check(benign_id, **self.benign[benign_id])
        assert finding.verdict in (Verdict.HOLDS, Verdict.MEASURED)


class SteadySuite(ClaimSuite):
    """A claim suite that also runs every check again."""

    def test_the_same_seed_gives_the_same_numbers(self, found_id: str) -> None:
        one = self.finding(found_id)
        other = self.check(found_id, seed=1)
        assert (one.hypotheses, one.conclusions) == (other.hypotheses, other.conclusions)
        assert one.numbers == other.numbers
