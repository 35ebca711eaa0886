"""The regression problem that the claims of P2 share; Appendix F: the kernel predictor of Eq. (25)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit import Conclusion, Failure, Figure, Finding, Hypothesis, Series, Settings, claim
from attangent.kernels import SoftmaxNetwork, Trajectory, log_gap, unit_data, vectorise
from attangent.papers.common.bounds import LOG10_E, comparison, log10
from attangent.papers.common.figures import plot
from attangent.papers.p2_softmax import proofs


@dataclass(frozen=True)
class Constants:
    """The constants of Definition 4.1 and Theorem 4.2, with C at its infimum 10 and Omega(1) read as 1.

    Those that overflow are decimal logarithms.

    Attributes:
        B: Bound on |<w_r, x_i>|.
        log10_width: The required number of neurons.
        log10_rate: The learning rate.
        log10_steps: The number of steps.
        log10_radius: R = lambda / (2 n d e^(10 B)).
        log10_movement: D = 4 e^(3 B) sqrt(n d) |F(0) - Y| / (m lambda).
    """

    B: float
    log10_width: float
    log10_rate: float
    log10_steps: float
    log10_radius: float
    log10_movement: float


@dataclass(frozen=True)
class SoftmaxRegression:
    """Data, an untrained network, its kernel H* and the ends of its spectrum."""

    X: Tensor
    Y: Tensor
    network: SoftmaxNetwork
    kernel: Tensor
    lambda_min: float
    lambda_max: float

    @classmethod
    def draw(cls, settings: Settings, seed: int) -> "SoftmaxRegression":
        """Draw the problem of these settings: n, d, d_out, m, sigma, and optionally init and x_norm."""
        X, Y = unit_data(settings.n, settings.d, settings.d_out, seed)
        X = X * settings.get("x_norm", 1.0)
        init = settings.get("init", "symmetric")
        network = SoftmaxNetwork(settings.d, settings.d_out, settings.m, settings.sigma, init, seed)
        kernel = network.kernel(X)
        spectrum = torch.linalg.eigvalsh(kernel)
        return cls(X, Y, network, kernel, spectrum[0].item(), spectrum[-1].item())

    @property
    def size(self) -> int:
        """n d, the number of outputs over all points."""
        return self.Y.numel()

    @property
    def residual(self) -> Tensor:
        """F(0) - Y."""
        return self.network.forward(self.X) - self.Y

    def rate(self, factor: float) -> float:
        """Return the rate factor / (m lambda_max); the linearised descent is stable up to factor 2."""
        return factor / (self.network.m * self.lambda_max)

    def train(self, settings: Settings, **record: object) -> Trajectory:
        return self.network.descend(self.X, self.Y, self.rate(settings.rate), settings.steps, **record)

    def constants(self, settings: Settings) -> Constants:
        nd = self.size
        m = settings.m
        log_nd = math.log(nd / settings.delta)
        B = max(settings.get("C", 10.0) * settings.sigma * math.sqrt(log_nd), 1.0)
        start = self.residual.norm().item()
        log_lam = log10(self.lambda_min)
        log10_exp_B = B * LOG10_E
        steps = -2 * log_lam + 2 * math.log10(nd) + 16 * log10_exp_B
        return Constants(
            B=B,
            log10_width=-2 * log_lam + 2 * math.log10(nd) + 18 * log10_exp_B + 2 * math.log10(log_nd),
            log10_rate=-1 + log_lam - math.log10(m) - 2 * math.log10(nd) - 16 * log10_exp_B,
            log10_steps=steps + math.log10(math.log(nd / settings.get("epsilon", 0.01))),
            log10_radius=log_lam - math.log10(2 * nd) - 10 * log10_exp_B,
            log10_movement=math.log10(4) + 3 * log10_exp_B + math.log10(math.sqrt(nd) * start / m) - log_lam,
        )

    @property
    def is_definite(self) -> Hypothesis:
        return Hypothesis("lambda_min of H* above round-off", ">=", 1e-12 * self.lambda_max, self.lambda_min)

    @property
    def in_unit_ball(self) -> tuple[Hypothesis, ...]:
        lengths = {"|x|": self.X.norm(dim=1), "|y|": self.Y.norm(dim=1)}
        return tuple(
            Hypothesis(f"largest {name}", "<=", 1 + 1e-12, norms.max().item())
            for name, norms in lengths.items()
        )

    def conditions(self, settings: Settings) -> tuple[Hypothesis, ...]:
        """Return the conditions of Theorem 4.2 with the values used here."""
        needed = self.constants(settings)
        rate = math.log10(self.rate(settings.rate))
        width = math.log10(self.network.m)
        return (
            self.is_definite,
            *self.in_unit_ball,
            Hypothesis("width m", ">=", needed.log10_width, width, log10=True, in_limit=True),
            Hypothesis("learning rate", "<=", needed.log10_rate, rate, log10=True, in_limit=True),
        )


_SIZES = {"n": 8, "d": 4, "d_out": 4, "m": 1024, "sigma": 0.5, "rate": 0.5, "steps": 300}


@claim(
    "P2/equation-25",
    place="Appendix F, Eq. (24) and (25)",
    title="The update of the kernel predictor is the gradient of its loss",
    quote="the Eq. (25) is according to gamma(tau+1) = gamma(tau) - eta grad_gamma L_ntk(gamma(tau))",
    nature="remark",
    plain="""The printed update is called the gradient of the kernel loss. It is descent in function
        space, which is what the proof needs; only the word is wrong.""",
    failure=Failure(
        "P2/equation-25",
        "used nowhere: the proof uses the printed formula",
        "n = 1, m H* = 2",
        root="a step of functional descent is called a gradient in the coefficients",
    ),
    proof=proofs.kernel_update,
    unconditional=True,
    quick=_SIZES,
    full={"n": 16, "d": 8, "d_out": 8, "m": 8192, "sigma": 1.0},
)
def kernel_update(settings: Settings, seed: int) -> Finding:
    """Gradient descent on L(gamma) = 1/2 |m H* gamma - vec Y|^2 is printed as gamma <- gamma - eta (m H*
    gamma - vec Y).
    """
    p = SoftmaxRegression.draw(settings, seed)
    mH = settings.m * p.network.kernel(p.X)
    y = vectorise(p.Y)
    gamma = torch.randn(len(y), generator=generator(seed, "gamma"), dtype=torch.float64)
    printed = mH @ gamma - y
    free = gamma.clone().requires_grad_()
    (true,) = torch.autograd.grad(0.5 * (mH @ free - y).square().sum(), free)
    run = p.train(settings)
    as_printed = _descend(mH, y, run.rate, settings.steps, derived=False)
    # at the network's rate descent along the true gradient diverges: its scale is the square of the kernel's
    derived = _descend(mH, y, settings.rate / (settings.m * p.lambda_max) ** 2, settings.steps, derived=True)
    step_gap = ((printed - true).norm() / true.norm()).item()
    printed_gap = log_gap(run.loss, as_printed)
    true_gap = log_gap(run.loss, derived)
    return Finding(
        conclusions=(
            Conclusion("relative distance of the printed step to the gradient", "<=", 1e-10, step_gap),
            comparison("printed update: largest |log L - log L| to network", "<=", 0.02, printed_gap),
            comparison("true gradient: largest |log L - log L| to network", ">=", 0.02, true_gap),
        ),
        numbers={
            "factor per step of the true gradient at the network's rate": abs(
                1 - run.rate * (settings.m * p.lambda_max) ** 2
            )
        },
        figures=(_updates_figure(run.loss, as_printed, derived),),
        remark="The gradient of the loss is m H* (m H* gamma - vec Y). The printed update is descent in "
        "function space, and it does follow the network.",
    )


def _descend(mH: Tensor, y: Tensor, rate: float, steps: int, *, derived: bool) -> Tensor:
    """Return the losses of the kernel predictor, by the printed update or by the derived gradient."""
    gamma = torch.zeros_like(y)
    losses = []
    for _ in range(steps + 1):
        residual = mH @ gamma - y
        losses.append(0.5 * residual.square().sum())
        gamma = gamma - rate * (mH @ residual if derived else residual)
    return torch.stack(losses)


@claim(
    "P2/appendix-f-features",
    place="Appendix F.1, proof of Theorem F.2",
    title="The feature map printed for the kernel",
    quote="phi(x)_l = 1/sqrt(m) x sum_r <v_l,r, S(0)> m S_r(0) ... K*_te = phi(x_te)' phi(X)",
    nature="proof step",
    plain="""The printed feature map sums over the neurons and is zero; it should be concatenated. The
        proof uses it in F_ntk2 and (26) and stands with the concatenation.""",
    failure=Failure(
        "P2/appendix-f-features",
        "the proof of Theorem F.2 stands with concatenated features",
        "two neurons",
        root="a sum is printed for a concatenation",
    ),
    proof=proofs.zero_features,
    unconditional=True,
    quick={"n": 8, "d": 4, "d_out": 3, "m": 256, "sigma": 1.0},
)
def feature_map(settings: Settings, seed: int) -> Finding:
    """phi(x)_l = x/sqrt(m) sum_r <v_lr, S(x)> m S_r(x) is a feature map of the kernel: K = phi' phi."""
    p = SoftmaxRegression.draw(settings, seed)
    weights = _neuron_features(p)  # <v_lr, S_i> m S_ir as (l n, r)
    printed = weights.sum(dim=1, keepdim=True)
    points = p.X.tile(settings.d_out, 1)
    gram = (printed @ printed.T) * (points @ points.T) / settings.m
    concatenated = (weights @ weights.T) * (points @ points.T) / settings.m
    size = p.kernel.norm()
    t = range(p.size)
    return Finding(
        conclusions=(
            Conclusion(
                "relative distance of phi' phi to K", "<=", 1e-10, ((gram - p.kernel).norm() / size).item()
            ),
            comparison(
                "the same with phi concatenated over r instead of summed",
                "<=",
                1e-10,
                ((concatenated - p.kernel).norm() / size).item(),
            ),
        ),
        numbers={"largest entry of the printed phi": printed.abs().max().item() / math.sqrt(settings.m)},
        figures=(
            plot(
                "Diagonal of the kernel, from Definition 3.6 and from features",
                ("output and point", "diagonal entry"),
                Series.of("K", t, p.kernel.diagonal()),
                Series.of("features concatenated", t, concatenated.diagonal(), "points"),
                Series.of("features as printed", t, gram.diagonal(), "points"),
                log="",
            ),
        ),
        remark="The printed sum over neurons is identically zero, since the softmax sums to one. The "
        "features of the neurons must be concatenated.",
    )


