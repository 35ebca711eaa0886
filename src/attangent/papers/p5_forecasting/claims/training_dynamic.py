"""Appendix G: one step of descent split into terms, with the sign that Equation (17) has wrong."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit import Conclusion, Failure, Finding, Hypothesis, Settings, claim
from attangent.papers.p5_forecasting.claims import proofs, proofs_of_slips
from attangent.papers.p5_forecasting.claims.scalar_regression import (
    CONSTANT,
    ScalarRegression,
    scalar_regression,
    sizes_of_data_and_weights,
)
from attangent.papers.p5_forecasting.theory.attention_model import ScalarAttention

STEP = {"n": 2, "d": 8, "m": 64, "noise": 0.01, "delta": 0.05, "rates": [0.1, 0.03, 0.01, 0.003]}


@dataclass(frozen=True)
class WeightStep:
    """One step of descent at a rate: attention (n, m, d) before and after, beta of Eq. (15), the losses'
    fall.

    `term(sign)` is C_1 with <S, x^2> + sign <S, x>^2.
    """

    p: ScalarRegression
    rate: float
    before: Tensor
    after: Tensor
    beta: Tensor
    fall: float

    @classmethod
    def of(cls, p: ScalarRegression, rate: float) -> "WeightStep":
        gradient = p.network.gradient(p.X, p.y)
        stepped = p.network.with_weights(p.network.W - rate * gradient)
        moved = p.X[:, None, :] * p.X[:, -1:, None] * rate * gradient[0][None, :, None]
        losses = [(network.forward(p.X) - p.y).square().sum().item() / 2 for network in (p.network, stepped)]
        before = p.network.attention(p.X)
        after = stepped.attention(p.X)
        return cls(p, rate, before, after, -torch.expm1(-moved), losses[1] - losses[0])

    def change(self, sign: float) -> Tensor:
        """S(t) * beta + sign <S(t), beta> S(t+1)."""
        inner = (self.before * self.beta).sum(dim=2, keepdim=True)
        return self.before * self.beta + sign * inner * self.after

    def gap(self, sign: float) -> float:
        """The relative distance of that to S(t) - S(t+1)."""
        true = self.before - self.after
        return ((self.change(sign) - true).norm() / true.norm()).item()

    def term(self, sign: float) -> float:
        """-eta m^(-1/2) sum_i (F_i - y_i) sum_r a_r x_id dw_r (<S, x^2> + sign <S, x>^2)."""
        p = self.p
        x = self.p.X[:, None, :]
        spread = (self.before * x**2).sum(dim=2) + sign * (self.before * x).sum(dim=2).square()
        pulls = p.network.a[0] * p.X[:, -1:] * p.network.gradient(p.X, p.y)[0] * spread
        residual = p.network.forward(p.X)[:, 0] - p.y[:, 0]
        return -self.rate / math.sqrt(p.network.m) * (residual * pulls.sum(dim=1)).sum().item()


@claim(
    "P5/equation-17",
    nature="proof step",
    plain="""A sign is lost in the change of attention over a step. Lemmas G.1 and G.2 inherit it; Lemma
        H.1 holds once it is corrected.""",
    failure=Failure(
        cause="P5/equation-17",
        consequence="Lemmas G.1 and G.2 inherit the sign; Lemma H.1 holds once it is corrected",
        first_size="d = 2",
        root="a minus is lost in a difference of reciprocals",
    ),
    proof=proofs.equation_17,
    place="Appendix G.1, Equation (17)",
    title="How attention changes in a step",
    quote="S_{i,r}(t) - S_{i,r}(t+1) = S_{i,r}(t) o beta_{i,r}(t) + <S_{i,r}(t), beta_{i,r}(t)> S_{i,r}(t+1)",
    quick=STEP,
    full={"n": 16, "m": 1024},
)
def attention_changes(settings: Settings, seed: int) -> Finding:
    """S(t) - S(t+1) = S(t) * beta(t) + <S(t), beta(t)> S(t+1), with beta = 1 - exp(-x_d eta dw x)."""
    step = WeightStep.of(scalar_regression(settings, seed), settings.rates[-1])
    return Finding(
        conclusions=(
            Conclusion("relative gap of the printed change to the true one", "<=", 1e-9, step.gap(1.0)),
        ),
        remark="1/alpha(t) - 1/alpha(t+1) = -(alpha(t) - alpha(t+1)) / (alpha(t) alpha(t+1)): the third line"
        " of (17) drops the minus.",
    )


@claim(
    "P5/equation-17-repaired",
    plain="With the minus the identity is exact.",
    sharp="sharp: an identity",
    title="How attention changes in a step",
    derivation="""With u(t) - u(t+1) = u(t) * beta and alpha(t) - alpha(t+1) = <u(t), beta>, S(t) - S(t+1) =
        (u(t) - u(t+1))/alpha(t) + (1/alpha(t) - 1/alpha(t+1)) u(t+1), and the second term is -(alpha(t) -
        alpha(t+1))/alpha(t) S(t+1) = -<S(t), beta> S(t+1).""",
    quick=STEP,
    sizes=({"m": 64}, {"m": 256}),
)
def attention_changes_with_the_minus(settings: Settings, seed: int) -> Finding:
    """S(t) - S(t+1) = S(t) * beta(t) - <S(t), beta(t)> S(t+1)."""
    p = scalar_regression(settings, seed)
    gap = max(WeightStep.of(p, rate).gap(-1.0) for rate in settings.rates)
    return Finding(conclusions=(Conclusion("relative gap of the change to the true one", "<=", 1e-8, gap),))


@claim(
    "P5/lemma-g.1",
    plain="""The leading term of a step inherits the sign of Equation (17), and with it Lemma G.2 falls as
        printed: the term can be positive. With the minus both are right.""",
    failure=Failure(
        cause="P5/equation-17",
        consequence="Lemma G.2 falls as printed; with the variance in C_1 it holds, and Lemma H.1 stands",
        first_size="d = 2",
    ),
    proof=proofs.lemma_g_1,
    place="Appendix G, Lemmas G.1 and G.2",
    title="The loss after a step, and its leading term",
    quote="Then, we can obtain the following: L(t+1) = L(t) + C_1 + C_2 + C_3 + C_4 + C_5",
    quick=STEP,
    full={"m": 1024},
    rests_on=("P5/equation-17", "P5/lemma-5.1"),
)
def loss_after_a_step(settings: Settings, seed: int) -> Finding:
    """L(t+1) - L(t) = C_1 + ... + C_5, where C_1 with <S, x^2> + <S, x>^2 is the term of first order in eta
    and the others are of second order (G.1), and C_1 <= -eta lambda L(t) (G.2).
    """
    p = scalar_regression(settings, seed)
    steps = [WeightStep.of(p, rate) for rate in settings.rates]
    loss = (p.network.forward(p.X) - p.y).square().sum().item() / 2
    least = min(step.term(1.0) / (-step.rate * p.lambda_min * loss) for step in steps)
    on_two = _progress_on_two_windows(settings, seed)
    two_windows = "G.2: C_1 / (-eta lambda L), windows (1, 2) and (0, 1), residuals (1, -3)"
    return Finding(
        hypotheses=(
            Hypothesis("lambda_min of H* above round-off", ">=", 1e-13 * p.lambda_max, p.lambda_min),
        ),
        conclusions=(
            _second_order(steps, 1.0, part="G.1"),
            Conclusion("G.2: least C_1 / (-eta lambda L)", ">=", 1.0, least, part="G.2"),
            Conclusion(two_windows, ">=", 1.0, on_two, part="G.2"),
        ),
        numbers={f"(L(t+1) - L(t)) / eta at eta = {step.rate:g}": step.fall / step.rate for step in steps}
        | {"C_1 / eta": steps[0].term(1.0) / steps[0].rate},
        remark="C_1 inherits the sign of Equation (17): <S, x^2> + <S, x>^2 where the gradient has the "
        "difference. G.2 then equates it with the kernel's quadratic form, which has the difference "
        "too. With the sum the form is not even positive.",
    )


def _second_order(steps: list[WeightStep], sign: float, part: str = "") -> Conclusion:
    """Return the line that the fall of the loss less `term(sign)` is of second order in the rate."""
    name = f"{part and part + ': '}growth exponent in eta of |L(t+1) - L(t) - C_1|"
    rates = [step.rate for step in steps]
    rest = [abs(step.fall - step.term(sign)) for step in steps]
    return Conclusion.of_trend(name, ">=", 2.0, rates, rest, part=part)


def _progress_on_two_windows(settings: Settings, seed: int) -> float:
    """C_1 / (-eta lambda L) on the windows of the proof, negative for every draw of the weights."""
    network = ScalarAttention(2, settings.m, 1.0, "symmetric", seed)
    X = torch.tensor([[1.0, 2.0], [0.0, 1.0]], dtype=torch.float64)
    residual = torch.tensor([[1.0], [-3.0]], dtype=torch.float64)
    p = ScalarRegression.of(X, network.forward(X) - residual, network)
    loss = residual.square().sum().item() / 2
    return WeightStep.of(p, 1.0).term(1.0) / (-p.lambda_min * loss)


@claim(
    "P5/lemma-g.1-repaired",
    plain="The leading term is -eta (F-y)'H(F-y), which is at most -2 eta lambda_min L: Lemma G.2.",
    sharp="sharp: an identity up to eta^2",
    title="The leading term of a step",
    derivation="""The term of first order in eta is -eta |grad L|^2 = -eta (F - y)'J J'(F - y), and by Lemma
        E.5 J J' is the kernel H of Definition F.2, whose entries have the difference; <S, beta> enters Eq.
        (17) with a minus. The quadratic form is at least lambda_min |F - y|^2 = 2 lambda_min L.""",
    quick=STEP,
    sizes=({"m": 64}, {"m": 256}),
)
def leading_term(settings: Settings, seed: int) -> Finding:
    """L(t+1) - L(t) = C_1 + O(eta^2) with C_1 = -eta (F - y)'H(t)(F - y), <S, x^2> - <S, x>^2 in place of the
    sum; and C_1 <= -eta lambda_min(H(t)) 2 L(t).
    """
    p = scalar_regression(settings, seed)
    steps = [WeightStep.of(p, rate) for rate in settings.rates]
    residual = p.network.forward(p.X) - p.y
    form = (residual.T @ p.kernel @ residual).item()
    distance = abs(steps[0].term(-1.0) / (-steps[0].rate * form) - 1)
    ratio = form / (p.lambda_min * residual.square().sum().item())
    return Finding(
        conclusions=(
            _second_order(steps, -1.0),
            Conclusion("relative distance of C_1 to -eta (F - y)'H(F - y)", "<=", 1e-9, distance),
            Conclusion("(F - y)'H(F - y) / (2 lambda_min L)", ">=", 1.0, ratio),
        )
    )


@claim(
    "P5/lemma-h.2",
    nature="proof step",
    plain="The step (a-b)^2 <= a^2 + b^2 is false; Part 2 itself holds, by L(t) <= L(0).",
    failure=Failure(
        cause="P5/lemma-h.2",
        consequence="a constant changes: a factor 2 that O(.) absorbs",
        first_size="two numbers of opposite signs",
        root="the cross term is dropped",
    ),
    proof=proofs.lemma_h_2,
    place="Appendix H.1, Lemma H.2, Part 2",
    title="The loss in training against the move of the outputs",
    quote="L(t) <= exp(O(B^2 D)) O(nR^2) + O(nB^2)",
    quick={
        "n": 8, "d": 8, "m": 256, "noise": 0.01, "delta": 0.05, "rate": 1.0, "steps": 60, "pairs": 200,
        "factor": 1.0,
    },
    full={"n": 16, "m": 512, "steps": 300},
    rests_on=("P5/lemma-i.5",),
)  # fmt: skip
def loss_against_outputs(settings: Settings, seed: int) -> Finding:
    """(a - b)^2 <= a^2 + b^2 for all numbers, the step of the proof; and along training L(t) = O(n B^2),
    which Part 2 says.
    """
    p = scalar_regression(settings, seed)
    run = p.network.descend(p.X, p.y, p.rate(settings.rate), settings.steps)
    B, _ = sizes_of_data_and_weights(settings)
    a, b = torch.randn(2, settings.pairs, generator=generator(seed, "pairs"), dtype=torch.float64)
    worst = ((a - b).square() / (settings.factor * (a**2 + b**2))).max().item()
    largest_loss = run.loss.max().item() / (settings.n * B**2)
    return Finding(
        conclusions=(
            Conclusion("largest (a - b)^2 / (a^2 + b^2)", "<=", 1.0, worst, part="step"),
            Conclusion("largest L(t) / (n B^2)", "<=", CONSTANT, largest_loss, part="Part 2"),
        ),
        numbers={"largest L(t) / L(0)": (run.loss.max() / run.loss[0]).item()},
        remark="(a - b)^2 <= a^2 + b^2 fails for numbers of opposite signs; with a factor 2, which O(.) "
        "absorbs, it is right. Part 2 follows from L(t) <= L(0), by induction.",
    )


@claim(
    "P5/equation-20",
    nature="proof step",
    plain="|x|_1 <= sqrt(d) |x|_2 is used for vectors of n entries, where sqrt(n) belongs.",
    failure=Failure(
        cause="P5/equation-20",
        consequence="powers of n and d in the required width change",
        first_size="n = d + 1",
        root="d is taken for n",
    ),
    proof=proofs.norms_over_points,
    place="Appendix G, Equations (20), (23) and (29)",
    title="The 1-norm of the residuals",
    quote="the fourth step leverages the inequality ||x||_1 <= sqrt(d) ||x||_2",
    quick={"n": 64, "d": 8, "m": 16, "noise": 0.01},
    rests_on=("P5/lemma-g.1",),
)
def residual_norms(settings: Settings, seed: int) -> Finding:
    """|F(t) - y|_1 <= sqrt(d) |F(t) - y|_2 for n points of length d."""
    p = scalar_regression(settings, seed)
    residual = (p.network.forward(p.X) - p.y).flatten()
    ratio = (residual.abs().sum() / residual.norm()).item() / math.sqrt(settings.d)
    return Finding(
        conclusions=(Conclusion("|F - y|_1 / (sqrt(d) |F - y|_2)", "<=", 1.0, ratio),),
        remark="The residuals have n entries, so the factor is sqrt(n). Powers of n and d in the width "
        "change, no more.",
    )


@claim(
    "P5/lemma-h.1-sum",
    nature="misprint",
    plain="One eighth is printed for the four eighths of C_2 to C_5; with four the result is as printed.",
    failure=Failure(
        cause="P5/lemma-h.1-sum",
        consequence="used nowhere: four terms of an eighth give the printed factor",
        first_size="every step",
        root="a factor 4 is left out",
    ),
    proof=proofs_of_slips.lemma_h_1_sum,
    place="Appendix H.1, proof of Lemma H.1, Part 1",
    title="The terms of one step add up",
    quote="L(t+1) <= L(t) - eta lambda L(t) + (1/8) eta lambda L(t) = (1 - eta lambda/2) L(t)",
    quick={"x": 0.1, "terms": 1},
    seeds=1,
    rests_on=("P5/lemma-g.1",),
)
def terms_of_a_step(settings: Settings, seed: int) -> Finding:
    """1 - x + x/8 = 1 - x/2 with x = eta lambda."""
    left = 1 - settings.x + settings.terms * settings.x / 8
    return Finding(
        conclusions=(Conclusion("|left side - right side|", "<=", 1e-12, abs(left - 1 + settings.x / 2)),)
    )
