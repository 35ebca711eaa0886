"""Numbers, times and short formulas as people read them."""

import math
import re

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
