"""LaTeX formulas as MathML, which browsers draw without any library and without a network."""

import re
import xml.etree.ElementTree as ElementTree
from string import ascii_lowercase, ascii_uppercase, digits

from markupsafe import Markup, escape

_SPACE = "{http://www.w3.org/1998/Math/MathML}"
_TAGS = """math mrow mi mn mo mtext mspace msub msup msubsup munder mover munderover mfrac msqrt mroot mtable
    mtr mtd mpadded mphantom menclose mstyle"""
_ATTRIBUTES = """display stretchy movablelimits mathvariant width height depth linethickness fence form lspace
    rspace columnalign accent accentunder displaystyle scriptlevel notation"""
_SCRIPTED = frozenset(_SPACE + tag for tag in ("msub", "msup", "msubsup", "munder", "mover", "munderover"))
_LETTERS = frozenset((_SPACE + "mi", _SPACE + "mo"))
_BARS = frozenset("|\u2016")
_SIGNS = frozenset("+\u2212\u00b1")
_BOLD = {ord(plain): 0x1D400 + index for index, plain in enumerate(ascii_uppercase + ascii_lowercase)}
_BOLD |= {ord(plain): 0x1D7CE + index for index, plain in enumerate(digits)}
_OPENING = frozenset("([{,=<>|\u2016\u2264\u2265\u2192\u2248\u2208")
_THIN = "0.167em"
_PLAIN_TAGS = frozenset(_TAGS.split())
_PLAIN_ATTRIBUTES = frozenset(_ATTRIBUTES.split())


def mathml(formula: str, display: str = "block") -> Markup:
    """Return a LaTeX formula as MathML, or as code if it cannot be read.

    Elements and attributes that are not plain mathematics, such as links, are left out.

    Args:
        formula: The formula, without dollar signs.
        display: "block" for a separate line, "inline" within a line of text.
    """
    from latex2mathml.converter import convert

    try:
        # latex2mathml cannot enlarge a named delimiter such as \Big\|
        root = ElementTree.fromstring(convert(re.sub(r"\\[Bb]igg?[lr]?(?=\\)", "", formula), display=display))
        _tidy(root)
    except Exception:  # the formula may be anything
        return Markup('<code class="formula">{}</code>').format(formula)
    return Markup(_html(root))


def _tidy(root: ElementTree.Element) -> None:
    """Mend the spaces and letters that latex2mathml leaves to browsers, which set them unlike TeX."""
    for row in root.iter():
        _lower_prime(row)
        cores = [_core(child) for child in row]
        _pair_bars(cores)
        _space_names(cores)
        _space_signs(cores)


def _core(element: ElementTree.Element) -> ElementTree.Element:
    """Return the base of an element with scripts, otherwise the element."""
    return element[0] if element.tag in _SCRIPTED else element


def _pair_bars(row: list[ElementTree.Element]) -> None:
    """Mark the bars of |x| as opening and closing; browsers set unmarked bars apart like a relation."""
    bars = [item for item in row if item.text in _BARS and "form" not in item.attrib]
    if len(bars) % 2 == 0:
        for index, bar in enumerate(bars):
            bar.set("form", "postfix" if index % 2 else "prefix")


def _space_names(row: list[ElementTree.Element]) -> None:
    """Set names of functions as TeX does: a thin space on both sides, none before a bracket."""
    for index, item in enumerate(row):
        if item.tag in _LETTERS and _is_name(item.text or ""):
            is_called = index + 1 < len(row) and row[index + 1].text in ("(", "[")
            item.tag = _SPACE + "mo"
            item.attrib |= {
                "form": "prefix",
                "lspace": _THIN if index else "0",
                "rspace": "0" if is_called else _THIN,
            }


def _space_signs(row: list[ElementTree.Element]) -> None:
    """Set slashes and transposes without spaces, signs next to their numbers, and bold letters."""
    before = "("
    for item in row:
        text = item.text or ""
        if text in ("/", "\u22a4"):
            item.attrib |= {"lspace": "0", "rspace": "0"}
        elif text in _SIGNS:
            item.tag = _SPACE + "mo"
            if before in _OPENING:
                item.set("form", "prefix")
        elif item.tag == _SPACE + "mi" and text == "~":
            item.tag = _SPACE + "mo"
            item.text = "\u223c"
        elif item.get("mathvariant") == "bold":
            item.text = text.translate(_BOLD)
        is_bar = text in _BARS and item.get("form") != "prefix"
        before = text if item.tag == _SPACE + "mo" and not is_bar else ")"


def _lower_prime(element: ElementTree.Element) -> None:
    """Put the prime of x' next to its letter: fonts draw it raised already."""
    if element.tag == _SPACE + "msup" and element[1].text == "\u2032":
        element.tag = _SPACE + "mrow"
        element[1].tag = _SPACE + "mo"
        element[1].attrib |= {"form": "postfix", "lspace": "0", "rspace": "0"}


def _is_name(text: str) -> bool:
    return len(text) > 1 and text.isalpha()


def _html(element: ElementTree.Element) -> str:
    tag = element.tag.removeprefix(_SPACE)
    inside = escape(element.text or "") + Markup("").join(Markup(_html(child)) for child in element)
    if tag not in _PLAIN_TAGS:
        return str(inside)
    attributes = "".join(
        f' {name}="{escape(value)}"' for name, value in sorted(element.items()) if name in _PLAIN_ATTRIBUTES
    )
    return f"<{tag}{attributes}>{inside}</{tag}>"
