"""Equation 2, Propositions 1, 2 and 5: identities of the model and of its training."""

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from attangent.audit import Conclusion, Failure, Finding, Hypothesis, Settings, claim
from attangent.papers.p3_two_stage.claims import proofs_of_steps
from attangent.papers.p3_two_stage.theory.attention import ReluAttention, ReluWeights
from attangent.papers.p3_two_stage.theory.data import TwoStageData, TwoStagePrompts
from attangent.papers.p3_two_stage.theory.training import ConstantRate, NoisySGD, stationary_noise, train

EXACT = 1e-12
_SMALL = {"d": 6, "L": 12, "N": 40, "p": 0.5, "std": 1.0}


@claim(
    "P3/linear-decomposition",
    nature="definition",
    plain="The output is the mean of the two virtual networks, as printed.",
    place="Section 3.2, Equation 2",
    quote="This structure exhibits a strong property of linear decomposability over the model output",
    title="The output is the mean of the two virtual networks",
    quick={**_SMALL, "off_diagonal": 0.0},
    full={"d": 32, "L": 129},
)
def linear_decomposition(settings: Settings, seed: int) -> Finding:
    """With U block diagonal, f = Y/(2L) relu(X'U x_L) of the doubled prompt is (h + g)/2. h sees only the
    easy parts through W, and g only the hard parts through V.
    """
    data, model, prompts = _drawn(settings, seed)
    U = torch.block_diag(model.weights.W[0], model.weights.V[0])
    U[: data.d, data.d :] = settings.off_diagonal
    gap = (_doubled_attention(U, prompts) - model.f(prompts)).abs().max().item()
    return Finding(
        hypotheses=(Hypothesis("largest entry of U off its blocks", "<=", 0.0, abs(settings.off_diagonal)),),
        conclusions=(Conclusion("largest |f - (h + g)/2|", "<=", EXACT, gap),),
    )


def _doubled_attention(U: Tensor, prompts: TwoStagePrompts) -> Tensor:
    """Evaluate Equation 1 on X = diag(X_1, X_2) (2d x 2L), the query (x_L1, x_L2) and the labels written
    twice.
    """
    n, L, d = prompts.x1.shape
    X = torch.zeros(n, 2 * d, 2 * L, dtype=torch.float64)
    X[:, :d, :L] = prompts.x1.mT
    X[:, d:, L:] = prompts.x2.mT
    query = torch.cat((prompts.x1[:, -1], prompts.x2[:, -1]), -1)
    labels = torch.cat((prompts.y[:, :-1], torch.zeros(n, 1, dtype=torch.float64)), -1).repeat(1, 2)
    return (labels * (X.mT @ U @ query[:, :, None])[..., 0].relu()).sum(-1) / (2 * L)


@claim(
    "P3/proposition-1",
    nature="lemma",
    plain="Signal and noise weights add up to the model's weights, in the printed closed form.",
    place="Appendix E, Proposition 1",
    quote="By signal-noise decomposition, we have the updating rules for signal weight and noise weight",
    title="Signal and noise weights in closed form",
    quick={**_SMALL, "rate": 3.0, "second_rate": 3.0, "steps": 40, "weight_decay": 0.01},
    full={"d": 16, "L": 65, "steps": 400},
)
def signal_and_noise(settings: Settings, seed: int) -> Finding:
    """At a constant rate the signal weights are minus the sum of all gradients, each multiplied by 1 - eta
    lambda per later step. The noise weights are the start minus the sum of all noise, multiplied likewise.
    The model's weights are their sum.
    """
    run = _WatchedRun(settings, seed)
    gaps = [run.gap_to_sums(constant=True), run.gap_to_sums(constant=False)]
    each_step = "largest distance to the sums with the rate of each step"
    return Finding(
        hypotheses=(
            Hypothesis("second rate / first rate", "==", 1.0, settings.second_rate / settings.rate),
            Hypothesis("eta lambda", "<=", 1.0, settings.rate * settings.weight_decay),
        ),
        conclusions=(
            Conclusion("largest distance to the printed sums, constant rate", "<=", 1e-10, gaps[0]),
            Conclusion("largest |U - signal - noise|", "<=", EXACT, run.gap_to_whole()),
            Conclusion(each_step, "<=", 1e-10, gaps[1], claimed=False),
        ),
    )


