"""Sections 3.2 and 3.3: generalisation to unseen examples and tasks, and why one head cannot."""

from attangent.audit import Conclusion, Figure, Finding, Hypothesis, Series, Settings, claim
from attangent.icl import IN_DOMAIN, OUT_OF_DOMAIN, Dictionary, RidgeLimit, compare_to_ridge, predictor_of
from attangent.icl.compare import Comparison
from attangent.papers.common.figures import plot
from attangent.papers.p4_in_context.claims.dictionary_setting import draw_dictionary, model

_SIZES = {"K": 40, "d": 16, "m": 6, "N": 10, "tau": 0.01}
_TAUS = [0.001, 0.01, 0.1, 1.0]


@claim(
    "P4/multi-head",
    nature="remark",
    plain="One head cannot in general reach the infimum and H >= N heads can, as printed.",
    place="Section 3.3",
    title="One head cannot; H >= N heads suffice",
    quote="it is generally impossible to train a shallow transformer with only one attention head to succeed",
    rests_on=("P4/proposition-1", "P4/equation-66"),
    quick={**_SIZES, "heads": 20, "few_heads": [2, 4, 8], "steps": 150},
    full={"K": 200, "d": 100, "m": 20, "N": 30, "heads": 64, "few_heads": [2, 4, 8, 16], "steps": 150},
    seeds=1,
    seconds=2.0,
)
def one_head_cannot(settings: Settings, seed: int) -> Finding:
    """A single head cannot bring the loss to its infimum, since its mixture has entries of one sign for each
    token; with H >= N heads and Gaussian Q the infimum is reached.
    """
    dictionary = draw_dictionary(settings, seed)
    many = model(settings, seed, dictionary)
    start = many.gap()
    solved = many.fit("solve").gap
    floor = least_gap_of_one_head(dictionary)
    reached = {}
    for H in (1, *settings.few_heads):
        few = model(settings | {"heads": H}, seed, dictionary)
        reached[H] = few.fit("varpro", steps=settings.steps, quiet=True).gap
    most = max(settings.few_heads)
    relative_gap = reached[most] / start
    return Finding(
        hypotheses=(Hypothesis("heads against N", ">=", dictionary.N, settings.heads),),
        conclusions=(
            Conclusion("least gap of any single head", ">=", 1e-12, floor),
            Conclusion(
                "least gap of any single head / gap at the start", ">=", 1e-3, floor / start, threshold="ours"
            ),
            Conclusion("gap with H >= N heads", "<=", 1e-18, solved),
            Conclusion(
                f"gap with {most} < N heads / gap at the start", "<=", 1e-3, relative_gap, claimed=False
            ),
        ),
        numbers={
            "gap at the start": start,
            "least gap of any single head": floor,
            **{f"gap reached with H={H}": gap for H, gap in reached.items()},
        },
        figures=(
            plot(
                "Gap reached by variable projection",
                ("heads H", "gap"),
                Series.of("reached", list(reached), list(reached.values())),
                Series.of("least for one head", [1, most], [floor, floor], "bound"),
            ),
        ),
        remark="The floor for one head holds for every Q and w: the best vectors of one sign, token by "
        "token, by non-negative least squares. Between 1 and N heads there is no such wall.",
    )


def least_gap_of_one_head(dictionary: Dictionary) -> float:
    """(1/2K) sum_k min of |Zbar (s - A_k)|^2 over s >= 0 and s <= 0: no single head has less."""
    from scipy.optimize import nnls

    root = dictionary.Z_bar.numpy()
    wanted = (dictionary.Z_bar @ RidgeLimit(dictionary).A).T.numpy()
    residuals = [min(nnls(root, sign * column)[1] for sign in (1, -1)) for column in wanted]
    return sum(residual**2 for residual in residuals) / (2 * dictionary.K)


@claim(
    "P4/generalization",
    nature="remark",
    plain="""Trained attention answers unseen tokens and unseen tasks like ridge regression; shown with
        another optimiser than gradient descent.""",
    ours=("trained by variable projection",),
    place="Section 3.2",
    title="Generalisation to unseen examples and to unseen tasks",
    quote="the transformer exploits the inherent contextual information ... to predict the unseen tokens",
    quick={**_SIZES, "heads": 20, "lengths": [2, 10], "prompts": 500, "steps": 150, "test_taus": _TAUS},
    full={"K": 200, "d": 100, "m": 20, "lengths": [10, 30], "heads": 64, "prompts": 5000, "steps": 2000},
    seconds=0.8,
    rests_on=("P4/theorem-2",),
)
def generalises(settings: Settings, seed: int) -> Finding:
    """Trained attention infers the template from a prompt and answers tokens that the prompt does not show,
    by ridge regression with the ridge m tau, and does so for tasks outside the distribution it was trained
    on, for prompts shorter and longer than m.
    """
    lines = []
    numbers = {}
    hypotheses = []
    for N in settings.lengths:
        dictionary = draw_dictionary(settings | {"N": N}, seed)
        trained = model(settings, seed, dictionary)
        start = trained.gap()
        trained.fit("varpro", steps=settings.steps, quiet=True)
        hypotheses.append(
            Hypothesis(f"gap / gap at the start after training, N = {N}", "<=", 1e-3, trained.gap() / start)
        )
        for name, tasks in (("known", IN_DOMAIN), ("unseen", OUT_OF_DOMAIN)):
            comparison = compare_to_ridge(predictor_of(trained), dictionary, settings.prompts, tasks, seed)
            lines += _generalisation_lines(comparison, f"{name} tasks, N = {N}", decides=name == "unseen")
            numbers[f"ridge that the answers imply / m tau, {name} tasks, N = {N}"] = (
                comparison.implied_alpha / dictionary.ridge
            )
    return Finding(
        hypotheses=tuple(hypotheses),
        conclusions=tuple(lines),
        differs=("variable projection instead of gradient descent",),
        numbers=numbers,
        figures=(_noise_figure(draw_dictionary(settings, seed), settings.test_taus),),
        remark="Variable projection reaches the limit of gradient descent sooner; P4/theorem-2 runs "
        "gradient descent "
        "itself. The risk is that of ridge regression, with fewer labels than features too; it is no better.",
    )


def _generalisation_lines(comparison: Comparison, where: str, decides: bool) -> list[Conclusion]:
    """Return lines on risks; on the tasks of training ridge regression cannot lose to 0 on average."""
    risk = comparison.risk["predictor"]
    to_ridge = risk / comparison.risk["ridge"]
    to_copying = risk / comparison.risk["nearest neighbour"]
    zero = f"risk on tokens not shown / predicting 0, {where}"
    return [
        Conclusion(zero, "<=", 1 - 1e-9, risk, claimed=decides),
        Conclusion(
            f"risk / that of ridge regression with m tau, {where}", "<=", 1.05, to_ridge, threshold="ours"
        ),
        Conclusion(
            f"risk / copying the nearest token's label, {where}", "<=", 1.0, to_copying, claimed=False
        ),
    ]


def _noise_figure(dictionary: Dictionary, taus: list[float]) -> Figure:
    ours = [RidgeLimit(dictionary).risk(tau=tau) for tau in taus]
    matched = [RidgeLimit(dictionary, alpha=dictionary.m * tau).risk(tau=tau) for tau in taus]
    return plot(
        "Trained with one noise, asked with another",
        ("tau at test time", "risk on tokens not shown"),
        Series.of("trained once", taus, ours),
        Series.of("trained for this tau", taus, matched, "bound"),
    )
