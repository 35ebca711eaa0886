import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attangent import AttangentError
from attangent.audit import Conclusion, Finding, Hypothesis, Series, Verdict

KEPT = Conclusion("c", "<=", 1.0, 0.5)
BROKEN = Conclusion("c", "<=", 1.0, 1.5)
UNDECIDED = Conclusion("c", "<=", 1.0, math.nan)
MET = Hypothesis("h", ">=", 1.0, 2.0)
MISSED = Hypothesis("h", ">=", 200.0, 3.0, log10=True)


@pytest.mark.parametrize(
    ("hypotheses", "conclusions", "verdict"),
    [
        ([], [KEPT], Verdict.HOLDS),
        ([MET], [KEPT], Verdict.HOLDS),
        ([MET, MISSED], [KEPT], Verdict.MEASURED),
        ([MET], [KEPT, BROKEN], Verdict.VIOLATED),
        ([MISSED], [BROKEN], Verdict.VIOLATED),
        ([MET], [UNDECIDED], Verdict.OPEN),
        ([MET], [UNDECIDED, BROKEN], Verdict.VIOLATED),
        ([MET], [KEPT, Conclusion("ours", "<=", 1.0, 9.0, claimed=False)], Verdict.HOLDS),
    ],
)
def test_verdict_follows_from_hypotheses_and_conclusions(hypotheses, conclusions, verdict):
    assert Finding(conclusions=tuple(conclusions), hypotheses=tuple(hypotheses)).verdict is verdict


def test_a_finding_without_a_claimed_conclusion_is_refused():
    with pytest.raises(AttangentError, match="at least one conclusion"):
        Finding(conclusions=(Conclusion("ours", "<=", 1.0, 0.0, claimed=False),))


@given(bound=st.floats(allow_nan=False), measured=st.floats(allow_nan=False))
def test_relations(bound, measured):
    assert Conclusion("c", "<=", bound, measured).kept == (measured <= bound)
    assert Conclusion("c", ">=", bound, measured).kept == (measured >= bound)
    assert Conclusion("c", "==", bound, measured).kept == (measured == bound)


def test_divergence_to_infinity_violates_an_upper_bound():
    assert Conclusion("c", "<=", 1.0, math.inf).kept is False


def test_missing_decades():
    assert MET.missing_decades == 0
    assert MISSED.missing_decades == pytest.approx(197)
    assert Hypothesis("h", "<=", 1e-3, 1.0).missing_decades == pytest.approx(3)
    assert math.isnan(Hypothesis("h", ">=", 1.0, -1.0).missing_decades)
    assert Hypothesis("h", "<=", 5.0, math.inf).missing_decades == math.inf
    assert Hypothesis("h", "<=", 1e-300, 1e300).missing_decades == pytest.approx(600)


@pytest.mark.parametrize(
    ("verdicts", "combined"),
    [
        (["holds", "holds"], "holds"),
        (["holds", "measured"], "measured"),
        (["measured", "open"], "open"),
        (["open", "violated", "holds"], "violated"),
        ([], "open"),
    ],
)
def test_verdicts_of_several_seeds(verdicts, combined):
    assert Verdict.combine(map(Verdict, verdicts)) == combined


def test_series_needs_equal_lengths():
    with pytest.raises(AttangentError, match="equal length"):
        Series.of("s", [1, 2, 3], [1, 2])
