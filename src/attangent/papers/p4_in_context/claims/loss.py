"""Lemmas 5 and 6, Equations 26, 27, 34 and 66: the loss in closed form and the matrix it leads to."""

import torch
from torch import Tensor

from attangent.audit import Conclusion, Failure, Finding, Hypothesis, Series, Settings, claim
from attangent.icl import Dictionary, RidgeLimit, Tasks
from attangent.papers.common.figures import plot
from attangent.papers.p4_in_context.claims import proofs
from attangent.papers.p4_in_context.claims.dictionary_setting import (
    EXACT,
    Reparametrised,
    draw,
    draw_dictionary,
    model,
    relative,
    ridge_gram,
)
from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention

_SAMPLED = {"K": 12, "d": 6, "m": 4, "N": 5, "tau": 0.3, "heads": 4, "prompts": 200_000, "tasks": "gaussian"}


@claim(
    "P4/lemma-5",
    nature="misprint",
    plain="""The printed infimum L* lacks the noise m tau of the labels that are not shown. The gap to it,
        and with it every theorem, is not affected.""",
    failure=Failure(
        cause="P4/lemma-5",
        consequence="an additive constant changes; no theorem is affected",
        first_size="m = N = 1, K = 2",
        root="the noise of the unseen labels is left out",
    ),
    proof=proofs.lemma_5,
    place="Appendix B, Lemma 5",
    title="The population loss in closed form",
    quote="the loss function L(theta) could be rewritten into the following equivalent form",
    quick=_SAMPLED,
    full={"prompts": 4_000_000},
)
def population_loss(settings: Settings, seed: int) -> Finding:
    """The loss is (1/2K) sum_k |Zbar delta_k|^2 + L*, with L* as printed: for tokens without labels the
    misfit |z_k|^2 - (Z'z_k)'(Z'Z + m tau I)^-1 (Z'z_k) alone.
    """
    m = _with_weights(settings, seed)
    mean, error = _sampled_loss(m, settings, seed)
    printed = m.gap() + m.limit.printed_least_loss
    return Finding(
        conclusions=(
            Conclusion("printed loss to sample, standard errors", "<=", 4.0, abs(printed - mean) / error),
        ),
        numbers={
            "sample mean": mean,
            "standard error": error,
            "printed": printed,
            "corrected": m.loss(),
            "what is missing, m tau (K - N) / 2K": m.loss() - printed,
        },
        remark="For k > N the label's own noise m tau belongs to c'_k after Eq. 79 as it does to c_k "
        "after Eq. 78. The gap to the minimum, and with it all training, is not affected.",
    )


@claim(
    "P4/lemma-5-repaired",
    nature="misprint",
    plain="With the noise of all labels the loss is that of a large sample.",
    sharp="sharp: an identity",
    title="The population loss with the noise of all labels",
    derivation="""The label y_k of a token without a label in the prompt has noise lambda'eps_k of variance
        m tau, independent of the prompt's labels: E(yhat_k - y_k)^2 = E(yhat_k - lambda'z_k)^2 +
        m tau. c_k after Eq. (78) has it for k <= N, c'_k after Eq. (79) lacks it for k > N. |z|^2 -
        (Z'z)'(Z'Z + m tau I)^-1 Z'z = m tau z'(m tau I + ZZ')^-1 z by the push-through identity.""",
    quick=_SAMPLED,
    sizes=({"K": 12}, {"K": 24}),
)
def population_loss_with_all_noise(settings: Settings, seed: int) -> Finding:
    """The loss is (1/2K) sum_k |Zbar delta_k|^2 + L* with L* = (m tau/2K) sum_(k>N) (1 + z_k'(m tau I +
    ZZ')^-1 z_k): the printed L* plus m tau (K - N)/2K.
    """
    m = _with_weights(settings, seed)
    mean, error = _sampled_loss(m, settings, seed)
    dictionary = m.dictionary
    least = m.limit.printed_least_loss
    least += dictionary.m * dictionary.tau * (dictionary.K - dictionary.N) / (2 * dictionary.K)
    loss_error = abs(m.gap() + least - mean) / error
    return Finding(
        conclusions=(
            Conclusion("loss to sample, standard errors", "<=", 4.0, loss_error),
            Conclusion(
                "relative distance of L* to the closed form", "<=", EXACT, abs(least / m.limit.least_loss - 1)
            ),
        )
    )


def _with_weights(settings: Settings, seed: int) -> OneLayerAttention:
    """Return untrained attention with random weights w."""
    m = model(settings, seed)
    m.w = draw((settings.heads, settings.K), seed, "weights")
    return m


