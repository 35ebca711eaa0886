"""The tests of `papers/p1/compression.py`."""

import pytest

from attangent.audit import Verdict, registry
from attangent.audit.papers.p1.trained_reader import Compression, trained_reader

ID = "P1/appendix-c-compression"


@pytest.fixture(scope="module")
def claim():
    return registry.get(ID)


@pytest.fixture(scope="module")
def finding(claim):
    return claim.check(claim.quick, 1)


@pytest.fixture(scope="module")
def problem():
    return Compression.draw(trained_reader(12, 2, 8, 60, seed=0), 128, 8, seed=0)


def test_the_authors_map_does_not_compress_a_prompt_and_fitted_anchors_do(finding):
    assert finding.verdict is Verdict.VIOLATED
    assert finding.numbers["ratio, elu, Eq. (7)"] > 0.4
    assert finding.numbers["ratio, anchors, fitted"] < 0.01
    assert (
        finding.numbers["ratio, Taylor of order 4, Eq. (7)"]
        < finding.numbers["ratio, Taylor of order 2, Eq. (7)"]
    )
    assert finding.numbers["size in tokens, elu, Eq. (7)"] == 4.5
    assert len(finding.figures) == 2


def test_it_holds_for_maps_that_do_compress(claim):
    settings = claim.quick | {"claimed": ["anchors, fitted"], "sizes": [24], "steps": 30, "m": 256}
    assert claim.check(settings, 1).verdict is Verdict.HOLDS


def test_anchors_that_are_too_few_do_not(claim):
    settings = claim.quick | {"claimed": ["anchors, fitted"], "sizes": [5], "tolerance": 0.01}
    assert claim.check(settings, 1).verdict is Verdict.VIOLATED
