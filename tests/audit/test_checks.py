import math
import pickle

import pytest

from attangent import AttangentError
from attangent.audit import (
    Conclusion,
    Figure,
    Finding,
    Hypothesis,
    Series,
    Settings,
    Verdict,
    checks,
    registry,
    run,
)
from attangent.audit.checks import AtSizes
from attangent.audit.registry import get
from tests.audit.fakes import make_claim


def error(settings: Settings, seed: int) -> Finding:
    return Finding(
        conclusions=(Conclusion("error", "<=", settings.bound, 1 / settings.m),),
        hypotheses=(Hypothesis("width", ">=", 1, settings.m),),
        numbers={"seed": seed},
        figures=(Figure("errors", "x", "y", (Series.of("a", [1.0], [1.0]),)),),
        differs=("made up",),
    )


SIZES = ({"m": 4}, {"m": 16})


def test_a_check_is_made_at_each_size():
    found = AtSizes(error, SIZES)(Settings(m=1, bound=0.1), 7)
    assert [(line.name, line.measured) for line in found.conclusions] == [
        ("error, m = 4", 0.25),
        ("error, m = 16", 0.0625),
    ]
    assert [line.kept for line in found.conclusions] == [False, True]
    assert [line.name for line in found.hypotheses] == ["width, m = 4", "width, m = 16"]
    assert found.numbers == {"seed, m = 4": 7, "seed, m = 16": 7}
    assert [figure.title for figure in found.figures] == ["errors, m = 4", "errors, m = 16"]
    assert found.differs == ("made up",)


def test_it_travels_to_workers_and_names_its_module():
    moved = pickle.loads(pickle.dumps(AtSizes(error, SIZES)))
    assert moved(Settings(m=1, bound=1.0), 0).verdict == "measured"


REPAIR = {"place": "p", "title": "t", "statement": "s", "quick": {"bound": 1.0}}


def test_a_repair_is_ours_with_a_derivation_three_seeds_and_two_sizes(claims):
    registry.claim("P1/lemma-1-repaired", **REPAIR, derivation="Because.", sizes=SIZES)(error)
    made = claims["P1/lemma-1-repaired"]
    assert (made.kind, made.repairs, made.module) == ("ours", "P1/lemma-1", __name__)
    assert len(made.check(made.quick, 0).conclusions) == 2


def test_a_repair_may_name_another_claim_than_its_id(claims):
    named = {**REPAIR, "repairs": "P1/lemma-2", "derivation": "Because.", "sizes": SIZES}
    registry.claim("P1/lemma-1-repaired", **named)(error)
    assert claims["P1/lemma-1-repaired"].repairs == "P1/lemma-2"


@pytest.mark.parametrize(
    "changes",
    [
        {"derivation": ""},
        {"sizes": SIZES[:1]},
        {"sizes": ()},
        {"seeds": 2},
        {"kind": "theorem"},
    ],
)
def test_a_repair_without_them_is_refused(claims, changes):
    given = {**REPAIR, "derivation": "Because.", "sizes": SIZES, **changes}
    with pytest.raises(AttangentError, match="needs kind='ours', a derivation, at least three"):
        registry.claim("P1/lemma-1-repaired", **given)(error)


@checks.needs_adapters
def check(settings: Settings, seed: int) -> Finding:
    return Finding(conclusions=(Conclusion("seed", "<=", 5.0, float(seed)),))


def test_a_check_runs_where_the_extra_is_installed():
    assert check(Settings(), 3).verdict is Verdict.HOLDS
    assert check(Settings(), 7).verdict is Verdict.VIOLATED


def test_without_it_the_finding_is_open_and_says_what_to_install(monkeypatch):
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    found = check(Settings(), 3)
    assert found.verdict is Verdict.OPEN
    assert "attangent[adapters]" in found.remark


def test_claims_on_hugging_face_models_are_open_without_them(monkeypatch):
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    for id in ("P1/table-1", "P1/table-2", "P1/figure-2", "P1/appendix-c-orthogonal", "P3/figure-1"):
        assert get(id).check(get(id).quick, 0).verdict is Verdict.OPEN
    for id in ("P3/figure-5", "P3/figure-6", "P3/figure-7", "P3/figure-8"):
        assert get(id).check(get(id).quick, 0).verdict is Verdict.OPEN


def absent(settings: Settings, seed: int) -> Finding:
    return Finding(conclusions=(Conclusion("x", ">=", 1.0, math.nan),), lacks=checks.EXTRA)


def present(settings: Settings, seed: int) -> Finding:
    return Finding(conclusions=(Conclusion("x", ">=", 1.0, 2.0),))


def test_a_finding_that_wanted_packages_is_measured_once_they_are_there(claims, monkeypatch, tmp_path):
    claims["P1/lemma-1"] = make_claim("P1/lemma-1", absent, seeds=1)
    (first,) = run(["P1/lemma-1"], out=tmp_path).records
    claims["P1/lemma-1"] = make_claim("P1/lemma-1", present, seeds=1)
    with monkeypatch.context() as without:
        without.setattr(checks, "find_spec", lambda name: None)
        (kept,) = run(["P1/lemma-1"], out=tmp_path).records
    (second,) = run(["P1/lemma-1"], out=tmp_path).records
    assert [record.finding.verdict.value for record in (first, kept, second)] == ["open", "open", "holds"]
