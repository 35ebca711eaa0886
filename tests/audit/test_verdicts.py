"""One test for each rule of a verdict."""

import math
from dataclasses import replace

import numpy as np
import pytest

from attangent.audit import Conclusion, Finding, Hypothesis, Verdict
from attangent.audit.results import Result
from attangent.audit.verdicts import Judgement, overall
from tests.audit.examples import make_record

KEPT = Conclusion("c", "<=", 1.0, 0.5)
BROKEN = Conclusion("c", "<=", 1.0, 1.5)
UNDECIDED = Conclusion("c", "<=", 1.0, math.nan)
EMPTY = Conclusion("c", "<=", 237.0, 0.5, log10=True)
OURS = Conclusion("c", "<=", 1.0, 9.0, claimed=False)
CHOSEN = Conclusion("c", "<=", 1.0, 9.0, threshold="ours")
MET = Hypothesis("h", ">=", 1.0, 2.0)
MISSED = Hypothesis("h", ">=", 200.0, 3.0, log10=True)
IN_LIMIT = Hypothesis("width", ">=", 200.0, 3.0, log10=True, in_limit=True)
SIZES = [8, 16, 32, 64]
FALLING = Conclusion.of_trend("error over m", "<=", -0.5, SIZES, [8, 4.1, 2, 0.99])
FLAT = Conclusion.of_trend("error over m", "<=", -0.5, SIZES, [1, 1.01, 0.99, 1])
EXACT = Conclusion.of_trend("error over m", "<=", -0.5, SIZES, [8, 4, 2, 1])


def verdict(conclusions, hypotheses=(), differs=()):
    return Finding(tuple(conclusions), tuple(hypotheses), differs=tuple(differs)).verdict.value


@pytest.mark.parametrize("hypotheses", [[], [MET]])
def test_it_holds_where_every_line_is_kept_with_the_hypotheses_met(hypotheses):
    assert verdict([KEPT, KEPT], hypotheses) == "holds"


def test_it_is_measured_where_a_hypothesis_is_out_of_reach():
    assert verdict([KEPT], [MET, MISSED]) == "measured"


def test_it_is_measured_in_another_setting():
    assert verdict([KEPT], [MET], ["a model of two layers"]) == "measured"


@pytest.mark.parametrize("hypotheses", [[], [MET]])
def test_it_is_violated_where_a_line_fails_with_the_hypotheses_met(hypotheses):
    assert verdict([KEPT, BROKEN], hypotheses) == "violated"
    assert verdict([UNDECIDED, BROKEN], hypotheses) == "violated"


def test_a_failure_outside_the_hypotheses_is_not_a_refutation():
    assert verdict([BROKEN], [MET, MISSED]) == "not reproduced"


def test_a_failure_in_another_setting_is_not_a_refutation():
    assert verdict([BROKEN], [MET], ["made-up data"]) == "not reproduced"


def test_a_trend_refutes_what_is_said_of_a_limit():
    assert verdict([FLAT], [MET, IN_LIMIT]) == "violated"
    assert verdict([FALLING], [MET, IN_LIMIT]) == "measured"


def test_a_trend_does_not_refute_where_another_hypothesis_is_missed():
    assert verdict([FLAT], [MISSED, IN_LIMIT]) == "not reproduced"
    assert verdict([FLAT], [IN_LIMIT], ["made-up data"]) == "not reproduced"


def test_a_single_size_does_not_refute_what_is_said_of_a_limit():
    assert verdict([BROKEN], [IN_LIMIT]) == "not reproduced"


def test_it_is_open_where_a_line_could_not_be_measured():
    assert verdict([KEPT, UNDECIDED], [MET]) == "open"


def test_a_bound_that_cannot_fail_does_not_hold_by_itself():
    assert verdict([EMPTY], [MET]) == "open"
    assert verdict([EMPTY, KEPT], [MET]) == "holds"
    assert verdict([EMPTY, FALLING], [MET]) == "holds"
    assert verdict([EMPTY, BROKEN], [MET]) == "violated"


def test_lines_of_ours_and_thresholds_of_ours_decide_nothing():
    assert verdict([KEPT, OURS, CHOSEN], [MET]) == "holds"
    assert verdict([BROKEN, OURS], [MET]) == "violated"
    assert verdict([CHOSEN], [MET]) == "open"


def of_part(part, line):
    return Conclusion(line.name, line.relation, line.bound, line.measured, log10=line.log10, part=part)


def test_each_part_has_its_verdict():
    finding = Finding(
        (of_part("1", KEPT), of_part("2", BROKEN), of_part("3", EMPTY)),
        (MET, Hypothesis("h", ">=", 1.0, 0.0, part="2")),
    )
    assert {part: judged.verdict.value for part, judged in finding.judgements.items()} == {
        "1": "holds",
        "2": "not reproduced",
        "3": "open",
    }
    assert finding.verdict is Verdict.NOT_REPRODUCED


def test_a_part_that_cannot_fail_leaves_the_whole_to_the_others():
    assert verdict([of_part("1", KEPT), of_part("2", EMPTY)]) == "holds"
    assert overall([Judgement(Verdict.OPEN, trivial=True)]) is Verdict.OPEN
    assert overall([Judgement(Verdict.OPEN, trivial=True), Judgement(Verdict.OPEN)]) is Verdict.OPEN


