"""Section 7: the gradient in many dimensions, and the remedies that are proposed."""

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit import Conclusion, Failure, Figure, Finding, Hypothesis, Series, Settings, claim
from attangent.papers.p5_forecasting.claims import proofs
from attangent.papers.p5_forecasting.theory.attention_model import (
    AttentionModel,
    Remedies,
    attention,
    local_change,
    printed_gradient,
    train_attention,
)
from attangent.papers.p5_forecasting.theory.ssm import ResidualSSM, fit_residual_linear, residual_linear


@claim(
    "P5/section-7.1",
    nature="remark",
    plain="""The gradient is right. The two cases are not: attention on a position depends on the inner
        products of the other positions as well.""",
    failure=Failure(
        cause="P5/section-7.1",
        consequence="the discussion of the multi-dimensional case falls; no theorem uses it",
        first_size="L = d = 2",
        root="the row mean is dropped",
    ),
    proof=proofs.section_7_1,
    ours=("the cases read as stated for every position",),
    place="Section 7.1",
    title="Gradient in many dimensions, and the two cases",
    quote="""Since XX^T is a positive definite matrix ... we suggest the updated attention matrix will
        greatly depend on the term G W_V^T X^T""",
    quick={"L": 6, "d": 8, "draws": 300, "rate": 1e-3, "mixing": True},
    full={"L": 16, "d": 32, "draws": 2000},
)
def many_dimensions(settings: Settings, seed: int) -> Finding:
    """With X X' positive definite, dL/dW = X'(S * (G V'X' - (Attn * G) 1)) X for attention S X V with S =
    softmax(X W X'), every column of (Attn * G) 1 is the same, and one step of descent takes attention off
    position i if <G_i, V'X_i> > 0 (Case 1) and puts it there if it is negative (Case 2).
    """
    rng = generator(seed, "matrices")
    gaps = []
    follows = []
    scores = []
    for draw in range(settings.draws):
        X, W, V, G = _draw(settings, rng)
        if draw < 20:
            gaps.append(_gradient_gap(X, W, V, G))
        push = (G * (X @ V)).sum(dim=1)
        stepped = W - settings.rate * printed_gradient(X, W, V, G)
        change = _local_attention(X, stepped) - _local_attention(X, W)
        follows.append((change * push < 0).double().mean().item())
        scores.append((local_change(X, W, V, G, settings.rate) * push < 0).double().mean().item())
    share = sum(follows) / len(follows)
    score_share = sum(scores) / len(scores)
    columns = "largest difference of two columns of (Attn * G) 1"
    following = "share of positions whose attention follows the cases (a coin: .5)"
    return Finding(
        hypotheses=(Hypothesis("length L against d (X X' positive definite)", "<=", settings.d, settings.L),),
        conclusions=(
            Conclusion(
                "largest relative gap of the gradient to autograd", "<=", 1e-9, max(gaps), part="gradient"
            ),
            Conclusion(columns, "<=", 1e-9, column_gap(settings, seed), part="columns"),
            Conclusion(following, ">=", 1.0, share, part="cases"),
        ),
        numbers={"share by attention": share, "share by score": score_share},
        remark="The gradient is right. The cases drop the row mean, whose columns are equal as printed but "
        "which does "
        "not vanish, and the mixing by X X'. What is left is a tendency, near a coin's in large draws.",
    )


def column_gap(settings: Settings, seed: int) -> float:
    X, W, V, G = _draw(settings, generator(seed, "columns"))
    columns = (attention(X, W, V) * G) @ torch.ones(G.shape[1], len(X), dtype=torch.float64)
    return (columns - columns[:, :1]).abs().max().item()