def _sampled_loss(m: OneLayerAttention, settings: Settings, seed: int) -> tuple[float, float]:
    """Return the mean loss over sampled prompts and its standard error."""
    prompts = m.dictionary.prompts(settings.prompts, Tasks(settings.tasks), seed)
    sample = (m.predict(prompts.shown) - prompts.labels).square().mean(dim=1) / 2
    return sample.mean().item(), (sample.std() / len(sample) ** 0.5).item()


_RATES = {"rate_Q": 0.05, "rate_w": 0.4, "steps": 200}


@claim(
    "P4/lemma-6",
    plain="One rate after a change of scale, as printed.",
    place="Appendix B, Lemma 6",
    title="One rate for all parameters after a change of scale",
    quote="Then (10) is equivalent to xi^(t) = xi^(t-1) - eta_Q grad l(xi^(t-1))",
    quick={"K": 8, "d": 5, "m": 3, "N": 4, "tau": 0.1, "heads": 6, **_RATES},
    full={"steps": 5000},
)
def reparametrisation(settings: Settings, seed: int) -> Finding:
    """With gamma = sqrt(eta_w / eta_Q) and alpha = w / gamma, descent with rates eta_Q and eta_w on (Q, w) is
    descent with the one rate eta_Q on (Q, alpha).
    """
    m = model(settings, seed)
    gamma = settings.get("gamma", (settings.rate_w / settings.rate_Q) ** 0.5)
    moved = Reparametrised(m.dictionary, m.limit.A, gamma)
    Q = m.Q.clone()
    alpha = m.w / gamma
    start = Q.clone()
    gaps = [moved.gap(Q, alpha)]
    for _ in range(settings.steps):
        dQ, dalpha = moved.gradient(Q, alpha)
        Q = Q - settings.rate_Q * dQ
        alpha = alpha - settings.rate_Q * dalpha
        gaps.append(moved.gap(Q, alpha))
    run = m.fit("gd", steps=settings.steps, rate_Q=settings.rate_Q, rate_w=settings.rate_w)
    return Finding(
        conclusions=(
            Conclusion(
                "distance of Q, relative to its movement", "<=", 1e-8, relative(m.Q - start, Q - start)
            ),
            Conclusion("relative distance of w to gamma alpha", "<=", 1e-8, relative(m.w, gamma * alpha)),
        ),
        numbers={"gamma": gamma, "gap at the end": run.gap},
        figures=(
            plot(
                "The two descents",
                ("step", "gap"),
                Series.of("(Q, w) with two rates", run.steps, run.gaps),
                Series.of("(Q, alpha) with one", range(len(gaps)), gaps, "bound"),
                log="y",
            ),
        ),
    )


@claim(
    "P4/equation-26",
    nature="remark",
    plain="""(26) gives every label, as printed; that A becomes Z^+ Zhat is false for N > m on the
        prompt's own tokens, where A tends to the identity.""",
    failure=Failure(
        cause="P4/equation-26",
        consequence="an interpretation changes; nothing uses it",
        first_size="N = 2, m = 1",
        root="the pseudo-inverse is taken for the limit of A",
    ),
    proof=proofs.equation_26,
    place="Section 3.3, Equation (26)",
    title="Without noise the pseudo-inverse gives every label",
    quote="""In this case, A becomes Z^+ Zhat, ... the label of each token v_k could be represented by the
        inner product""",
    quick={"K": 20, "d": 6, "m": 5, "N": 8, "tau": 0.0, "prompts": 100},
)
def without_noise(settings: Settings, seed: int) -> Finding:
    """With tau = 0 and N >= m the matrix A becomes Z^+ Zhat, and y_k = <y, Z^+ Zhat_k> for every token."""
    dictionary = draw_dictionary(settings, seed)
    prompts = dictionary.prompts(settings.prompts, seed=seed)
    printed = torch.linalg.pinv(dictionary.Z) @ dictionary.features.T
    small = RidgeLimit(dictionary.with_noise(1e-9)).A
    N = dictionary.N
    label_error = relative(prompts.shown @ printed, prompts.clean)
    token_error = relative(small[:, :N], printed[:, :N])
    query_error = relative(small[:, N:], printed[:, N:])
    limit = "distance of Z^+ Zhat to A as tau goes to 0"
    return Finding(
        hypotheses=(
            Hypothesis("N against m", ">=", dictionary.m, N),
            Hypothesis("tau", "==", 0.0, dictionary.tau),
        ),
        conclusions=(
            Conclusion("relative error of <y, Z^+ Zhat_k>", "<=", EXACT, label_error, part="(26)"),
            Conclusion(f"{limit}, tokens without labels", "<=", 1e-6, query_error, part="(26)"),
            Conclusion("the same on the prompt's own tokens", "<=", 1e-6, token_error, part="A becomes"),
        ),
        remark="On the prompt's own tokens A tends to the identity, not to Z^+ Z, a projection of rank m "
        "< N; both give the same labels without noise.",
    )


