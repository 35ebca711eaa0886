"""Verdicts in words, and numbers, times and short formulas as people read them: the same in every output."""

import math
import re

from attangent.audit.causes import WEIGHTS, weight_of
from attangent.audit.evidence import CANNOT_FAIL
from attangent.audit.finding import Conclusion, Finding, Hypothesis, Verdict
from attangent.audit.results import Result
from attangent.audit.verdicts import SEEDS_OF_AN_ESTIMATE

_NAMES = """alpha beta gamma delta epsilon eps zeta eta theta kappa lambda mu nu xi rho sigma tau phi chi psi
    omega Gamma Delta Theta Lambda Sigma Phi Psi Omega"""
_GREEK = dict(zip(_NAMES.split(), "αβγδεεζηθκλμνξρστφχψωΓΔΘΛΣΦΨΩ", strict=True))
_SIGNS = _GREEK | {"<=": "≤", ">=": "≥", " - ": " − ", " <- ": " ← "}
_WORDS = re.compile(rf"<=|>=| - | <- |(?<![^\W_])(?:{'|'.join(_GREEK)})(?![^\W_])")
_RAISED_OR_LOWERED = re.compile(
    r"\^\((?P<group>[^()]{1,40})\)"
    r"|\^(?P<sup>[-−]?(?:\d+(?:\.\d+)?|o\(1\)|\w))(?!\w)"
    r"|(?:(?<=(?<!\w)[^\W\d_])|(?<=[|)]))_(?P<sub>[^\W_]{1,4})(?!\w)"
)
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def readable(value: float, digits: int = 4) -> str:
    """Return `value` to a few significant digits: 0.1235, 65536, 1.2×10⁻⁵, ∞.

    >>> readable(0.000012), readable(-1 / 3), readable(1e-8)
    ('1.2×10⁻⁵', '−0.3333', '10⁻⁸')
    """
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value == 0 or (abs(value) < 1e6 and float(value).is_integer()):
        return f"{int(value)}".replace("-", "−")
    rounded = float(f"{value:.{digits}g}")
    if 1e-3 <= abs(rounded) < 10 ** max(digits, 4):
        text = f"{rounded:.{digits}g}" if abs(rounded) < 10**digits else f"{rounded:.0f}"
        return text.replace("-", "−")
    return scientific(value, digits - 1)


def scientific(value: float, digits: int) -> str:
    """Return `value` as a number below ten times a power of ten; a factor of 1 is left out."""
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPTS)
    text = {"1": power, "-1": f"-{power}"}.get(mantissa, f"{mantissa}×{power}")
    return text.replace("-", "−")


def power_of_ten(exponent: float) -> str:
    """Return 10^exponent as text, for constants that overflow.

    >>> power_of_ten(23.47), power_of_ten(-4000), power_of_ten(-math.inf)
    ('10^23.5', '10^−4000', '0')
    """
    if not math.isfinite(exponent):
        return "0" if exponent == -math.inf else readable(exponent)
    text = f"{exponent:.2g}" if abs(exponent) < 1 else f"{exponent:.1f}".removesuffix(".0")
    return f"10^{text}".replace("-", "−") if "e" not in text else "10^0"


MOST_DIGITS = 16
NEAR_ONE = 0.01
"""Powers of ten with smaller exponents read better as plain numbers."""


def told_apart(value: float, other: float, log10: bool = False) -> tuple[str, str]:
    """Return both numbers as text, with enough digits to see which one is larger.

    >>> told_apart(1.000001, 1.0), told_apart(0.5, 0.25), told_apart(107.04, 107.0, log10=True)
    (('1.000001', '1'), ('0.5', '0.25'), ('10^107.04', '10^107'))
    """
    if log10 and max(abs(value), abs(other)) < NEAR_ONE:
        return told_apart(10**value, 10**other)
    number = power_of_ten if log10 else readable
    texts = number(value), number(other)
    if value == other or texts[0] != texts[1] or not (math.isfinite(value) and math.isfinite(other)):
        return texts
    for digits in range(5, MOST_DIGITS + 1):
        texts = _with_digits(value, digits, log10), _with_digits(other, digits, log10)
        if texts[0] != texts[1]:
            break
    return texts


def _with_digits(value: float, digits: int, log10: bool) -> str:
    return f"10^{value:.{digits}g}".replace("-", "−") if log10 else readable(value, digits)