@pytest.mark.parametrize(
    ("verdicts", "combined"),
    [
        (["holds", "holds"], "holds"),
        (["holds", "measured"], "measured"),
        (["measured", "open"], "open"),
        (["open", "violated", "holds"], "violated"),
        (["not reproduced", "open"], "not reproduced"),
        (["not reproduced", "violated"], "violated"),
        (["crashed", "holds"], "holds"),
        (["crashed"], "crashed"),
        ([], "open"),
    ],
)
def test_verdicts_of_several_seeds(verdicts, combined):
    assert Verdict.combine(map(Verdict, verdicts)) == combined


def over_seeds(*findings):
    records = [make_record("P2/lemma-1", finding, seed) for seed, finding in enumerate(findings)]
    return Result(tuple(records))


def test_a_trend_decides_where_three_seeds_and_all_show_it():
    flat, falling = (Finding((line,), (MET,)) for line in (FLAT, FALLING))
    assert over_seeds(flat, flat, flat).verdict is Verdict.VIOLATED
    assert over_seeds(flat, flat).verdict is Verdict.OPEN
    assert over_seeds(flat, flat, falling).verdict is Verdict.OPEN
    assert over_seeds(falling, falling).verdict is Verdict.HOLDS


def test_the_parts_of_a_statement_obey_the_rule_of_three_seeds():
    seeds = [Finding((replace(line, part="2"), of_part("1", KEPT))) for line in (FLAT, FALLING, FALLING)]
    assert over_seeds(*seeds).parts == {"2": Verdict.OPEN, "1": Verdict.HOLDS}
    assert over_seeds(seeds[0], seeds[0], seeds[0]).parts["2"] is Verdict.VIOLATED


def test_a_failed_line_outside_the_hypotheses_does_not_switch_off_the_rule_of_three_seeds():
    bad = Finding((FLAT, BROKEN), (IN_LIMIT,))
    good = Finding((FALLING, KEPT), (IN_LIMIT,))
    assert over_seeds(bad, good, good).verdict is Verdict.NOT_REPRODUCED
    assert over_seeds(bad, bad, bad).verdict is Verdict.VIOLATED


def noisy(exponent, noise, seed):
    random = np.random.default_rng(seed)
    values = [size**exponent * math.exp(noise * random.standard_normal()) for size in SIZES]
    return Finding((Conclusion.of_trend("error over m", "<=", -0.5, SIZES, values),))


def test_a_limit_is_decided_by_a_test_over_all_seeds():
    assert over_seeds(*(noisy(-0.5, 0.02, seed) for seed in range(3))).verdict is Verdict.HOLDS
    assert over_seeds(*(noisy(-0.2, 0.02, seed) for seed in range(3))).verdict is Verdict.VIOLATED
    assert over_seeds(*(noisy(-0.3, 1.0, seed) for seed in range(3))).verdict is Verdict.OPEN


def test_a_true_exponent_is_seldom_refuted():
    runs = [over_seeds(*(noisy(-0.5, 0.3, 3 * run + seed) for seed in range(3))) for run in range(100)]
    assert sum(run.verdict is Verdict.VIOLATED for run in runs) <= 5


def test_an_exponent_that_bends_towards_the_stated_one_does_not_refute_it():
    values = [size**-0.5 * math.exp(2 / size) for size in SIZES]
    bending = Finding((Conclusion.of_trend("error over m", ">=", -0.5, SIZES, values),))
    assert bending.conclusions[0].measured < -0.55
    assert over_seeds(bending, bending, bending).verdict is not Verdict.VIOLATED


def estimate(low, high):
    return Finding((Conclusion("gain", ">=", 0.0, (low + high) / 2, interval=(low, high)),))


@pytest.mark.parametrize(
    ("ends", "expected"), [((0.1, 0.2), "holds"), ((-0.1, 0.2), "open"), ((-0.2, -0.1), "violated")]
)
def test_an_interval_that_covers_the_bound_is_undecided(ends, expected):
    assert over_seeds(*[estimate(*ends)] * 3).verdict.value == expected


def test_one_interval_of_three_refutes_nothing():
    assert over_seeds(estimate(-0.2, -0.1), estimate(0.1, 0.2), estimate(0.1, 0.2)).verdict is Verdict.OPEN


def test_an_identity_is_no_evidence():
    identity = replace(KEPT, identity=True)
    assert verdict([identity]) == "open"
    assert verdict([identity, FALLING]) == "holds"
    assert verdict([replace(BROKEN, identity=True)]) == "violated"


def test_the_same_exact_power_law_on_all_seeds_is_an_identity():
    exact = Finding((EXACT,))
    assert over_seeds(exact, exact).verdict is Verdict.OPEN
    assert over_seeds(exact, Finding((FALLING,))).verdict is Verdict.HOLDS


@pytest.mark.parametrize("line", [KEPT, BROKEN])
def test_a_stand_in_of_a_large_experiment_is_counted_separately(line):
    assert Finding((line,), smaller="digits for ImageNet").verdict is Verdict.SMALLER
    assert not Verdict.SMALLER.failed


def test_a_stand_in_that_decides_nothing_is_open():
    assert Finding((UNDECIDED,), smaller="digits for ImageNet").verdict is Verdict.OPEN
    failed = Conclusion("accuracy", ">=", 0.0, -0.2, interval=(-0.3, -0.1))
    assert Finding((UNDECIDED, failed), smaller="digits for ImageNet").verdict is Verdict.SMALLER


def test_a_plain_counter_example_decides_with_one_seed():
    broken = Finding((FLAT, BROKEN), (MET,))
    assert over_seeds(broken).verdict is Verdict.VIOLATED
    assert over_seeds(Finding((KEPT,)), broken).verdict is Verdict.VIOLATED
