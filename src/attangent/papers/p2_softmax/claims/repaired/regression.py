"""Eq. (25), the features of Appendix F, Theorem F.2 without its logarithm, and poly(nd, 1/lambda)."""

import math

import torch

from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Finding, Hypothesis
from attangent.audit.registry import claim
from attangent.kernels import log_gap, predict_training, unit_data, vectorise
from attangent.papers.p2_softmax.claims.premises import steps_to_fit
from attangent.papers.p2_softmax.claims.softmax_regression import kernel_is_definite, softmax_regression

_SIZES = {"n": 8, "d": 4, "d_out": 4, "sigma": 0.5, "rate": 0.5, "steps": 300}


@claim(
    "P2/equation-25-repaired",
    repairs="P2/equation-25",
    place="Appendix F, Eq. (25), repaired",
    title="The update is descent in function space",
    statement="""gamma <- gamma - eta (m H* gamma - vec Y) is gradient descent on the function m K* gamma in
        the norm of the kernel's space, not in gamma: each step multiplies the residual by I - eta m H*, as
        training a wide network does.""",
    derivation="""m H* (gamma - eta (m H* gamma - y)) - y = (I - eta m H*)(m H* gamma - y). The gradient in
        gamma is m H*(m H* gamma - y) and multiplies the residual by I - eta (m H*)^2.""",
    quick={**_SIZES, "tolerance": 0.02},
    sizes=({"m": 1024}, {"m": 2048}),
    seconds=0.5,
)
def function_space(settings: Settings, seed: int) -> Finding:
    p = softmax_regression(settings, seed)
    mH, y, rate = settings.m * p.kernel, vectorise(p.Y), p.rate(settings.rate)
    gamma = torch.zeros_like(y)
    losses, gap = [], 0.0
    for _ in range(settings.steps + 1):
        residual = mH @ gamma - y
        losses.append(0.5 * residual.square().sum())
        gamma = gamma - rate * residual
        stated = residual - rate * mH @ residual
        gap = max(gap, ((mH @ gamma - y - stated).norm() / residual.norm()).item())
    run = p.train(settings)
    return Finding(
        hypotheses=(kernel_is_definite(p),),
        conclusions=(
            Conclusion("residual after a step against (I - eta m H*) r, relative", "<=", 1e-9, gap),
            Conclusion(
                "largest |log L - log L| to the trained network",
                "<=",
                settings.tolerance,
                log_gap(run.loss, torch.stack(losses)),
            ),
        ),
    )


@claim(
    "P2/appendix-f-features-repaired",
    repairs="P2/appendix-f-features",
    place="Appendix F.1, proof of Theorem F.2, repaired",
    title="Features of the neurons side by side",
    statement="""phi(x)_l = (x <v_lr, S(x)> m S_r(x) / sqrt m) for r = 1..m, one after the other, has
        phi(x)_l . phi(x')_l' equal to the kernel of Definition 3.6.""",
    derivation="""The inner product of the concatenation is the sum over r of the products, which is
        Definition 3.6; the printed sum over r inside phi is m(<a_l, S> - <a_l, S>) = 0.""",
    quick={"n": 8, "d": 4, "d_out": 3, "sigma": 1.0},
    sizes=({"m": 64}, {"m": 256}),
    seconds=0.1,
)
def features(settings: Settings, seed: int) -> Finding:
    p = softmax_regression(settings, seed)
    S, a, m = p.network.probabilities(p.X), p.network.a, settings.m
    weights = m * S * (a[:, None, :] - (S @ a.T).T[:, :, None])  # (l, i, r)
    phi = torch.einsum("ic,lir->lirc", p.X, weights).reshape(p.size, -1) / math.sqrt(m)
    gap = ((phi @ phi.T - p.kernel).norm() / p.kernel.norm()).item()
    return Finding(conclusions=(Conclusion("relative distance to the kernel", "<=", 1e-10, gap),))