def _draw(settings: Settings, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gaussian X, W, V and G; without `mixing` the rows of X are orthonormal and G_i is X_i up to sign."""
    L = settings.L
    d = settings.d
    X, W, V, G = (torch.randn(rows, d, generator=rng, dtype=torch.float64) for rows in (L, d, d, L))
    if settings.mixing:
        return X, W / d**0.5, V, G
    X = torch.linalg.qr(X[:d]).Q
    return X, 0.01 * W, torch.eye(d, dtype=torch.float64), torch.sign(G[:d, :1]) * X


def _local_attention(X: Tensor, W: Tensor) -> Tensor:
    return torch.softmax(X @ W @ X.T, dim=1).diagonal()


def _gradient_gap(X: Tensor, W: Tensor, V: Tensor, G: Tensor) -> float:
    true = torch.func.grad(lambda W: (attention(X, W, V) * G).sum())(W)
    return ((printed_gradient(X, W, V, G) - true).norm() / true.norm()).item()


PROPOSED = ["differential", "patching", "rotary", "weight decay"]
REMEDIES = {
    "differential": Remedies(differential=True),
    "patching": Remedies(patch=2),
    "rotary": Remedies(rotary=0.2),
    "weight decay": Remedies(),
    "position bias, values": Remedies(position_bias=True, train_values=True),
    "position bias, values, x_d": Remedies(position_bias=True, train_values=True, residual=True),
}
_DECAYS = {"weight decay": 1e-3}
_RATE = 0.05
_TASK = {"d": 8, "sigma": 0.01, "n": 128, "m": 16, "steps": 150, "test": 10_000, "halve": 0.5}


@claim(
    "P5/section-7.2",
    nature="experiment",
    plain="""Ours: none of the proposed remedies halves the risk by itself; position-dependent scores with
        trained values do.""",
    kind="ours",
    place="ours, on the potential solutions of Section 7.2",
    title="Which remedies halve the risk on the sign-inconsistent task",
    quote="which might be a potential approach to relieving the asymmetric learning in attention",
    quick={**_TASK, "proposed": PROPOSED, "others": ["position bias, values"]},
    full={"m": 24, "steps": 400, "others": ["position bias, values", "position bias, values, x_d"]},
    seconds=3.0,
)
def remedies(settings: Settings, seed: int) -> Finding:
    """With one optimiser for all, none of differential attention, patching, rotary positions and weight decay
    halves the risk of attention on the sign-inconsistent task; scores that depend on the position, with
    trained values, do.
    """
    ssm = ResidualSSM(settings.d, settings.sigma, seed)
    data = ssm.sample(settings.n, generator(seed, "train"))
    tests = {
        "task": ssm.sample_inconsistent(settings.test, generator(seed, "task")),
        "in distribution": ssm.sample(settings.test, generator(seed, "test")),
    }

    def risks_with(remedies: Remedies, weight_decay: float = 0.0) -> dict[str, float]:
        model = AttentionModel(settings.d, settings.m, remedies, seed)
        train_attention(model, *data, settings.steps, _RATE, weight_decay=weight_decay)
        with torch.no_grad():
            return {where: (model(x) - y).square().mean().item() for where, (x, y) in tests.items()}

    plain = risks_with(Remedies())
    names = (*settings.proposed, *settings.others)
    risks = {name: risks_with(REMEDIES[name], _DECAYS.get(name, 0.0)) for name in names}
    w = fit_residual_linear(*data)
    linear = {k: (residual_linear(w, x) - y).square().mean().item() for k, (x, y) in tests.items()}
    zero = {k: y.square().mean().item() for k, (_, y) in tests.items()}
    table = {"no remedy": plain, **risks, "residual linear": linear, "predicting 0": zero}
    noise = settings.sigma**2
    lines = []
    for name, risk in risks.items():
        relation = ">=" if name in settings.proposed else "<="
        ratio = risk["task"] / plain["task"]
        lines.append(Conclusion(f"risk with {name} / without", relation, settings.halve, ratio))
    return Finding(
        conclusions=tuple(lines),
        numbers={"sigma": settings.sigma}
        | {
            f"{name}, {where}: risk / sigma^2": row[where] / noise
            for name, row in table.items()
            for where in tests
        },
        figures=(_remedies_figure(table, noise),),
        remark="The paper says that these might help, and no more. Everything is trained by Adam at one "
        "rate. For comparison, predicting 0 does well on this task.",
    )


def _remedies_figure(table: dict[str, dict[str, float]], noise: float) -> Figure:
    bars = {where: [row[where] / noise for row in table.values()] for where in table["no remedy"]}
    series = tuple(Series.of(where, range(len(table)), risks, "bars") for where, risks in bars.items())
    return Figure("Remedies", "", "risk / sigma^2", series, log_y=True, ticks=tuple(table))
