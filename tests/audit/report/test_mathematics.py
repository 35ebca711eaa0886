import pytest

from attangent.audit.report.mathematics import mathml


def test_a_formula_becomes_mathematics():
    html = mathml(r"\lambda_K \le \frac{1}{2} e^{\rho^2}")
    assert html.startswith('<math display="block">')
    assert "<mfrac>" in html
    assert "λ" in html
    assert "≤" in html


@pytest.mark.parametrize("formula", [r"\frac{", r"\begin{pmatrix} 1"])
def test_a_formula_that_cannot_be_read_is_shown_as_it_is(formula):
    assert mathml(formula) == f'<code class="formula">{formula}</code>'


@pytest.mark.parametrize(
    "formula",
    [
        r"\href{javascript:alert(1)}{x}",
        "<script>alert(1)</script>",
        r"\text{<img src=x onerror=alert(1)>}",
        r"\style{background:url(https://a.b)}{x}",
        r"\class{a' onclick='alert(1)}{x}",
    ],
)
def test_a_hostile_formula_does_nothing(formula):
    html = mathml(formula)
    assert "<script" not in html
    assert "<img" not in html
    for attribute in ("href=", "onclick=", "style=", "class=", "src="):
        assert attribute not in html.replace("&lt;img src=x", "").replace('<code class="formula">', "")
