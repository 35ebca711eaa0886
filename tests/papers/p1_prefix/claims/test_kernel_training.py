import pytest

from attangent.audit import Verdict
from attangent.kernels import Tangent, predict_training
from attangent.papers.common.descent import steps_to
from attangent.papers.p1_prefix.claims import kernel_training
from tests.papers.harness import ClaimSuite, check, line


class TestClaims(ClaimSuite):
    found = {
        "P1/lemma-i.3": "measured",
        "P1/lemma-i.4": "violated",
        "P1/lemma-i.5": "measured",
        "P1/theorem-3.2": "violated",
    }
    broken = {
        "P1/lemma-i.5": {"C": 0.0, "sigma": 1e4, "steps": 3, "init": "symmetric"},
    }

    def examine(self, finding):
        assert finding.figures


@pytest.mark.parametrize(
    ("id", "sizes"), [("P1/theorem-3.2", {"m": 512, "lengths": [128, 512]}), ("P1/lemma-i.4", {})]
)
def test_they_hold_where_the_printed_kernel_is_the_exact_one(monkeypatch, id, sizes):
    monkeypatch.setattr(Tangent, "without_direct", lambda self: self)
    assert check(id, **sizes).verdict is Verdict.MEASURED


def test_residuals_that_do_not_fall_break_the_sum_of_lemma_i_3():
    assert check("P1/lemma-i.3", rate=5.0, steps=40, lengths=[16, 32, 64, 128]).verdict.failed


def test_our_exponent_does_not_decide_about_lemma_i_3(monkeypatch):
    monkeypatch.setattr(kernel_training, "_moved_in_units", lambda p, run: 1.0)
    finding = check("P1/lemma-i.3", steps=5, lengths=[16, 32, 64, 128])
    assert line(finding, "root mean square").kept is False
    assert finding.verdict is Verdict.MEASURED


@pytest.mark.parametrize(("seed", "init"), [(0, "independent"), (2, "symmetric")])
def test_the_constant_grows_like_the_inverse_square(seed, init):
    finding = check("P1/theorem-3.2", seed, init=init)
    assert line(finding, "over 1/rho").measured == pytest.approx(2, abs=0.45)
    trained = line(finding, "after T steps").measured
    assert trained > 10 * 0.01
    assert trained == pytest.approx(finding.numbers["|F(T) - Y|^2 with the frozen kernel"], rel=0.1)
    assert finding.numbers[
        "lambda of the exact / of the printed kernel, rho = 0.05, infinite m"
    ] == pytest.approx(1.5 * 0.05**2, rel=0.01)


def test_steps_to_is_the_first_step_below():
    prediction = predict_training([[0.5]], [[2.0]], 1.0)  # |F - Y|^2 = 4 / 4^t
    assert [steps_to(prediction, epsilon) for epsilon in (1.0, 0.99, 0.25)] == [1, 2, 2]