class _WatchedRun:
    """A run of two halves that records every gradient and every noise."""

    def __init__(self, settings: Settings, seed: int):
        _, self.model, prompts = _drawn(settings, seed)
        self.begin = self.model.weights
        self.decay = settings.weight_decay
        self.rates: list[float] = []
        self.gradients: list[ReluWeights] = []
        self.noises: list[ReluWeights] = []
        half = settings.steps // 2
        stages = (
            ConstantRate(settings.rate, half),
            ConstantRate(settings.second_rate, settings.steps - half),
        )
        config = NoisySGD(stages, settings.weight_decay, settings.std)
        self.course = train(self.model, prompts, config, seed=seed, observer=self._keep)

    def _keep(self, step: int, rate: float, gradient: ReluWeights, xi: ReluWeights) -> None:
        self.rates.append(rate)
        self.gradients.append(gradient)
        self.noises.append(xi)

    def gap_to_sums(self, constant: bool) -> float:
        """Return the distance of the recursion to the printed sums, with one rate or with one per step."""
        steps = len(self.rates) - 1
        rates = torch.tensor([self.rates[0]] * steps if constant else self.rates[:steps], dtype=torch.float64)
        shrink = 1 - rates * self.decay
        after = torch.cat((shrink.flip(0).cumprod(0).flip(0)[1:], shrink.new_ones(1)))  # prod of later steps
        end = self.course.ends[-1]
        gap = 0.0
        for i in (0, 1):
            drift, shocks = (
                torch.einsum("t,t...->...", rates * after, torch.stack([term[i] for term in parts[:steps]]))
                for parts in (self.gradients, self.noises)
            )
            noise = shrink.prod() * self.begin[i] - shocks
            gap = max(gap, _gap(end.signal[i], -drift), _gap(end.noise[i], noise))
        return gap

    def gap_to_whole(self) -> float:
        """Return the distance of signal + noise to the weights of Eq. 4 stepped without a split."""
        weights = self.begin
        for rate, gradient, xi in zip(self.rates[:-1], self.gradients, self.noises, strict=False):
            shrink = 1 - rate * self.decay
            W, V = (shrink * weights[i] - rate * (gradient[i] + xi[i]) for i in (0, 1))
            weights = ReluWeights(W, V, weights.bias)
        end = self.course.ends[-1].weights
        return max(_gap(end[i], weights[i]) for i in (0, 1))


@claim(
    "P3/proposition-2",
    nature="lemma",
    plain="""The gradients lack the labels y_i y_L, which the line before the last has. The proof of
        Theorem 1 (Appendix F.1) and Corollary 1 use them without labels.""",
    failure=Failure(
        cause="P3/proposition-2",
        consequence="the proof of Theorem 1 (Appendix F.1) and Corollary 1 use the gradient without labels",
        first_size="one context token with label -1",
        root="the labels are lost between two lines",
    ),
    proof=proofs_of_steps.gradient_labels,
    place="Appendix E, Proposition 2",
    title="The gradients as printed",
    quote="then we have the derivative over weight U of empirical loss",
    quick=dict(_SMALL),
    full={"d": 16, "L": 65},
)
def gradients(settings: Settings, seed: int) -> Finding:
    """The gradient of the loss over V is the mean of l'/(2L) X_2 1(X_2'V x_L) x_L', likewise over W. l' is
    the derivative in y_L f (Appendix E) or in f (Appendix H).
    """
    _, model, prompts = _drawn(settings, seed)
    wanted = autograd_gradient(model, prompts)
    readings = {
        "l' in y_L f": printed_gradient(model, prompts, torch.ones_like(prompts.answers)),
        "l' in f": printed_gradient(model, prompts, prompts.answers),
    }
    return Finding(
        conclusions=tuple(
            line
            for reading, printed in readings.items()
            for line in _gradient_lines(f", {reading}", printed, wanted)
        ),
        remark="The paper drops the labels y_i y_L between its last two lines. The result is right only for "
        "prompts whose labels are all +1, or all equal if l' is the derivative in y_L f.",
    )


def _gradient_lines(reading: str, closed_form: ReluWeights, wanted: ReluWeights) -> list[Conclusion]:
    return [
        Conclusion(f"gradient of {name}{reading}: relative error", "<=", EXACT, relative(ours, true))
        for name, ours, true in zip("WV", closed_form, wanted, strict=False)
    ]


def printed_gradient(model: ReluAttention, prompts: TwoStagePrompts, signs: Tensor) -> ReluWeights:
    """mean l'/(2L) sum_i 1(x_i'U x_L) x_i x_L' with l' = -sigmoid(-y_L f), times y_L as derivative in f."""
    count = 2 * prompts.L * len(prompts.answers)
    slope = -signs * torch.sigmoid(-prompts.answers * model.f(prompts)) / count

    def over(x: Tensor, U: Tensor) -> Tensor:
        query = x[:, -1]
        active = (torch.einsum("nld,de,ne->nl", x[:, :-1], U[0], query) > 0).double()
        return torch.einsum("n,nl,nld,ne->de", slope, active, x[:, :-1], query)[None]

    W, V, bias = model.weights
    return ReluWeights(over(prompts.x1, W), over(prompts.x2, V), torch.zeros_like(bias))


