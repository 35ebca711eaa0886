"""Claims that need transformers and peft, on machines with and without them."""

import math

from attangent.audit import run
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Finding, Verdict
from attangent.audit.registry import get
from attangent.audit.running import extras
from tests.audit.fakes import make_claim


@extras.needs_adapters
def check(settings: Settings, seed: int) -> Finding:
    return Finding(conclusions=(Conclusion("seed", "<=", 5.0, float(seed)),))


def test_a_check_runs_where_the_extra_is_installed():
    assert check(Settings(), 3).verdict is Verdict.HOLDS
    assert check(Settings(), 7).verdict is Verdict.VIOLATED


def test_without_it_the_finding_is_open_and_says_what_to_install(monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    found = check(Settings(), 3)
    assert found.verdict is Verdict.OPEN
    assert "attangent[adapters]" in found.remark


def test_claims_on_hugging_face_models_are_open_without_them(monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    for id in ("P1/table-1", "P1/table-2", "P1/figure-2", "P1/appendix-c-orthogonal", "P3/figure-1"):
        assert get(id).check(get(id).quick, 0).verdict is Verdict.OPEN
    for id in ("P3/figure-5", "P3/figure-6", "P3/figure-7", "P3/figure-8"):
        assert get(id).check(get(id).quick, 0).verdict is Verdict.OPEN


def absent(settings: Settings, seed: int) -> Finding:
    return Finding(conclusions=(Conclusion("x", ">=", 1.0, math.nan),), lacks=extras.EXTRA)


def present(settings: Settings, seed: int) -> Finding:
    return Finding(conclusions=(Conclusion("x", ">=", 1.0, 2.0),))


def test_a_finding_that_wanted_packages_is_measured_once_they_are_there(claims, monkeypatch, tmp_path):
    claims["P1/lemma-1"] = make_claim("P1/lemma-1", absent, seeds=1)
    (first,) = run(["P1/lemma-1"], out=tmp_path).records
    claims["P1/lemma-1"] = make_claim("P1/lemma-1", present, seeds=1)
    with monkeypatch.context() as without:
        without.setattr(extras, "find_spec", lambda name: None)
        (kept,) = run(["P1/lemma-1"], out=tmp_path).records
    (second,) = run(["P1/lemma-1"], out=tmp_path).records
    assert [record.finding.verdict.value for record in (first, kept, second)] == ["open", "open", "holds"]
