import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attangent.audit import Conclusion, Finding, Hypothesis, Proof, Step
from attangent.audit.report.phrases import (
    duration,
    formula,
    headline,
    power_of_ten,
    readable,
    reason,
    scientific,
    told_apart,
)
from attangent.audit.results import Result
from tests.audit.examples import bounded, make_record

FLAT = Conclusion.of_trend("error over m", "<=", -0.5, [8, 16, 32, 64], [1, 1, 1, 1])
IN_LIMIT = Hypothesis("width", ">=", 64, 8, in_limit=True)


def words(*findings):
    result = Result(tuple(make_record("P2/lemma-1", finding, seed) for seed, finding in enumerate(findings)))
    return f"{headline(result)}: {reason(result)}"


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        (bounded(0.5), "Holds: The check declares no hypotheses; its conclusion holds."),
        (bounded(2.0), "Violated: “error” should be ≤ 1; measured 2."),
        (
            bounded(2.0, hypotheses=(Hypothesis("h", ">=", 1, 2),)),
            "Violated with its hypotheses met: “error” should be ≤ 1; measured 2.",
        ),
        (
            bounded(2.0, differs=("made-up data",)),
            "Not reproduced in another setting: “error” should be ≤ 1; measured 2.",
        ),
        (
            bounded(0.5, differs=("made-up data",)),
            "Measured to hold: The setting differs from the paper's (made-up data); its conclusion holds.",
        ),
        (
            bounded(0.5, differs=("made-up data",), hypotheses=(Hypothesis("h", ">=", 2, 1),)),
            "Seen in another setting: The setting differs from the paper's (made-up data); its conclusion "
            "holds.",
        ),
        (bounded(1e-8), "Open: “error” holds by 8 decades: it cannot fail at this size."),
        (Finding((), crash="ValueError: no"), "Crashed: The check raised an error: ValueError: no"),
        (
            Finding((Conclusion("c", "<=", 1.0, 0.5, threshold="ours"),)),
            "Open: The statement gives no threshold for any of the measured quantities.",
        ),
    ],
)
def test_verdicts_in_words(finding, said):
    assert words(finding) == said


def test_a_trend_says_over_how_many_sizes_and_seeds():
    flat = Finding((FLAT,), (IN_LIMIT,))
    assert words(flat, flat, flat) == (
        "Violated in the limit of the statement: “error over m” should be ≤ −0.5; measured 0 with this seed, "
        "the exponent over 4 sizes (all seeds, 95 %: 0 to 0)."
    )
    assert words(flat).endswith(
        "This fails with 1 of 1 seeds; an estimate refutes if at least three fail, and all."
    )


def test_only_a_statement_that_has_none_states_no_hypotheses():
    printed = Result((make_record("P2/lemma-1", bounded(2.0), unconditional=True),))
    assert headline(printed) == "Violated (it states no hypotheses)"


def test_a_smaller_setting_says_what_was_seen_there():
    assert words(bounded(0.5, smaller="digits")).startswith("Seen in a smaller setting: Run in a smaller")
    assert words(bounded(2.0, smaller="digits")).startswith("Not seen in a smaller setting: “error”")


def test_an_interval_that_covers_the_bound_is_called_undecided():
    line = Conclusion("gain", ">=", 0.0, 0.05, interval=(-0.1, 0.2))
    assert words(Finding((line,))) == (
        "Open: Undecided: “gain” is 0.05 (95 %: −0.1 to 0.2), and should be ≥ 0."
    )


def test_an_exact_argument_is_the_reason():
    proof = Proof((Step("One is less than two.", "1 < 2", 1 < 2),))
    said = words(bounded(2.0, proof=proof, refuted=True))
    assert said.startswith("Violated, by an exact argument: 1 step, checked in exact arithmetic. “error”")
    assert words(bounded(0.5, proof=proof, refuted=True)).endswith("1 step, checked in exact arithmetic.")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (8.0, "8"),
        (-3.0, "−3"),
        (65536.0, "65536"),
        (0.123456, "0.1235"),
        (1234.56, "1235"),
        (9999.6, "10⁴"),
        (123456.7, "1.23×10⁵"),
        (1.2e-5, "1.2×10⁻⁵"),
        (-1.2e-5, "−1.2×10⁻⁵"),
        (1e-8, "10⁻⁸"),
        (-1e-8, "−10⁻⁸"),
        (1e12, "10¹²"),
        (0.000999999, "0.001"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (math.nan, "not a number"),
    ],
)
def test_numbers_read_as_people_write_them(value, text):
    assert readable(value) == text


