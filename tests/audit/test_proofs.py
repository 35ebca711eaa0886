"""Exact arguments: a step that does not hold crashes its claim, one that holds decides it."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from attangent._core.errors import AttangentError
from attangent.audit import Claim, Failure, Proof, Step, load, run
from attangent.audit.proofs import ProofFailed, checked
from attangent.audit.storing import Store
from tests.audit.fakes import make_claim

FAILURE = Failure("P1/lemma-1", "used nowhere", "n = 1", root="a factor of two is missing")


def right() -> Proof:
    return Proof((Step("Half of one is less than one.", r"\frac12 < 1", Fraction(1, 2) < 1),))


def wrong() -> Proof:
    return Proof((Step("One is one.", "1 = 1", True), Step("Half exceeds one.", r"\frac12 > 1", False)))


def run_with(claims, folder, **changes):
    claims["P1/lemma-1"] = replace(claims["P1/lemma-1"], **changes)
    return run(["P1/lemma-1"], out=folder, seeds=1)


def test_a_step_that_does_not_hold_is_an_error():
    with pytest.raises(ProofFailed, match=r"step 2 of wrong does not hold: Half exceeds one"):
        checked(wrong)


def test_a_step_must_compute_a_truth_value():
    with pytest.raises(AttangentError, match="must compute True or False"):
        Step("a sum", "1 + 1", 2)  # pyright: ignore[reportArgumentType]


def test_a_proof_without_steps_is_refused():
    with pytest.raises(AttangentError, match="at least one step"):
        Proof(())


def test_a_proof_of_failure_decides_though_every_line_holds(claims, tmp_path):
    result = run_with(claims, tmp_path / "run", proof=right, failure=FAILURE).results()[0]
    assert result.verdict.value == "violated"
    assert result.deciding.finding.conclusions[0].kept


def test_a_proof_of_another_statement_decides_nothing(claims, tmp_path):
    assert run_with(claims, tmp_path / "run", proof=right).results()[0].verdict.value == "holds"


def test_a_wrong_proof_crashes_the_claim(claims, tmp_path):
    result = run_with(claims, tmp_path / "run", proof=wrong, failure=FAILURE)
    assert result.results()[0].verdict.value == "crashed"
    assert "does not hold" in result.failures[0]["traceback"]


def test_proof_and_failure_survive_storing_and_reach_json(claims, tmp_path):
    run_with(claims, tmp_path / "run", proof=right, failure=FAILURE, plain="A sentence.", ours=("for all n",))
    result = load(tmp_path / "run").results()[0]
    assert result.deciding.finding.proof == right()
    assert result.origin.failure == FAILURE
    values = json.loads(json.dumps(result.as_json()))
    assert values["failure"]["consequence"] == "used nowhere"
    assert values["proof"]["steps"][0]["holds"] is True
    assert values["plain"] == "A sentence."
    assert values["ours"] == ["for all n"]


def test_findings_without_the_new_fields_still_load(claims, tmp_path):
    run(["P1/lemma-1"], out=tmp_path / "run", seeds=1)
    store = Store(tmp_path / "run")
    record = store.read("P1--lemma-1--seed-0")
    body, arrays = record.encode()
    for name in ("sharp", "nature", "plain", "failure", "erratum", "ours"):
        del body["origin"][name]
    for name in ("proof", "refuted"):
        del body["finding"][name]
    old = type(record).decode(body, arrays)
    assert old.origin.nature == "lemma"
    assert old.finding.proof is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nature": "conjecture"}, "expected one of main result"),
        ({"failure": Failure("P1/lemma-1", "a constant changes", "n = 2")}, "must name it"),
    ],
)
def test_bad_descriptions_are_refused(changes, message):
    with pytest.raises(AttangentError, match=message):
        Claim(**{**vars(make_claim("P1/lemma-1")), **changes})


@pytest.mark.parametrize("values", [("lemma", "c", "s"), ("P1/lemma-1", "", "s"), ("P1/lemma-1", "c", " ")])
def test_a_failure_needs_cause_consequence_and_size(values):
    with pytest.raises(AttangentError):
        Failure(*values)
