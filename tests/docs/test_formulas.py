"""Every formula of every page can be drawn, and nothing else is taken for a formula."""

import re
from pathlib import Path

import pytest
from docs.tools.formulas import drawn, on_page_content

DOCS = Path(__file__).parents[2] / "docs"
CODE = re.compile(
    r"^( *)```.*?^\1```$|(?<![`$])`[^`\n]+`(?!`)|(?<=\n\n)(?: {4}[^\n]+\n)+", re.MULTILINE | re.DOTALL
)
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$`([^`\n]+)`\$|\$(?!\s)((?:\\.|[^$\\])+?)(?<!\s)\$(?!\d)", re.DOTALL)


def prose(page: Path) -> str:
    return CODE.sub("", page.read_text())


def formulas(text: str) -> list[str]:
    return ["".join(parts) for parts in FORMULA.findall(text)]


PAGES = [page for page in sorted(DOCS.rglob("*.md")) if formulas(prose(page))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_formulas_can_be_drawn(page):
    for formula in formulas(prose(page)):
        assert "<math" in drawn(formula, "inline")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_dollar_belongs_to_a_formula(page):
    prices = re.compile(r"\\?\$\d")
    assert "$" not in prices.sub("", FORMULA.sub("", prose(page)))


def test_the_repairs_are_written_in_mathematics():
    assert {f"repairs-p{paper}.md" for paper in range(1, 6)} <= {page.name for page in PAGES}


@pytest.mark.parametrize("formula", [r"\frac{", r"\unknown{x}", r"\begin{pmatrix} 1"])
def test_a_formula_that_cannot_be_drawn_stops_the_build(formula):
    with pytest.raises(ValueError, match="cannot be drawn"):
        on_page_content(f'<p><span class="arithmatex">\\({formula}\\)</span></p>')


@pytest.mark.parametrize(
    ("html", "start"),
    [
        (r'<div class="arithmatex">\[a &lt; b\]</div>', '<span class="formula"><math display="block">'),
        (r'<span class="arithmatex">\(a &lt; b\)</span>', '<math display="inline">'),
        ("$<code>a &lt; b</code>$", '<span class="formula"><math display="block">'),
    ],
)
def test_marked_formulas_become_mathml(html, start):
    result = on_page_content(html)
    assert result.startswith(start)
    assert "<mi>a</mi><mo>&lt;</mo><mi>b</mi>" in result


def test_a_comma_stays_with_its_formula():
    html = on_page_content(r'(<span class="arithmatex">\(a\)</span>), b')
    assert html.startswith('<span class="nowrap">(<math')
    assert html.endswith("</math>),</span> b")


@pytest.mark.parametrize("html", ["<p>from $5 to $6</p>", "<pre><code>echo $HOME $PATH</code></pre>"])
def test_prices_and_code_stay(html):
    assert on_page_content(html) == html


def test_formulas_are_told_from_prices_and_code():
    text = "from $5 to $6, `a$b$c`, $x$ and\n```sh\necho $A $B\n```\n$$\ny\n$$ and $`z`$"
    assert [formula.strip() for formula in formulas(CODE.sub("", text))] == ["x", "y", "z"]
