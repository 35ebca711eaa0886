"""The four ways to train: what they reach, and that they agree."""

import pytest

from attangent._core.errors import AttangentError
from tests.icl.examples import model


@pytest.mark.parametrize("method", ["gd", "adam", "varpro"])
def test_stops_at_the_target(method):
    result = model(heads=4).fit(method, target=0.5, steps=2000)
    assert result.stopped == "target"
    assert result.gap <= 0.5 < result.gaps[-2]


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("newton", {}, "expected one of solve, varpro, gd, adam"),
        ("solve", {"steps": 3}, "has no option steps"),
        ("gd", {"steps": 0}, "steps is 0"),
        ("gd", {"rate_Q": 0.1}, "give both"),
        ("gd", {"rate_Q": 0.1, "rate_w": -1.0}, "rate_w is -1"),
        ("adam", {"rate": 0.0}, "rate is 0"),
        ("adam", {"prompts": 0}, "prompts is 0"),
        ("varpro", {"memory": 0}, "memory is 0"),
    ],
)
def test_refusals(method, options, message):
    trained = model()
    with pytest.raises(AttangentError, match=message):
        trained.fit(method, **options)
    assert not trained.w.any()
