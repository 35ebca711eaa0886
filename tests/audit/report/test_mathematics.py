import pytest

from attangent.audit.report.mathematics import mathml


def test_a_formula_becomes_mathematics():
    html = mathml(r"\lambda_K \le \frac{1}{2} e^{\rho^2}")
    assert html.startswith('<math display="block">')
    assert "<mfrac>" in html
    assert "λ" in html
    assert "≤" in html


def test_enlarged_delimiters_are_drawn():
    assert mathml(r"\Big\langle x \Big\rangle") == mathml(r"\langle x \rangle")


def test_bold_letters_are_drawn():
    html = mathml(r"\mathbf{k} \sim \mathbf 1")
    assert "\U0001d424" in html
    assert "\U0001d7cf" in html
    assert "<mo>\u223c</mo>" in html


def test_bars_are_paired():
    html = mathml(r"2 |x|^2 \le |y| + E[a | b]")
    assert html.count('form="prefix"') == 0  # an odd number of bars says nothing
    html = mathml(r"2 |x|^2 \le |y|")
    assert html.count('<mo form="prefix" stretchy="false">|</mo>') == 2
    assert html.count('<mo form="postfix" stretchy="false">|</mo>') == 2


def test_names_of_functions_stand_off():
    html = mathml(r"d \log x + \exp(y)", "inline")
    assert html.startswith('<math display="inline">')
    assert '<mo form="prefix" lspace="0.167em" rspace="0.167em">log</mo>' in html
    assert '<mo form="prefix" lspace="0.167em" rspace="0">exp</mo>' in html


def test_signs_slashes_and_primes_are_set_as_in_tex():
    html = mathml(r"(-1) = -a/b - |c| - d'")
    assert html.count('<mo form="prefix">\u2212</mo>') == 2
    assert html.count("<mo>\u2212</mo>") == 2
    assert '<mo lspace="0" rspace="0">/</mo>' in html
    assert '<mrow><mi>d</mi><mo form="postfix" lspace="0" rspace="0">\u2032</mo></mrow>' in html


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
