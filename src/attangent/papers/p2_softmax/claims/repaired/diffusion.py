"""Claim G.1, the time of the score, Eq. (5) and (6) and Theorem G.4, repaired."""

import math

import torch

from attangent._core.random import generator
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Series
from attangent.audit.registry import claim
from attangent.papers.p2_softmax.claims.approximation import LINE, Line
from attangent.papers.p2_softmax.claims.diffusion_error import reference_function, terms_over_training
from attangent.papers.p2_softmax.claims.diffusion_setting import (
    LOG_TIMES,
    MIXTURE,
    NETWORK,
    diffusion_setting,
    network,
)
from attangent.papers.p2_softmax.diffusion import (
    ExactScore,
    ForwardProcess,
    GaussianMixture,
    sample,
    sample_quality,
)


@claim(
    "P2/claim-g.1-repaired",
    repairs="P2/claim-g.1",
    place="Appendix G, Claim G.1, repaired",
    title="The error is at most four times the sum of the terms",
    statement="E|F_nn - F*|^2 <= 4 (Z_1 + Z_2 + Z_3 + Z_4) at every step.",
    derivation="""|a + b + c + e|^2 <= 4 (|a|^2 + |b|^2 + |c|^2 + |e|^2) by Cauchy-Schwarz; equality at a =
        b = c = e.""",
    quick={
        **MIXTURE,
        **NETWORK,
        "m": 64,
        "steps": 100,
        "reference": 128,
        "reference_steps": 60,
        "test": 1000,
    },
    sizes=({"n": 64}, {"n": 256}),
    seconds=1.0,
)
def four_times(settings: Settings, seed: int) -> Finding:
    problem = diffusion_setting(settings, seed)
    model = network(problem, settings).fit(problem.data)
    terms = terms_over_training(problem, model, reference_function(problem, model, settings))
    return Finding(
        conclusions=(
            Conclusion(
                "largest error / (4 times the sum)", "<=", 1.0, max(t.total.mean / t.bound for t in terms)
            ),
        )
    )


@claim(
    "P2/sampling-printed-time-repaired",
    repairs="P2/sampling-printed-time",
    place="Section 6.1, repaired",
    title="The score is asked at T - t",
    statement="""dy = (g(T-t) y/2 + g(T-t) s_theta(y, T-t)) dt + sqrt(g(T-t)) dB leads to samples of the
        data where s_theta is the score.""",
    derivation="y(t) = x(T - t): Eq. (4) with the estimator for the score it has, that at time T - t.",
    quick={**LOG_TIMES, "n": 2, "test": 2, "samples": 4000, "tolerance": 1.2},
    sizes=({"walk": 60}, {"walk": 120}),
    seconds=1.0,
)
def right_time(settings: Settings, seed: int) -> Finding:
    problem = diffusion_setting(settings, seed)
    process, rng = problem.process, generator(seed, "true samples")
    truth = process.noised(problem.target.draw(settings.samples, rng), process.T0, rng)
    exact = ExactScore(process, problem.target)
    found = sample(exact, process, settings.samples, "sde", steps=settings.walk, seed=seed, quiet=True)
    ratio = sample_quality(found, truth).ratio
    return Finding(
        conclusions=(Conclusion("distance to true samples / floor", "<=", settings.tolerance, ratio),)
    )


@claim(
    "P2/equation-6-repaired",
    repairs="P2/equation-6",
    place="Section 6.1, Eq. (5) and (6), repaired",
    title="One interval for both objectives",
    statement="""Over [T_0, T] in both, Eq. (5) and (6) differ by a constant: for estimators -theta x their
        minimisers agree, int d dt / int E|x|^2 dt.""",
    derivation="""E[grad log p_(t|0) | x(t)] = grad log p_t, so that E<s, grad log p_(t|0)> = E<s, grad log
        p_t> for every s; for s = -theta x both are theta d, since E<x, grad log p_t> = -d.""",
    quick={**MIXTURE, "points": 100_000, "errors": 4.5},
    sizes=({"T0": 0.1}, {"T0": 0.5}),
    seconds=0.5,
)
def one_interval(settings: Settings, seed: int) -> Finding:
    process = ForwardProcess(T=settings.T, T0=settings.T0)
    target = GaussianMixture.ring(settings.modes, settings.radius, settings.sd)
    rng = generator(seed, "one interval")
    t = process.draw_times(settings.points, rng, "uniform")
    x0 = target.draw(settings.points, rng)
    x = process.noised(x0, t, rng)
    given = (process.alpha(t)[:, None] * x0 - x) / process.variance(t)[:, None]
    products = {
        "of (5)": (x * ExactScore(process, target).score(t, x)).sum(dim=1) + target.d,
        "of (6)": (x * given).sum(dim=1) + target.d,
    }
    return Finding(
        conclusions=tuple(
            Conclusion(
                f"E<x, score> + d {name}, in standard errors",
                "<=",
                settings.errors,
                abs(values.mean() / (values.std() / math.sqrt(len(values)))).item(),
            )
            for name, values in products.items()
        )
    )


@claim(
    "P2/theorem-g.4-repaired",
    repairs="P2/theorem-g.4",
    place="Appendix G.2, Theorem G.4, repaired",
    title="The rate of approximation by the softmax kernel's space",
    statement="""For a posterior mean that is analytic around the real axis the least-squares polynomials of
        degree K have errors of order theta^K, theta < 1, and squared norms of at most (K-1)! M^K: with K
        about log R / log log R the error at norm R is exp(-c log R / log log R), slower than any power.""",
    derivation="""x.x' e^(s^2 x.x') = sum_k s^(2(k-1))/(k-1)! (x.x')^k: a polynomial of degree K with
        coefficients of size M^(K/2) costs sqrt((K-1)!) M^(K/2). Bernstein: the best polynomials of a
        function with poles off the real axis have errors theta^K. Solve (K-1)! M^K = R for K.""",
    quick={**LINE, "T": 2.0, "points": 1500, "degrees": list(range(2, 12)), "theta": 0.75, "M": 10.0},
    sizes=({"sd": 0.5}, {"sd": 0.7}),
    seconds=0.5,
)
def entire_functions(settings: Settings, seed: int) -> Finding:
    line = Line.draw(settings, seed)
    errors, norms = [], []
    for degree in settings.degrees:
        features = line.features(degree, settings.sigma)
        weights = torch.linalg.lstsq(features, line.values[:, None], rcond=1e-15, driver="gelsd").solution
        errors.append((features @ weights - line.values[:, None]).square().mean().item())
        norms.append(weights.square().sum().item())
    span = settings.degrees[-1] - settings.degrees[0]
    theta = (errors[-1] / errors[0]) ** (1 / span)
    sizes = [
        (norm / math.factorial(degree - 1)) ** (1 / degree)
        for degree, norm in zip(settings.degrees, norms, strict=True)
    ]
    return Finding(
        conclusions=(
            Conclusion("theta, mean fall of the error with a degree", "<=", settings.theta, theta),
            Conclusion("largest (|F_H|^2 / (K-1)!)^(1/K)", "<=", settings.M, max(sizes)),
        ),
        numbers={f"error of degree {k}": e for k, e in zip(settings.degrees, errors, strict=True)},
        figures=(
            Figure(
                "Least-squares polynomials",
                "degree K",
                "E|F_H - F*|^2",
                (Series.of("error", settings.degrees, errors),),
                log_y=True,
            ),
        ),
    )
