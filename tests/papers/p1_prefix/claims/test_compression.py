"""The tests of `papers/p1/compression.py`."""

import pytest

from attangent.audit import Verdict, registry

ID = "P1/appendix-c-compression"


@pytest.fixture(scope="module")
def claim():
    return registry.get(ID)


@pytest.fixture(scope="module")
def finding(claim):
    return claim.check(claim.quick, 1)


def test_the_authors_map_does_not_compress_a_prompt_and_fitted_anchors_do(finding):
    assert finding.verdict is Verdict.HOLDS
    assert finding.numbers["ratio, elu, Eq. (7)"] > 0.4
    assert finding.numbers["ratio, anchors, fitted"] < 0.01
    assert (
        finding.numbers["ratio, Taylor of order 4, Eq. (7)"]
        < finding.numbers["ratio, Taylor of order 2, Eq. (7)"]
    )
    assert finding.numbers["size in tokens, elu, Eq. (7)"] == 4.5
    assert len(finding.figures) == 2


def test_a_map_that_keeps_less_with_more_features_is_found_out(claim):
    backwards = ["Taylor of order 4, Eq. (7)", "Taylor of order 2, Eq. (7)"]
    settings = claim.quick | {"polynomial": backwards, "sizes": [6], "steps": 30, "m": 256}
    assert claim.check(settings, 1).verdict is Verdict.VIOLATED


def test_a_state_larger_than_the_prompt_is_found_out(claim):
    settings = claim.quick | {"sizes": [6], "steps": 30, "m": 16}
    assert claim.check(settings, 1).verdict is Verdict.VIOLATED


def test_the_authors_map_does_not_decide(finding):
    line = next(c for c in finding.conclusions if "elu, Eq. (7)" in c.name)
    assert not line.kept
    assert not line.decides
