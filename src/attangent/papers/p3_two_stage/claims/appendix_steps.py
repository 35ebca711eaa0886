"""Steps of Appendices D to H that the theorems of P3 rest on, most of them refuted by a few lines of
algebra.
"""

import math

import torch

from attangent._core.random import generator
from attangent.audit import Conclusion, Failure, Finding, Hypothesis, Settings, claim
from attangent.papers.common.sizes import by_size, no_growth
from attangent.papers.p3_two_stage.claims import proofs_of_patterns, proofs_of_steps
from attangent.papers.p3_two_stage.claims.proof_steps import ASSUMED
from attangent.papers.p3_two_stage.claims.two_stage_setting import Assumption1
from attangent.papers.p3_two_stage.theory.attention import ReluAttention
from attangent.papers.p3_two_stage.theory.data import TwoStageData


@claim(
    "P3/taylor-step",
    nature="proof step",
    plain="""Printed: u^2/8 + v^2/8 - (u+v)^2/16 = (u+v)^2/16. True: it is (u-v)^2/16, which bounds
        neither answer.""",
    failure=Failure(
        cause="P3/taylor-step",
        consequence="|g| <= (log d)^(-1/4) in Theorem 1 and term C of Theorem 3 are not proved",
        first_size="whenever u v is not 0",
        root="a square of a sum for that of a difference",
    ),
    proof=proofs_of_steps.taylor,
    place="Appendix F.1, the Taylor expansion of A",
    title="The square in the Taylor step",
    quote="u^2/8 + v^2/8 - (u+v)^2/16 = (u+v)^2/16",
    quick={"points": 200, "sign": -1.0},
)
def taylor_step(settings: Settings, seed: int) -> Finding:
    """u^2/8 + v^2/8 - (u+v)^2/16 equals (u+v)^2/16, so that a small A bounds the answers u = g(z + zeta) and
    v = g(z - zeta).
    """
    rng = generator(seed, "answers")
    u, v = torch.randn(2, settings.points, generator=rng, dtype=torch.float64)
    v = v if settings.sign < 0 else 0 * v  # without the second answer both squares agree
    gap = u**2 / 8 + v**2 / 8 - (u + v) ** 2 / 16 - (u + v) ** 2 / 16
    return Finding(
        conclusions=(Conclusion("largest gap of the printed equation", "<=", 1e-12, gap.abs().max().item()),),
        remark="The left-hand side is (u-v)^2/16. It vanishes for equal answers of any size.",
    )


@claim(
    "P3/appendix-d",
    nature="quotation",
    plain="""Lemma 2 (Bernstein) has the sum where the mean belongs; the proof of Theorem 1 uses the mean.
        Lemmas 1 and 5 are right as quoted; Lemma 3 lacks a definition, Lemma 4 its function F.""",
    failure=Failure(
        cause="P3/appendix-d",
        consequence="a misquotation: the proof of Theorem 1 uses the mean",
        first_size="N = 2 (N = 1 for delta near 1, where log(2/delta) belongs)",
        root="the sum for the mean",
    ),
    proof=proofs_of_steps.bernstein,
    place="Appendix D, Lemmas 1, 2 and 5",
    title="Concentration inequalities as quoted",
    quote="|sum_{i=1}^N X_i - mu| <= sqrt(2 sigma^2 log(1/delta) / n) + 2 c log(1/delta) / (3n)",
    quick={"N": 20, "draws": 20_000, "delta": 0.1, "mean": False},
)
def concentration(settings: Settings, seed: int) -> Finding:
    """Hoeffding (Lemma 1), Bernstein (Lemma 2, with the sum of the N variables and n = N) and the tail of a
    normal variable (Lemma 5) hold as printed.
    """
    N = settings.N
    rng = generator(seed, "coins")
    coins = torch.randint(0, 2, (settings.draws, N), generator=rng).double()
    error = 4 * math.sqrt(settings.delta / settings.draws)
    t = math.sqrt(N * math.log(1 / settings.delta) / 2)
    above = (coins.sum(1) - N / 2 >= t).double().mean().item()
    log = math.log(1 / settings.delta)
    allowed = math.sqrt(2 * 0.25 * log / N) + 2 * log / (3 * N)
    total = coins.mean(1) if settings.mean else coins.sum(1)
    outside = ((total - 0.5).abs() > allowed).double().mean().item()
    tails = (math.erfc(s / math.sqrt(2)) / (2 * math.exp(-(s**2) / 2)) for s in (0.0, 0.5, 1.0, 2.0, 4.0))
    delta = settings.delta
    hoeffding = "Lemma 1: P(sum - mean >= t) / bound"
    tail = "Lemma 5: largest P(|X - mu| > t sigma) / bound"
    return Finding(
        conclusions=(
            Conclusion(hoeffding, "<=", 1 + error / delta, above / delta, part="Lemma 1"),
            Conclusion("Lemma 2: P(outside)", "<=", delta + error, outside, part="Lemma 2"),
            Conclusion(tail, "<=", 1.0, max(tails), part="Lemma 5"),
        ),
        remark="Lemma 2 has the sum where the mean belongs, and n for N. Lemmas 3 and 4 cannot be tested: r "
        "is not defined in the first, and the function F is missing from the conclusion of the second.",
    )