def _neuron_features(p: SoftmaxRegression) -> Tensor:
    S = p.network.probabilities(p.X)
    v = p.network.a[:, None, :] - (S @ p.network.a.T).T[:, :, None]
    return (v * p.network.m * S).reshape(p.size, -1)


def _updates_figure(network: Tensor, as_printed: Tensor, derived: Tensor) -> Figure:
    t = range(len(network))
    return plot(
        "Two updates of the kernel predictor against the network",
        ("step", "loss"),
        Series.of("network", t, network),
        Series.of("Eq. (25) as printed", t[::15], as_printed[::15], "points"),
        Series.of("true gradient, at a stable rate", t, derived),
        log="y",
    )


_REPAIR = {"n": 8, "d": 4, "d_out": 4, "sigma": 0.5, "rate": 0.5, "steps": 300}


@claim(
    "P2/equation-25-repaired",
    place="Appendix F, Eq. (25), repaired",
    title="The update is descent in function space",
    derivation="""m H* (gamma - eta (m H* gamma - y)) - y = (I - eta m H*)(m H* gamma - y). The gradient in
        gamma is m H*(m H* gamma - y) and multiplies the residual by I - eta (m H*)^2.""",
    nature="remark",
    plain="The printed update is gradient descent in the space of the kernel.",
    sharp="sharp: an identity",
    quick={**_REPAIR, "tolerance": 0.02},
    sizes=({"m": 1024}, {"m": 2048}),
)
def function_space(settings: Settings, seed: int) -> Finding:
    """gamma <- gamma - eta (m H* gamma - vec Y) is gradient descent on the function m K* gamma in the norm of
    the space of the kernel, not in gamma. Each step multiplies the residual by I - eta m H*, like the
    training of a wide network.
    """
    p = SoftmaxRegression.draw(settings, seed)
    mH = settings.m * p.kernel
    y = vectorise(p.Y)
    rate = p.rate(settings.rate)
    gamma = torch.zeros_like(y)
    losses = []
    gap = 0.0
    for _ in range(settings.steps + 1):
        residual = mH @ gamma - y
        losses.append(0.5 * residual.square().sum())
        gamma = gamma - rate * residual
        stated = residual - rate * mH @ residual
        gap = max(gap, ((mH @ gamma - y - stated).norm() / residual.norm()).item())
    run = p.train(settings)
    largest_gap = log_gap(run.loss, torch.stack(losses))
    return Finding(
        hypotheses=(p.is_definite,),
        conclusions=(
            Conclusion("residual after a step against (I - eta m H*) r, relative", "<=", 1e-9, gap),
            Conclusion(
                "largest |log L - log L| to the trained network", "<=", settings.tolerance, largest_gap
            ),
        ),
    )


