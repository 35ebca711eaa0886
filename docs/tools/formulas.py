r"""Draw the formulas of the site as MathML, which browsers show without scripts (a hook of mkdocs).

Pages write $...$ inside a line and $$...$$ for a display, which `pymdownx.arithmatex` marks. The pages of the
audit write GitHub's $`...`$, which is displayed.
"""

import re
from html import unescape

from attangent.audit.report.mathematics import mathml

_MARKED = re.compile(
    r'<div class="arithmatex">\\\[(?P<block>.*?)\\\]</div>'
    r'|(?P<before>[("]?)<span class="arithmatex">\\\((?P<inline>.*?)\\\)</span>(?P<after>[.,;:)"]*)'
    r"|\$<code>(?P<quoted>[^<]*)</code>\$",
    re.DOTALL,
)


def drawn(formula: str, display: str) -> str:
    """Return a formula as MathML.

    Raises:
        ValueError: If latex2mathml cannot read the formula or leaves a command in it.
    """
    html = mathml(formula, display)
    if not html.startswith("<math") or "\\" in html:
        raise ValueError(f"this formula cannot be drawn: {formula}")
    return html


def on_page_content(html: str, **_: object) -> str:
    """Replace the marked formulas of a rendered page (called by mkdocs)."""
    return _MARKED.sub(_replacement, html)


def _replacement(match: re.Match[str]) -> str:
    if match["inline"] is None:
        html = drawn(unescape(match["block"] or match["quoted"]).strip(), "block")
        return f'<span class="formula">{html}</span>'
    html = drawn(unescape(match["inline"]), "inline")
    if match["before"] or match["after"]:
        # browsers may break a line between a formula and its bracket or comma
        return f'<span class="nowrap">{match["before"]}{html}{match["after"]}</span>'
    return html