def _value(text: str) -> float:
    """The number that `readable` wrote."""
    plain = text.replace("−", "-").translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789"))
    mantissa, times, power = plain.partition("10⁻") if "⁻" in plain else (plain, "", "")
    if times:
        return float(f"{_lead(mantissa)}e-{power}")
    mantissa, times, power = plain.partition("×10")
    if times:
        return float(f"{mantissa}e{power}")
    return float(plain)


def _lead(mantissa: str) -> str:
    return {"": "1", "-": "-1"}.get(mantissa, mantissa.removesuffix("×"))


@settings(deadline=None)
@given(st.floats(1e-300, 1e-3) | st.floats(1e-3, 9999) | st.integers(-999_999, 999_999).map(float))
def test_a_number_keeps_three_digits(value):
    assert _value(readable(value)) == pytest.approx(value, rel=6e-3)


def test_more_digits_tell_close_numbers_apart():
    assert readable(1.00001, 7) == "1.00001"
    assert readable(1.00002, 7) == "1.00002"


def test_scientific_leaves_out_a_one():
    assert scientific(1.0, 1) == "10⁰"
    assert scientific(2e-7, 1) == "2×10⁻⁷"


@pytest.mark.parametrize(
    ("exponent", "text"),
    [
        (23.47, "10^23.5"),
        (198.0, "10^198"),
        (-4.25, "10^−4.2"),
        (0.6265, "10^0.63"),
        (0.0, "10^0"),
        (-1e-9, "10^0"),
        (math.inf, "∞"),
        (-math.inf, "0"),
        (math.nan, "not a number"),
    ],
)
def test_logarithms_read_as_powers_of_ten(exponent, text):
    assert power_of_ten(exponent) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.001, "< 0.1 s"),
        (0.25, "0.2 s"),
        (9.96, "10 s"),
        (59.7, "1 min"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (math.inf, "∞ s"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("plain", [("plain", "plain")]),
        ("|F - Y|^2", [("plain", "|F − Y|"), ("sup", "2")]),
        ("m^-3.9 n", [("plain", "m"), ("sup", "−3.9"), ("plain", " n")]),
        ("e^(18B)", [("plain", "e"), ("sup", "18B")]),
        ("lambda_min(H*)", [("plain", "λ"), ("sub", "min"), ("plain", "(H*)")]),
        ("<w_r, x_i>", [("plain", "<w"), ("sub", "r"), ("plain", ", x"), ("sub", "i"), ("plain", ">")]),
        ("|H|_F, H(W)_F", [("plain", "|H|"), ("sub", "F"), ("plain", ", H(W)"), ("sub", "F")]),
        ("nd/epsilon >= 1", [("plain", "nd/ε ≥ 1")]),
        ("beta theta eta", [("plain", "β θ η")]),
        ("snake_case_name max_steps", [("plain", "snake_case_name max_steps")]),
        ("alphabet deltas", [("plain", "alphabet deltas")]),
        ("^ ^^ x^ _ (^)", [("plain", "^ ^^ x^ _ (^)")]),
        ("", []),
    ],
)
def test_formulas_are_set_as_such(text, pieces):
    assert formula(text) == pieces


@settings(deadline=None)
@given(st.text(st.characters(exclude_characters="^_-<>=()") | st.sampled_from(["\n", "\x00"])))
def test_a_formula_without_signs_keeps_its_letters(text):
    joined = "".join(piece for _, piece in formula(text))
    assert len(joined) <= len(text)
    assert [kind for kind, _ in formula(text)] in ([], ["plain"])


def test_few_digits_of_a_large_number_are_no_power_of_ten():
    assert readable(203.7, 2) == "200"
    assert readable(-2036.7, 2) == "−2000"


def test_an_assignment_is_an_arrow():
    assert formula("gamma <- gamma - 1") == [("plain", "γ ← γ − 1")]


@settings(deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.booleans())
def test_two_numbers_read_alike_only_where_they_are(value, other, log10):
    first, second = told_apart(value, other, log10)
    close = abs(value - other) <= 1e-14 * max(abs(value), abs(other), 1.0)
    assert (first == second) == (value == other) or close


def test_digits_are_added_only_where_they_are_needed():
    assert told_apart(0.33333, 0.25) == ("0.3333", "0.25")
    assert told_apart(1 / 3, 1 / 3) == ("0.3333", "0.3333")
    assert told_apart(float("inf"), 1.0) == ("∞", "1")
    assert told_apart(0.0, 1e-12, log10=True)[0] == "1"