@claim(
    "P3/trace-and-norm",
    nature="proof step",
    plain="""Printed: Tr W <= |W|. True: the factor sqrt(d) is missing, and two upper bounds do not order
        two traces.""",
    failure=Failure(
        cause="P3/trace-and-norm",
        consequence="the orders of traces in Corollary 1 are not proved",
        first_size="d = 2",
        root="a trace is bounded by a norm",
    ),
    proof=proofs_of_steps.trace_and_norm,
    place="Appendix H, the bounds on Tr W and Tr V",
    title="The trace is at most the norm",
    quote="Tr(W_{t_1}) <= sqrt(Tr(W_{t_1}^T W_{t_1})) = ||W_{t_1}||_F",
    quick={"sizes": [1, 2, 8, 32], "offset": 1.0},
)
def trace_and_norm(settings: Settings, seed: int) -> Finding:
    """Tr W <= |W|_F for every W, and from upper bounds on Tr W and Tr V follows Tr W > Tr V."""
    rng = generator(seed, "matrices")
    ratios = []
    for size in settings.sizes:
        W = settings.offset * torch.eye(size, dtype=torch.float64)
        W = W + 0.1 * torch.randn(size, size, generator=rng, dtype=torch.float64)
        ratios.append((W.trace() / W.norm()).item())
    return Finding(
        conclusions=(Conclusion("largest Tr W / |W|", "<=", 1 + 1e-12, max(ratios)),),
        remark="The right factor is sqrt(d). Two upper bounds do not order two traces.",
    )


@claim(
    "P3/indicator-product",
    nature="proof step",
    plain="""Printed: the indicator of a product is the product of the indicators. False: two negative
        factors have a positive product.""",
    failure=Failure(
        cause="P3/indicator-product",
        consequence="the constants k_1, k_2 of Corollary 1 are not those of the model",
        first_size="d = 1, two negative factors",
        root="an indicator is moved into a product",
    ),
    proof=proofs_of_steps.indicator_product,
    place="Appendix H, term Z",
    title="The activation of a product of matrices",
    quote="[1(X^T Phi diag(w) Phi^T x_L)]_j = [(1(X^T Phi) 1(diag(w)) 1(Phi^T x_L))]_j",
    quick={"d": 4, "tokens": 200, "positive": False},
)
def indicator_product(settings: Settings, seed: int) -> Finding:
    """The indicator of X' Phi diag(w) Phi' x_L is the product of the indicators of its factors."""
    rng = generator(seed, "factors")
    a, b = (torch.randn(settings.tokens, settings.d, generator=rng, dtype=torch.float64) for _ in range(2))
    if settings.positive:
        a, b = a[:, :1].abs(), b[:, :1].abs()
    whole = ((a * b).sum(1) >= 0).double()
    factors = ((a >= 0) & (b >= 0)).double().sum(1)
    share = (whole != factors).double().mean().item()
    return Finding(
        conclusions=(Conclusion("share of tokens where they differ", "<=", 0.0, share),),
        remark="It holds for numbers unless both are negative. Two negative factors have a positive product.",
    )