def duration(seconds: float) -> str:
    """Return a length of time: < 0.1 s, 2.5 s, 41 s, 3 min 20 s, 2 h 5 min.

    >>> duration(0.004), duration(2.46), duration(41.3), duration(200), duration(7500)
    ('< 0.1 s', '2.5 s', '41 s', '3 min 20 s', '2 h 5 min')
    """
    if not math.isfinite(seconds):
        return f"{readable(seconds)} s"
    if seconds < 9.95:
        return f"{seconds:.1f} s" if seconds >= 0.05 else "< 0.1 s"
    rounded = round(seconds)
    parts = {"h": rounded // 3600, "min": rounded // 60 % 60, "s": rounded % 60}
    shown = [f"{amount} {unit}" for unit, amount in parts.items() if amount]
    return " ".join(shown[:2])


def formula(text: str) -> list[tuple[str, str]]:
    """Split `text` into pieces marked "plain", "sup" or "sub", with Greek letters and relations as signs.

    >>> formula("|F - Y|^2 <= e^(16B) lambda_min")
    [('plain', '|F − Y|'), ('sup', '2'), ('plain', ' ≤ e'), ('sup', '16B'), ('plain', ' λ'), ('sub', 'min')]
    >>> formula("m^o(1)")
    [('plain', 'm'), ('sup', 'o(1)')]
    """
    signed = _WORDS.sub(lambda word: _SIGNS[word[0]], text)
    pieces = []
    end = 0
    for match in _RAISED_OR_LOWERED.finditer(signed):
        pieces.append(("plain", signed[end : match.start()]))
        kind = "sub" if match["sub"] else "sup"
        pieces.append((kind, (match["sub"] or match["group"] or match["sup"]).replace("-", "−")))
        end = match.end()
    return [piece for piece in [*pieces, ("plain", signed[end:])] if piece[1]]


RELATIONS = {"<=": "≤", ">=": "≥", "==": "=", "<": "<", ">": ">"}
SIGNS = {
    Verdict.HOLDS: "✓",
    Verdict.MEASURED: "≈",
    Verdict.VIOLATED: "✗",
    Verdict.NOT_REPRODUCED: "≠",
    Verdict.SMALLER: "▫",
    Verdict.OPEN: "?",
    Verdict.CRASHED: "!",
}
MEANINGS = {
    Verdict.HOLDS: "The hypotheses are met, every conclusion holds, and at least one could have failed.",
    Verdict.MEASURED: "Every conclusion holds, but outside the hypotheses or in another setting.",
    Verdict.VIOLATED: "A conclusion fails although the hypotheses are met, or in the limit of the statement.",
    Verdict.NOT_REPRODUCED: "A conclusion fails, but outside the hypotheses or in another setting.",
    Verdict.SMALLER: "A large experiment, run in a much smaller setting: nothing about the paper is decided.",
    Verdict.OPEN: "The measurements at this size decide nothing.",
    Verdict.CRASHED: "The check raised an error, which says nothing about the claim.",
}
NATURE_MEANINGS = {
    "main result": "a theorem, proposition or corollary that the paper is about",
    "lemma": "a lemma, claim or fact of its own",
    "proof step": "a line inside a proof, or an algorithm",
    "definition": "a definition or an assumption",
    "quotation": "a known result that the paper quotes",
    "misprint": "a slip whose correction is plain",
    "remark": "a sentence of the text",
    "experiment": "a figure, a table or a sentence on measurements",
}


def headline(result: Result) -> str:
    """Return the verdict in words, and under which conditions it was reached."""
    verdict = result.verdict
    finding = result.deciding.finding
    if verdict is Verdict.VIOLATED:
        return f"Violated{_where_violated(result)}"
    if verdict is Verdict.SMALLER:
        seen = all(line.kept for line in finding.conclusions if line.decides)
        return f"{'Seen' if seen else 'Not seen'} in a smaller setting"
    if verdict is Verdict.NOT_REPRODUCED:
        return f"Not reproduced {'in another setting' if finding.differs else 'outside its hypotheses'}"
    if verdict is Verdict.MEASURED:
        return "Seen in another setting" if _is_elsewhere(finding) else "Measured to hold"
    return verdict.value.capitalize()


def _is_elsewhere(finding: Finding) -> bool:
    """Whether the setting differs from the paper's and meets none of the hypotheses."""
    hypotheses = finding.hypotheses
    return bool(finding.differs and hypotheses) and not any(hypothesis.met for hypothesis in hypotheses)


def _where_violated(result: Result) -> str:
    finding = result.deciding.finding
    line = finding.deciding
    if finding.refuted:
        return ", by an exact argument"
    if line is not None and line.trend and not finding.hypotheses_met:
        return " in the limit of the statement"
    if finding.hypotheses:
        return " with its hypotheses met"
    return " (it states no hypotheses)" if result.origin.unconditional else ""


def reason(result: Result) -> str:
    """Return one line on the evidence for the verdict."""
    finding = result.deciding.finding
    line = finding.deciding
    if finding.crash:
        return f"The check raised an error: {finding.crash}"
    if finding.proof is not None and finding.refuted:
        steps = len(finding.proof.steps)
        text = f"{steps} {'step' if steps == 1 else 'steps'}, checked in exact arithmetic."
        return f"{text} {_broken(line)}" if line and line.kept is False else text
    if line is None:
        return "The statement gives no threshold for any of the measured quantities."
    if line.kept is False:
        return _broken(line) + _few_seeds(result)
    if result.verdict is Verdict.OPEN:
        return _undecided(line) + _few_seeds(result)
    text = f"{_premises(result)}; {_kept(finding)}."
    return text[0].upper() + text[1:]


def _broken(line: Conclusion) -> str:
    measured, limit = values(line)
    step = "" if line.first_violation is None else f", first at step {line.first_violation}"
    over = f" with this seed, the exponent over {len(line.trend.sizes)} sizes" if line.trend else ""
    return (
        f"“{line.name}” should be {RELATIONS[line.relation]} {limit}; measured {measured}{over}"
        f"{_interval(line)}{step}."
    )


def _interval(line: Conclusion) -> str:
    ends = line.confidence
    seeds = "all seeds, " if line.trend else ""
    return f" ({seeds}95 %: {readable(ends[0], 3)} to {readable(ends[1], 3)})" if ends else ""


def values(line: Conclusion) -> tuple[str, str]:
    """Return the measured value and its bound, with enough digits to tell them apart."""
    return told_apart(line.measured, line.bound, line.log10)


def _few_seeds(result: Result) -> str:
    if result.verdict is not Verdict.OPEN:
        return ""
    failed = sum(record.finding.verdict.failed for record in result.records)
    count = len(result.records)
    if not failed or count == failed >= SEEDS_OF_AN_ESTIMATE:
        return ""
    return f" This fails with {failed} of {count} seeds; an estimate refutes if at least three fail, and all."


def _undecided(line: Conclusion) -> str:
    if line.kept is None and line.confidence and not math.isnan(line.measured):
        measured, limit = values(line)
        estimate = f"“{line.name}” is {measured}{_interval(line)}"
        return f"Undecided: {estimate}, and should be {RELATIONS[line.relation]} {limit}."
    if line.kept is None:
        return f"“{line.name}” could not be measured."
    if line.slack > CANNOT_FAIL:
        return f"“{line.name}” holds by {readable(line.slack, 3)} decades: it cannot fail at this size."
    return f"“{line.name}” holds for every input: it cannot fail, so it is no evidence."


def _premises(result: Result) -> str:
    finding = result.deciding.finding
    unmet = sum(not hypothesis.met for hypothesis in finding.hypotheses)
    count = len(finding.hypotheses)
    if finding.smaller:
        return f"run in a smaller setting ({finding.smaller})"
    if finding.differs:
        return f"the setting differs from the paper's ({'; '.join(finding.differs)})"
    if not count:
        return f"the {'statement has' if result.origin.unconditional else 'check declares'} no hypotheses"
    if unmet:
        return f"{unmet} of {count} hypotheses {'was' if unmet == 1 else 'were'} not met"
    return "its hypothesis was met" if count == 1 else f"{_all(count)} hypotheses were met"


def _kept(finding: Finding) -> str:
    lines = [line for line in finding.conclusions if line.decides]
    trivial = sum(line.cannot_fail for line in lines)
    but = f", {trivial} of which cannot fail" if trivial else ""
    return f"{'its conclusion holds' if len(lines) == 1 else f'{_all(len(lines))} conclusions hold'}{but}"


def _all(count: int) -> str:
    return "both" if count == 2 else f"all {count}"


def missed(hypothesis: Hypothesis) -> str:
    """Return the factor by which a hypothesis is missed, or nothing if there is no such factor."""
    decades = hypothesis.missing_decades
    return f"missed by {power_of_ten(decades)}" if 0 < decades < float("inf") else ""


FILTERS = {
    "headline": headline,
    "reason": reason,
    "weight": lambda result: WEIGHTS[weight_of(result)][0],
}
"""Filters of the templates of both pages: the words for a result, and how a failed statement fails."""