@claim(
    "P3/proposition-2-repaired",
    nature="lemma",
    plain="With the labels the printed gradient is that of autograd.",
    sharp="sharp: an identity",
    title="The gradients with their labels",
    derivation="""The penultimate line of the paper's proof is right: y_L comes from the derivative of y_L
        f, and y_i from that of the i-th term of f. X diag(1(.)) x_L' in the last line needs the labels: X
        diag(y) 1(.) x_L'.""",
    quick=dict(_SMALL),
    sizes=({"d": 6, "L": 12}, {"d": 12, "L": 33}),
)
def gradients_with_labels(settings: Settings, seed: int) -> Finding:
    """The gradient of the loss over V is the mean of -sigmoid(-y_L f) y_L/(2L) sum_i y_i 1(x_i'V x_L) x_i
    x_L', likewise over W.
    """
    _, model, prompts = _drawn(settings, seed)
    lines = _gradient_lines("", model.gradient(prompts), autograd_gradient(model, prompts))
    return Finding(conclusions=tuple(lines))


def autograd_gradient(model: ReluAttention, prompts: TwoStagePrompts) -> ReluWeights:
    weights = model.weights.map(lambda part: part.clone().requires_grad_())
    loss = softplus(-prompts.answers * model.f(prompts, weights)).mean()
    W, V = torch.autograd.grad(loss, weights[:2])
    return ReluWeights(W, V, weights.bias)


@claim(
    "P3/proposition-5",
    nature="lemma",
    plain="""The noise weights keep their size in stage 1, and stage 2 adds at most the printed bound on
        the variance.""",
    place="Appendix E, Proposition 5 (and the technical assumption in Lemma 7's proof)",
    quote="with a technical assumption that tau_xi^2 = (tau_0^2 - (1 - eta_1 lambda)^2 tau_0^2) / eta_1^2",
    title="The noise weights over time",
    quick={
        "d": 40, "std": 0.5, "rate": 10.0, "second_rate": 0.5, "weight_decay": 0.01, "first_steps": 30,
        "second_steps": 200, "noise_factor": 1.0,
    },
    full={"d": 200, "first_steps": 300, "second_steps": 3000},
)  # fmt: skip
def noise_over_time(settings: Settings, seed: int) -> Finding:
    """From step s to t the noise weights shrink by (1 - eta lambda)^(t-s) and gain fresh Gaussian noise.

    With tau_xi^2 = tau_0^2 (1 - (1 - eta_1 lambda)^2) / eta_1^2 their standard deviation stays tau_0, and a
    second stage adds a variance of at most 2 tau_0^2 eta_2 / eta_1.
    """
    s = settings
    data = TwoStageData(s.d, 2)
    model = ReluAttention(s.d, std=s.std, seed=seed)
    stages = (ConstantRate(s.rate, s.first_steps), ConstantRate(s.second_rate, s.second_steps))
    noise = s.noise_factor * stationary_noise(s.std, s.rate, s.weight_decay)
    config = NoisySGD(stages, s.weight_decay, s.std, noise_std=noise, record_every=10**9)
    first, last = (moment.noise.W for moment in train(model, data.sample(1), config, seed=seed).ends)
    added = last - (1 - s.second_rate * s.weight_decay) ** s.second_steps * first
    variance = added.var().item()
    tolerance = 1 + 5 / math.sqrt(2) / s.d  # five standard errors of a standard deviation of d^2 entries
    deviation = first.std().item() / s.std
    of_first = "standard deviation of noise at t_1 / tau_0"
    of_added = "variance added in stage 2"
    bound = 2 * s.std**2 * s.second_rate / s.rate
    return Finding(
        hypotheses=(Hypothesis("eta_1 lambda", "<=", 1.0, s.rate * s.weight_decay),),
        conclusions=(
            Conclusion(of_first, "<=", tolerance, deviation),
            Conclusion(of_first, ">=", 1 / tolerance, deviation),
            Conclusion(f"{of_added} / exact value", "<=", tolerance**2, variance / _added_variance(s)),
            Conclusion(f"{of_added} / (2 tau_0^2 eta_2 / eta_1)", "<=", tolerance**2, variance / bound),
        ),
    )


def _added_variance(s: Settings) -> float:
    """eta_2^2 tau_xi^2 (1 - k^(2 t_2)) / (1 - k^2) with k = 1 - eta_2 lambda."""
    shrink = 1 - s.second_rate * s.weight_decay
    xi = stationary_noise(s.std, s.rate, s.weight_decay)
    return (s.second_rate * xi) ** 2 * (1 - shrink ** (2 * s.second_steps)) / (1 - shrink**2)


def _drawn(settings: Settings, seed: int) -> tuple[TwoStageData, ReluAttention, TwoStagePrompts]:
    data = TwoStageData(settings.d, settings.L, p=settings.p, seed=seed)
    model = ReluAttention(settings.d, std=settings.std, seed=seed)
    return data, model, data.sample(settings.N, seed=seed)


def _gap(a: Tensor, b: Tensor) -> float:
    return (a - b).abs().max().item()


def relative(a: Tensor, b: Tensor) -> float:
    """Return |a - b| / |b|, or |a| if b is 0: a V that sees no token has no gradient."""
    size = b.norm().item()
    return (a - b).norm().item() / (size or 1.0)