@claim(
    "P3/descent-contradiction",
    nature="proof step",
    plain="""Printed: the descent argument bounds -<W, W*> by -(R+B)B. True: the bound goes the other way,
        and the start is not near W*; the contradictions of Theorems 2 and 3 do not arise.""",
    failure=Failure(
        cause="P3/descent-contradiction",
        consequence="the proofs of Theorems 2 and 3 fall at this step",
        first_size="the first step, W_0 = 0",
        root="an upper bound is used for a lower one",
    ),
    proof=proofs_of_steps.descent,
    place="Appendices F.2 and G.1, gradient descent towards W* and V*",
    title="The inner product in the descent argument",
    quote="-2 eta_1 lambda (1 - eta_1 lambda)(R + B)B",
    quick={"d": 6, "draws": 200, "radius": 0.5, "start": 0.0},
)
def descent_contradiction(settings: Settings, seed: int) -> Finding:
    """If |W - W*| <= R and |W*| = B, then -<W, W*> <= -(R + B)B; and the start W_0 -> 0 is within R << B of
    W*.
    """
    rng = generator(seed, "directions")
    target = torch.randn(settings.d, generator=rng, dtype=torch.float64)
    B = target.norm()
    R = settings.radius * B
    steps = torch.randn(settings.draws, settings.d, generator=rng, dtype=torch.float64)
    W = target + R * steps / steps.norm(dim=1, keepdim=True)
    excess = ((-(W @ target) + (R + B) * B) / B**2).max().item()
    begin = (settings.start * target - target).norm().item() / R.item()
    return Finding(
        conclusions=(
            Conclusion("largest (-<W, W*> + (R + B)B) / B^2", "<=", 1e-12, excess, part="inner product"),
            Conclusion("|W_0 - W*| / R", "<=", 1.0, begin, part="start"),
        ),
        remark="(R + B)B bounds <W, W*> from above, so its negative bounds -<W, W*> from below. The right "
        "bound is -(B - R)B.",
    )


@claim(
    "P3/definition-6",
    nature="proof step",
    plain="""Printed: V* maps tokens of five classes to five prescribed rows. True: the three tokens are
        linearly dependent, so no such V* exists unless it treats them alike.""",
    failure=Failure(
        cause="P3/definition-6",
        consequence="the proof of Theorem 3 falls: its target V* does not exist",
        first_size="one prompt with two classes of tokens",
        root="the rows of X_2'V* are set freely, but the tokens span a plane",
    ),
    proof=proofs_of_steps.definition_6,
    place="Appendix G.1, Definition 6 and Equation 24",
    title="The optimum V* of the second stage exists",
    quote="and V* satisfies [X_2^T V*]_i = log(1/eps_{V,1})/(r eps_{V,1}) z^T if i in H_1; -2 log(...)...",
    quick={"u": 1.0, "r": 0.2, "factors": [1.0, -2.0, 0.0]},
)
def optimum_exists(settings: Settings, seed: int) -> Finding:
    """There is a V* with x_i'V* = c_i z' for every token, where c_i is 1, -2, 1, -2 or 0 times one number
    for tokens in H_1, H_2, H_3, H_4 or none.
    """
    data = TwoStageData(2, 9, u=settings.u, r=settings.r, seed=seed)
    tokens = data.prototypes
    rows = torch.tensor(settings.factors, dtype=torch.float64)[:, None] * data.z
    V = torch.linalg.pinv(tokens) @ rows
    least_distance = (tokens @ V - rows).norm().item() / settings.u
    return Finding(
        conclusions=(Conclusion("least distance of X_2'V to Equation 24 / |z|", "<=", 1e-9, least_distance),),
        remark="z, z + zeta and z - zeta satisfy (z + zeta) + (z - zeta) = 2z, and so do their rows x'V. "
        "The factors 1, -2 and 0 do so only if all three are equal.",
    )


@claim(
    "P3/equation-18",
    nature="proof step",
    plain="""Printed: with probability 1 - 1/d at most rL sqrt(log d)/u tokens tell z + zeta from z -
        zeta. True: none or at least about a quarter of the prompt does.""",
    failure=Failure(
        cause="P3/equation-18",
        consequence="term Psi in the proof of Theorem 1 falls",
        first_size="d = 45 at r/u = 1/50 with the constant 1; for every constant in the limit only, with r/u "
        "= 1/log d",
        root="Bernstein's inequality is applied to scores that are not independent",
    ),
    proof=proofs_of_patterns.equation_18,
    place="Appendix F.1, Equation 18 (term Psi)",
    title="How many tokens tell z + zeta from z - zeta",
    quote="For sufficiently large L, |eps_t^{X,z-zeta} (+) eps_t^{X,z+zeta}| <~ rL sqrt(log d) / u",
    quick={"dimensions": [64, 256, 1024, 4096], "constant": 2.0, "draws": 4000, "scale": 0.02},
    full={"draws": 40_000},
)
def separating_tokens(settings: Settings, seed: int) -> Finding:
    """With probability 1 - 1/d, at most a constant times r L sqrt(log d)/u tokens have different signs of
    x'V(z + zeta) and x'V(z - zeta), for noise weights V and L = d^2.
    """
    dimensions = settings.dimensions
    shares = [separating_share(settings, d, seed) for d in dimensions]
    expected = [max(d * share, 1e-9) for d, share in zip(dimensions, shares, strict=True)]
    return Finding(
        hypotheses=(Hypothesis("r / u", "<=", 0.05, settings.scale),),
        conclusions=(no_growth("exponent in d of d P(more); d P(more) <= 1", dimensions, expected),),
        numbers=by_size("P(more) at d = {}", dimensions, shares),
        remark="All copies of a token change together: the number is 0 or at least about a quarter of the "
        "prompt, the latter with a probability of order r/u that does not fall with L or d.",
    )


