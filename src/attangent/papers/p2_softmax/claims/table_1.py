"""Table 1: softmax, ReLU and exp measured on the same data."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit import Conclusion, Figure, Finding, Hypothesis, Series, Settings, claim
from attangent.kernels import SoftmaxNetwork, TwoLayerNetwork, unit_data
from attangent.papers.common.bounds import comparison, first_below
from attangent.papers.common.figures import plot
from attangent.papers.p2_softmax.networks import ExpNetwork, ReLUNetwork

NETWORKS = {"ReLU": ReLUNetwork, "exp": ExpNetwork, "softmax": SoftmaxNetwork}


@dataclass(frozen=True)
class FittedNetwork:
    """One network trained to the loss epsilon at the rate 1/lambda_max of its kernel.

    Attributes:
        steps: Steps to epsilon; infinite if it is not reached.
        drift: |H(T) - H(0)|_F / |H(0)|_F.
    """

    lambda_min: float
    steps: float
    drift: float
    loss: Tensor


@dataclass(frozen=True)
class NetworkRuns:
    """One column of the table: a network at several widths.

    Attributes:
        sensitivity: The largest |H(W + R U) - H(W)|_F / (R |H(W)|_F) over moves U of unit length per neuron.
    """

    runs: dict[int, FittedNetwork]
    sensitivity: float

    @property
    def widest(self) -> FittedNetwork:
        return self.runs[max(self.runs)]

    def neurons(self, factor: float) -> float:
        """Return the smallest width from which on at most `factor` times the widest network's steps are
        needed.
        """
        enough = math.inf
        for m in sorted(self.runs, reverse=True):
            if not self.runs[m].steps <= factor * self.widest.steps:
                break
            enough = m
        return enough


@claim(
    "P2/table-1",
    place="Section 1, Table 1",
    title="Softmax needs about as many neurons and steps as ReLU and exp",
    quote="""We can see that the two-layer NN with softmax activation function requires almost the same
        number of neurons and training steps to converge as that with ReLU or exponential activation
        functions.""",
    rests_on=("P2/corollary-4.3", "P2/lemma-5.1"),
    nature="remark",
    plain="""The table says that softmax needs almost the same number of neurons and steps as ReLU and
        exp. It compares bounds; measured needs at sigma = 1 are within a factor of four.""",
    quick={
        "n": 12, "d": 6, "d_out": 1, "sigma": 1.0, "epsilon": 1e-3, "rate": 1.0, "steps": 200, "R": 0.01,
        "widths": [32, 128, 512, 2048], "same_steps": 2.0, "same_neurons": 4.0, "enough": 3.0,
    },
    full={"n": 24, "d": 12, "widths": [32, 128, 512, 2048], "steps": 600},
    seconds=1.5,
)  # fmt: skip
def table(settings: Settings, seed: int) -> Finding:
    """To reach a loss epsilon, a two-layer softmax network needs about as many neurons, lambda^-2 n^(2+o(1))
    log^2 n, and steps, lambda^-2 n^(2+o(1)) log(n/epsilon), as one with ReLU or exp, because its normaliser
    keeps the kernel from changing much.
    """
    X, Y = unit_data(settings.n, settings.d, settings.d_out, seed)
    rows = {name: _row(network, settings, seed, X, Y) for name, network in NETWORKS.items()}
    least = min(row.widest.lambda_min for row in rows.values())
    return Finding(
        hypotheses=(Hypothesis("smallest lambda_min", ">=", 1e-12, least),),
        conclusions=(*_need_lines(settings, rows), *_sensitivity_lines(rows)),
        numbers={
            f"{what}, {name}": value
            for name, row in rows.items()
            for what, value in _numbers(row, settings.enough).items()
        },
        figures=(_steps_figure(rows), _loss_figure(rows)),
        differs=(
            "steps and neurons that were needed; the table compares sufficient ones",
            f"weights of standard deviation {settings.sigma:g}; the table gives none, the proof sets 1",
        ),
        remark="Neurons are the smallest width tried from which on at most three times the steps of the "
        "widest network are needed. At sigma = 0.5 softmax and exp need several times the steps of ReLU: "
        "their kernels depend on the size of the weights, that of ReLU does not.",
    )


def _need_lines(settings: Settings, rows: dict[str, NetworkRuns]) -> tuple[Conclusion, ...]:
    """Return steps and neurons of softmax over the smaller of the others; "almost the same" is our choice."""
    steps = _share({name: row.widest.steps for name, row in rows.items()})
    neurons = _share({name: row.neurons(settings.enough) for name, row in rows.items()})
    of_others = "of softmax / the smaller of the others"
    return (
        Conclusion(f"steps {of_others}", "<=", settings.same_steps, steps, threshold="ours"),
        Conclusion(f"neurons {of_others}", "<=", settings.same_neurons, neurons, threshold="ours"),
    )


def _sensitivity_lines(rows: dict[str, NetworkRuns]) -> tuple[Conclusion, ...]:
    """Return the lines for the table's reason: the normaliser keeps the kernel from changing as much as that
    of exp.
    """
    ratio = {name: rows["softmax"].sensitivity / rows[name].sensitivity for name in ("exp", "ReLU")}
    return (
        Conclusion("kernel's sensitivity, softmax / exp", "<=", 1.0, ratio["exp"]),
        comparison("kernel's sensitivity, softmax / ReLU", "<=", 1.0, ratio["ReLU"]),
    )


def _numbers(row: NetworkRuns, enough: float) -> dict[str, float]:
    return {
        "lambda_min": row.widest.lambda_min,
        "steps": row.widest.steps,
        "neurons": row.neurons(enough),
        "drift": row.widest.drift,
        "sensitivity": row.sensitivity,
    }


def _share(values: dict[str, float]) -> float:
    return values["softmax"] / min(values["ReLU"], values["exp"])


def _row(make: type, settings: Settings, seed: int, X: Tensor, Y: Tensor) -> NetworkRuns:
    networks = {m: make(settings.d, settings.d_out, m, settings.sigma, seed=seed) for m in settings.widths}
    runs = {m: _run(network, settings, X, Y) for m, network in networks.items()}
    return NetworkRuns(runs, _sensitivity(networks[max(networks)], settings.R, seed, X, Y))


def _run(network: TwoLayerNetwork, settings: Settings, X: Tensor, Y: Tensor) -> FittedNetwork:
    H = network.kernel(X)
    spectrum = torch.linalg.eigvalsh(H)
    rate = settings.rate / (network.width * spectrum[-1].item())
    run = network.descend(X, Y, rate, settings.steps)
    drift = (run.final.kernel(X) - H).norm() / H.norm()
    steps = first_below(run.loss, settings.epsilon)
    return FittedNetwork(spectrum[0].item(), steps, drift.item(), run.loss)


def _sensitivity(network: TwoLayerNetwork, R: float, seed: int, X: Tensor, Y: Tensor) -> float:
    H = network.kernel(X)
    changes = (
        (network.with_weights(network.W + R * U).kernel(X) - H).norm() / (R * H.norm())
        for U in _moves(network, seed, X, Y)
    )
    return max(change.item() for change in changes)


def _moves(network: TwoLayerNetwork, seed: int, X: Tensor, Y: Tensor) -> Iterator[Tensor]:
    """Yield moves of unit length per neuron that suit one network or another: random, down the gradient, all
    along a point, and along a point by the sign of the output weight or of the product with the point.
    """
    drawn = torch.randn(network.W.shape, generator=generator(seed, "moves"), dtype=torch.float64)
    for U in (drawn, network.gradient(X, Y)):
        yield U / U.norm(dim=0).clamp(min=1e-300)
    for x in X[:6]:
        along = x[:, None].expand_as(network.W)
        yield along
        yield along * network.a[0]
        yield along * torch.sign(x @ network.W)
        yield -along * torch.sign(x @ network.W)


def _steps_figure(rows: dict[str, NetworkRuns]) -> Figure:
    return plot(
        "Steps to epsilon against the number of neurons",
        ("neurons m", "steps"),
        *(
            Series.of(name, list(row.runs), [run.steps for run in row.runs.values()])
            for name, row in rows.items()
        ),
    )


def _loss_figure(rows: dict[str, NetworkRuns]) -> Figure:
    return plot(
        "Loss of the widest networks",
        ("step", "loss"),
        *(Series.of(name, range(len(row.widest.loss)), row.widest.loss) for name, row in rows.items()),
        log="y",
    )