@claim(
    "P2/appendix-f-features-repaired",
    place="Appendix F.1, proof of Theorem F.2, repaired",
    title="The features of the neurons, concatenated",
    derivation="""The inner product of the concatenation is the sum over r of the products, which is
        Definition 3.6; the printed sum over r inside phi is m(<a_l, S> - <a_l, S>) = 0.""",
    nature="proof step",
    plain="Concatenated features give the kernel.",
    sharp="sharp: an identity",
    quick={"n": 8, "d": 4, "d_out": 3, "sigma": 1.0},
    sizes=({"m": 64}, {"m": 256}),
)
def features(settings: Settings, seed: int) -> Finding:
    """phi(x)_l = (x <v_lr, S(x)> m S_r(x) / sqrt m) for r = 1..m, concatenated, satisfies phi(x)_l .
    phi(x')_l' = K, the kernel of Definition 3.6.
    """
    p = SoftmaxRegression.draw(settings, seed)
    S = p.network.probabilities(p.X)
    a = p.network.a
    m = settings.m
    weights = m * S * (a[:, None, :] - (S @ a.T).T[:, :, None])  # (l, i, r)
    phi = torch.einsum("ic,lir->lirc", p.X, weights).reshape(p.size, -1) / math.sqrt(m)
    gap = ((phi @ phi.T - p.kernel).norm() / p.kernel.norm()).item()
    return Finding(conclusions=(Conclusion("relative distance to the kernel", "<=", 1e-10, gap),))