def separating_share(settings: Settings, d: int, seed: int) -> float:
    """Return the fraction of draws with more separating tokens than the bound, in the plane of z and zeta."""
    data = TwoStageData(2, d**2 + 1, u=1.0, r=settings.scale)
    counts = data.sample_q(1, runs=settings.draws, seed=seed).counts[:, 0]
    V = ReluAttention(2, std=1.0, runs=settings.draws, seed=seed).weights.V[:, 0]
    _, plus, minus = (data.prototypes @ V @ data.prototypes.T).unbind(-1)
    tokens = (counts * ((plus >= 0) != (minus >= 0))).sum(-1)
    allowed = settings.constant * settings.scale * d**2 * math.sqrt(math.log(d))
    return (tokens > allowed).double().mean().item()


@claim(
    "P3/norm-from-answer",
    nature="proof step",
    plain="""Printed: a small answer makes V small. True: both displays bound the answer from above; V may
        have any norm.""",
    failure=Failure(
        cause="P3/norm-from-answer",
        consequence="(a.1) of Theorem 1 is not proved; Theorem 3 (term C) and Corollary 1 use it",
        first_size="d = 2: V = -c zz' answers every prompt by 0",
        root="an upper bound on |g| is read as one on |V|",
    ),
    proof=proofs_of_steps.norm_from_answer,
    place="Appendix F.1, the step from |g| to |V|",
    title="A small answer bounds the weights",
    quote="with |g_{t_1}(X_2)| <~ 1/(log d)^{1/4}, we have ||V_{t_1}||_F <= ||V_{t_1}||_F <~ 1/Poly(d)",
    quick={"d": 8, "u": 1.0, "r": 0.1, "hidden": 1.0, "draws": 50},
)
def norm_from_answer(settings: Settings, seed: int) -> Finding:
    """From |g| <= |V|/Poly(d) + 1/Poly(d) and |g| <= (log d)^(-1/4) follows |V| <= 1/Poly(d) up to
    constants.
    """
    data = TwoStageData(settings.d, 33, u=settings.u, r=settings.r, frame="axes")
    V = torch.zeros(settings.d, settings.d, dtype=torch.float64)
    V[2:, 2:] = settings.hidden * torch.eye(settings.d - 2, dtype=torch.float64)
    score = (data.prototypes @ V @ data.prototypes.T).abs().max().item()
    norm = settings.d * V.norm().item()
    return Finding(
        hypotheses=(Hypothesis("largest |x'V x_L|, which bounds |g|", "<=", 1e-12, score),),
        conclusions=(Conclusion("|V| d, of order 1 if |V| is at most 1/d", "<=", 1.0, norm),),
        remark="A V that acts outside the plane of z and zeta answers 0 to every prompt, whatever its norm. "
        "Both displays bound |g| from above; neither bounds |V|.",
    )


@claim(
    "P3/stage-length",
    nature="remark",
    plain="The length of stage 2 is of the printed order if 1/r is polynomial in d.",
    ours=("1/r at most a polynomial in d",),
    place="Section 4.2, discussion on parameter orders",
    title="The length of the second stage",
    quote="the current learning process keeps t_2 = O(Poly(d) (log d)^{7/2} / eta_1)",
    quick={**ASSUMED, "dimensions": [10**3, 10**6, 10**12, 10**24], "decays": 1.0},
)
def stage_length(settings: Settings, seed: int) -> Finding:
    """t_2 = log^2(1/eps) / (eta_2 lambda eps^2) is at most a constant times Poly(d) (log d)^(7/2) / eta_1 if
    1/r is at most a polynomial in d; at L = d^2 the polynomial is d^2.
    """
    ratios = []
    for d in settings.dimensions:
        scale = Assumption1.of(settings, d)
        eps = scale.hard_epsilon
        t2 = math.log(1 / eps) ** 2 / (settings.rate * scale.weight_decay**3 * eps**4 * scale.r)
        ratios.append(t2 * settings.rate / (d ** (2 * settings.decays) * math.log(d) ** 3.5))
    name = "exponent in d of t_2 eta_1 / (d^2 (log d)^(7/2))"
    return Finding(conclusions=(no_growth(name, settings.dimensions, ratios),))
