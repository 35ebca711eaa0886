"""What our claims declare: every line is measured, every failure has a cause, and the page shows them all."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import attangent.papers
from attangent.audit import Claim, all_claims

FILES = sorted(Path(attangent.papers.__path__[0]).rglob("*.py"))
LINES = {
    "Hypothesis": ("name", "relation", "required", "measured"),
    "Conclusion": ("name", "relation", "bound", "measured"),
}


def literal_lines(source: str) -> Iterator[str]:
    """The lines that compare two constants."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in LINES:
            arguments = dict(zip(LINES[node.func.id], node.args, strict=False))
            arguments |= {keyword.arg: keyword.value for keyword in node.keywords}
            if all(is_number(arguments.get(name)) for name in ("measured", LINES[node.func.id][2])):
                yield f"line {node.lineno}: {ast.unparse(node)}"


def is_number(node: ast.AST | None) -> bool:
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    return isinstance(node, ast.Constant)


@pytest.mark.parametrize(
    "path",
    FILES,
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_every_line_is_measured(path):
    assert list(literal_lines(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    ['Hypothesis("symmetric", "==", 0.0, 0.0)', 'Conclusion("c", "<=", 1 + 1e-12, measured=-1.0)'],
)
def test_a_constant_in_place_of_a_measurement_is_found(source):
    assert len(list(literal_lines(source))) == 1


def test_a_measured_line_is_accepted():
    assert (
        list(literal_lines('Hypothesis("width", ">=", 64, settings.m); Conclusion("c", "<=", 1.0, math.nan)'))
        == []
    )


PAGE = Path(__file__).parents[2] / "docs" / "audit-results.md"
PROOFS = 20
"""At least this many failed claims have an exact proof."""


@cache
def claims() -> dict[str, Claim]:
    return {id: claim for id, claim in all_claims().items() if re.fullmatch(r"P\d/.*", id)}


def printed() -> dict[str, Claim]:
    """The papers' own statements."""
    return {id: claim for id, claim in claims().items() if claim.kind != "ours"}


def published() -> dict[str, str]:
    """The verdict of each claim in the table of the published page."""
    rows = re.findall(
        r"^\| (P\d/\S+) \| [\w ]+ \| ([\w ]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    return dict(rows)


def test_every_statement_has_a_plain_sentence():
    assert [id for id, claim in printed().items() if not claim.plain] == []


def test_every_cause_is_a_claim_that_fails_by_itself_or_leads_to_one():
    failures = {id: claim.failure for id, claim in claims().items() if claim.failure}
    for id in failures:
        seen = [id]
        while failures[seen[-1]].cause != seen[-1]:
            assert failures[seen[-1]].cause in failures, f"{seen[-1]} names a cause that does not fail"
            assert failures[seen[-1]].cause not in seen, f"{id} has no root"
            seen.append(failures[seen[-1]].cause)
        assert failures[seen[-1]].root


def test_many_failures_have_an_exact_proof():
    proved = [id for id, claim in printed().items() if claim.failure and claim.proof]
    assert len(proved) >= PROOFS


def test_every_repair_says_whether_it_is_sharp():
    assert [id for id, claim in claims().items() if claim.repairs and not claim.sharp] == []


def test_the_published_page_is_about_these_claims():
    assert set(published()) == set(claims())


def test_what_fails_on_the_published_page_is_declared_and_what_is_declared_fails():
    verdicts = published()
    violated = {id for id in printed() if verdicts.get(id) == "violated"}
    declared = {id for id, claim in printed().items() if claim.failure}
    assert violated - declared == set()
    assert {
        id: verdicts.get(id) for id in declared if verdicts.get(id) not in ("violated", "not reproduced")
    } == {}
    assert "crashed" not in verdicts.values()