@claim(
    "P2/theorem-g.2-repaired",
    repairs="P2/theorem-g.2-logarithm",
    place="Appendix F.1, Theorem F.2, repaired",
    title="Network and kernel predictor, without a logarithm",
    statement="""With eta m lambda_max <= 1, |(H~_t - H*) r_t| <= eps_H |r_t|, eps_H <= lambda/2, and |(K~_t
        - K*) r_t| <= eps_test |r_t| along every step, network and kernel predictor differ at the test point
        by at most (2 |r_0| / lambda)(eps_test + |K*| eps_H / lambda), at every step.""",
    derivation="""With a = eta m lambda, |r_t| <= (1 - a/2)^t |r_0|; the difference D_t on the data obeys
        D_(t+1) = (I - eta m H*) D_t + eta m (H* - H~_t) r_t up to sign, so that sum |D_t| <= eta m eps_H
        (1/a)(2/a) |r_0|; at the test point sum eta m (eps_test |r_t| + |K*| |D_t|). Shown at more length in
        docs/repairs-p2.md.""",
    quick={**_SIZES, "points": 12},
    sizes=({"m": 256}, {"m": 1024}),
    seconds=1.0,
)
def coupling(settings: Settings, seed: int) -> Finding:
    p = softmax_regression(settings, seed)
    test, _ = unit_data(settings.points, settings.d, settings.d_out, seed + 1_000_000)
    steps = range(settings.steps + 1)
    run = p.train(settings, keep=list(steps))
    step, K = run.rate * settings.m, p.network.kernel(test, p.X)
    data = torch.stack([vectorise(run.snapshots[t].forward(p.X) - p.Y) for t in steps])
    tests = torch.stack([vectorise(run.snapshots[t].forward(test)) for t in steps])
    lengths = data[:-1].norm(dim=1, keepdim=True)
    eps_H = (((data[:-1] - data[1:]) / step - data[:-1] @ p.kernel).norm(dim=1) / lengths[:, 0]).max().item()
    eps_test = (((tests[:-1] - tests[1:]) / step - data[:-1] @ K.T).abs() / lengths).max(dim=0).values
    prediction = predict_training(p.kernel, p.network.forward(p.X) - p.Y, run.rate, width=settings.m)
    start = p.network.forward(test)
    errors = torch.stack([(tests[t] - vectorise(prediction.outputs(K, t, start))).abs() for t in steps])
    bound = 2 * data[0].norm() / p.lambda_min * (eps_test + K.norm(dim=1) * eps_H / p.lambda_min)
    return Finding(
        hypotheses=(
            kernel_is_definite(p),
            Hypothesis("eta m lambda_max", "<=", 1.0, settings.rate),
            Hypothesis("eps_H", "<=", p.lambda_min / 2, eps_H),
        ),
        conclusions=(
            Conclusion(
                "largest difference / bound", "<=", 1.0, (errors.max(dim=0).values / bound).max().item()
            ),
        ),
        numbers={"largest difference": errors.max().item(), "eps_H": eps_H},
    )


@claim(
    "P2/theorem-4.2-poly-repaired",
    repairs="P2/theorem-4.2-poly",
    place="Section 4, below Theorem 4.2, repaired",
    title="poly(nd, 1/lambda) steps",
    statement="""log(|Y|^2/epsilon) / (2 eta m lambda) steps are enough in the limit of a wide network: a
        power of nd and of 1/lambda.""",
    derivation="Every direction falls by 1 - eta m lambda at least in a step, and (1 - a)^(2T) <= e^(-2aT).",
    quick={"angles": [0.8, 0.4, 0.2, 0.1, 0.05], "sigma": 1.0},
    sizes=({"epsilon": 0.01}, {"epsilon": 1e-4}),
    seconds=0.1,
)
def steps_with_lambda(settings: Settings, seed: int) -> Finding:
    ratios = []
    for h in settings.angles:
        lam, steps = steps_to_fit(h, settings.sigma, settings.epsilon)
        top = math.cos(h) * math.exp(settings.sigma**2 * math.cos(h)) + math.exp(settings.sigma**2)
        allowed = math.ceil(math.log(2 / settings.epsilon) * top / (2 * lam))
        ratios.append(steps / allowed)
    return Finding(
        hypotheses=(),
        conclusions=(Conclusion("largest steps / stated steps", "<=", 1.0, max(ratios)),),
        numbers={f"h = {h:g}": ratio for h, ratio in zip(settings.angles, ratios, strict=True)},
    )