@claim(
    "P4/equation-26-repaired",
    nature="remark",
    plain="As tau goes to 0, A tends to (I, Z^+ Z^Q).",
    sharp="sharp: the limit is exact",
    title="The limit matrix without noise",
    derivation="""(66) has the identity on the prompt's own tokens for every tau, and Z'(m tau I + ZZ')^-1
        tends to Z^+ if Z has rank m. Without noise y = Z'lambda, and y'Z^+ = lambda' since Z Z^+ = I.""",
    quick={"K": 20, "d": 6, "m": 5, "N": 8, "tau": 0.0, "prompts": 100},
    sizes=({"N": 8}, {"N": 12}),
)
def limit_without_noise(settings: Settings, seed: int) -> Finding:
    """As tau goes to 0 with N >= m, A tends to (I, Z^+ Z^Q), and <y, A_k> is the label of every token."""
    dictionary = draw_dictionary(settings, seed)
    prompts = dictionary.prompts(settings.prompts, seed=seed)
    N = dictionary.N
    on_queries = torch.linalg.pinv(dictionary.Z) @ dictionary.Z_query
    limit = torch.cat((torch.eye(N, dtype=torch.float64), on_queries), dim=1)
    label_error = relative(prompts.shown @ limit, prompts.clean)
    small = RidgeLimit(dictionary.with_noise(1e-9)).A
    return Finding(
        conclusions=(
            Conclusion("distance of A to (I, Z^+ Z^Q) as tau goes to 0", "<=", 1e-6, relative(small, limit)),
            Conclusion("relative error of <y, A_k>", "<=", EXACT, label_error),
        )
    )


@claim(
    "P4/equation-66",
    nature="proof step",
    plain="Both forms of the limit matrix agree, and its answers are ridge regression.",
    place="Appendix C, Equations (27), (34), (66), (67)",
    title="The limit matrix in two forms, and the ridge in it",
    quote="in the proof of Theorem 2, we show that y*_k = <y, A_{:,k}>",
    quick={"K": 30, "d": 8, "m": 6, "N": 10, "tau": 0.05, "prompts": 20, "alpha_factor": 1.0},
    full={"K": 200, "d": 100, "m": 20, "N": 30, "tau": 0.01},
)
def limit_in_two_forms(settings: Settings, seed: int) -> Finding:
    """(Z'Z + m tau I)^-1 (Z'Zhat + (m tau I, 0)) equals (I, Z'(m tau I + ZZ')^-1 Z^Q), and A'y is the labels
    shown followed by the answers of ridge regression with the template (m tau I + ZZ')^-1 Z y.
    """
    dictionary = draw_dictionary(settings, seed)
    y = dictionary.prompts(settings.prompts, seed=seed).shown
    A = _equation_34(dictionary)
    short = _equation_66(dictionary, settings.alpha_factor * dictionary.ridge)
    solved = _ridge_by_scikit_learn(dictionary, y, settings.alpha_factor * dictionary.ridge)
    shown_error = relative((y @ A)[:, : dictionary.N], y)
    ridge_error = relative((y @ A)[:, dictionary.N :], solved)
    limit_error = relative(RidgeLimit(dictionary).A, A)
    return Finding(
        conclusions=(
            Conclusion("relative distance of (34) and (66)", "<=", EXACT, relative(A, short)),
            Conclusion("labels shown that come back, relative distance", "<=", EXACT, shown_error),
            Conclusion("relative distance to scikit-learn's Ridge", "<=", EXACT, ridge_error),
            Conclusion("relative distance of RidgeLimit to (34)", "<=", EXACT, limit_error, claimed=False),
        )
    )


def _equation_34(dictionary: Dictionary) -> Tensor:
    eye = torch.eye(dictionary.N, dictionary.K, dtype=torch.float64)
    return torch.linalg.solve(dictionary.M, dictionary.Z.T @ dictionary.features.T + dictionary.ridge * eye)


