"""LaTeX formulas as MathML, which browsers draw without any library and without a network."""

import xml.etree.ElementTree as ElementTree

from markupsafe import Markup, escape

_SPACE = "{http://www.w3.org/1998/Math/MathML}"
_TAGS = """math mrow mi mn mo mtext mspace msub msup msubsup munder mover munderover mfrac msqrt mroot mtable
    mtr mtd mpadded mphantom menclose mstyle"""
_ATTRIBUTES = """display stretchy movablelimits mathvariant width height depth linethickness fence form lspace
    rspace columnalign accent accentunder displaystyle scriptlevel notation"""
_PLAIN_TAGS = frozenset(_TAGS.split())
_PLAIN_ATTRIBUTES = frozenset(_ATTRIBUTES.split())


def mathml(formula: str) -> Markup:
    """Return a LaTeX formula as MathML, or as code if it cannot be read.

    Elements and attributes that are not plain mathematics, such as links, are left out.
    """
    from latex2mathml.converter import convert

    try:
        root = ElementTree.fromstring(convert(formula, display="block"))
    except Exception:  # the formula may be anything
        return Markup('<code class="formula">{}</code>').format(formula)
    return Markup(_html(root))


def _html(element: ElementTree.Element) -> str:
    tag = element.tag.removeprefix(_SPACE)
    inside = escape(element.text or "") + Markup("").join(Markup(_html(child)) for child in element)
    if tag not in _PLAIN_TAGS:
        return str(inside)
    attributes = "".join(
        f' {name}="{escape(value)}"' for name, value in sorted(element.items()) if name in _PLAIN_ATTRIBUTES
    )
    return f"<{tag}{attributes}>{inside}</{tag}>"