def _equation_66(dictionary: Dictionary, alpha: float) -> Tensor:
    queries = dictionary.Z.T @ torch.linalg.solve(ridge_gram(dictionary.Z, alpha), dictionary.Z_query)
    return torch.cat([torch.eye(dictionary.N, dtype=torch.float64), queries], dim=1)


def _ridge_by_scikit_learn(dictionary: Dictionary, y: Tensor, alpha: float) -> Tensor:
    from sklearn.linear_model import Ridge

    ridge = Ridge(alpha=alpha, fit_intercept=False).fit(dictionary.Z.T.numpy(), y.T.numpy())
    return torch.from_numpy(ridge.predict(dictionary.Z_query.T.numpy())).T


@claim(
    "P4/equation-33",
    nature="misprint",
    plain="""(33) prints z_k for Z'z_k; (34) and (66) have it right, and nothing uses (33) as printed.
        (56) and D.3 have slips of the same kind.""",
    failure=Failure(
        cause="P4/equation-33",
        consequence="a misprint in a definition; nothing uses it as printed",
        first_size="m = N = 1, z other than 0 and 1",
        root="z_k is printed for Z'z_k",
    ),
    proof=proofs.equation_33,
    ours=("m = N, so that the dimensions fit",),
    place="Appendix B, Equation (33)",
    title="The definition of delta",
    quote="delta_k := sum_h w_{h,k} s_k^h - (Z^T Z + m tau I)^{-1} (z_k + m tau e_k)",
    quick={"K": 7, "d": 5, "m": 4, "N": 4, "tau": 0.3, "heads": 3, "transposed": False},
)
def printed_delta(settings: Settings, seed: int) -> Finding:
    """With delta_k as printed, the loss gap of Lemma 5 is (1/2K) sum_k |Zbar delta_k|^2 (m = N, so that the
    dimensions fit).
    """
    m = _with_weights(settings, seed)
    dictionary = m.dictionary
    features = dictionary.features.T
    shown = dictionary.Z.T @ features if settings.transposed else features
    eye = torch.eye(dictionary.N, dictionary.K, dtype=torch.float64)
    target = torch.linalg.solve(dictionary.M, shown + dictionary.ridge * eye)
    D = torch.einsum("hk,hnk->nk", m.w, m.attention()) - target
    gap = ((D * (dictionary.M @ D)).sum() / (2 * dictionary.K)).item()
    return Finding(
        conclusions=(Conclusion("relative error of the gap", "<=", EXACT, abs(gap / m.gap() - 1)),),
        remark="Z'z_k belongs where z_k is printed; (34) and (66) have it right. (56) prints z_j for "
        "zbar_j, and D.3 tau^2 for tau, in the same way.",
    )


@claim(
    "P4/equation-37",
    nature="lemma",
    plain="The loss converges to its infimum if and only if the mixtures converge to A, as printed.",
    ours=("tau > 0",),
    place="Appendix B, Equations (37) and (38)",
    title="When the loss converges to its infimum",
    quote="the necessary and sufficient condition for L(theta^(t)) to converge to L* during training is",
    quick={"K": 8, "d": 5, "m": 3, "N": 6, "tau": 0.1, "heads": 4, "points": 50, "inverted": False},
)
def gap_and_distance(settings: Settings, seed: int) -> Finding:
    """The gap lies between lambda_min(M) and lambda_max(M) times |Ahat - A|^2 / 2K with M = Z'Z + m tau I, so
    that the loss converges to L* if and only if all delta_k tend to 0.
    """
    m = model(settings, seed)
    low, *_, high = torch.linalg.eigvalsh(m.dictionary.M).tolist()
    ratios = []
    for i in range(settings.points):
        m.w = 10.0 ** (i % 5 - 2) * draw((settings.heads, settings.K), seed + i, "weights")
        D = torch.einsum("hk,hnk->nk", m.w, m.attention()) - m.limit.A
        ratios.append(m.gap() * 2 * settings.K / D.square().sum().item())
    low, high = (1 / high, 1 / low) if settings.inverted else (low, high)
    return Finding(
        hypotheses=(Hypothesis("m tau", ">=", 1e-12, m.dictionary.ridge),),
        conclusions=(
            Conclusion("least gap / (|Ahat - A|^2 / 2K)", ">=", low * (1 - 1e-9), min(ratios)),
            Conclusion("largest gap / (|Ahat - A|^2 / 2K)", "<=", high * (1 + 1e-9), max(ratios)),
        ),
    )
