"""Appendix C: prompts compressed into Z and k."""

from collections.abc import Callable

from attangent.attention import PrefixState
from attangent.attention.features import Elu, FeatureMap, Printed, Taylor
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Series
from attangent.audit.registry import claim
from attangent.papers.p1_prefix.claims.trained_reader import Compression, equivalents, trained_reader

FORMULA: dict[str, Callable[[int], FeatureMap]] = {
    "elu, Eq. (7)": Elu,
    "printed map, Eq. (7)": Printed,
    "Taylor of order 2, Eq. (7)": lambda d: Taylor(d, 2),
    "Taylor of order 4, Eq. (7)": lambda d: Taylor(d, 4),
}
FITTED = {"anchors, fitted": "anchors", "tokens selected": "select", "tokens merged": "merge"}


@claim(
    "P1/appendix-c-compression",
    place="Appendix C, What is NTK-Attention used for?",
    title="Prompts can be compressed into Z and k",
    kind="experiment",
    quote="we can compress prompts into Z and k if phi(.) by utilizing Lemma J.7",
    rests_on=("P1/equation-7", "P1/lemma-j.7"),
    statement="""With the polynomial features of Lemma J.7 a prompt can be compressed into Z and k: a state
        smaller than the prompt's keys and values keeps a part of its effect on what the model says, and more
        with more features.""",
    quick={
        "symbols": 12,
        "heads": 2,
        "d": 8,
        "steps": 100,
        "m": 512,
        "texts": 16,
        "sizes": [6, 8, 16, 32, 64],
        "polynomial": ["Taylor of order 2, Eq. (7)", "Taylor of order 4, Eq. (7)"],
        "tolerance": 0.25,
    },
    full={"symbols": 16, "steps": 200, "m": 1024, "sizes": [8, 16, 32, 64, 128]},
    seconds=3.0,
)
def appendix_c_compression(settings: Settings, seed: int) -> Finding:
    problem = _compression(settings, seed)
    formula = {name: problem.by_formula(make(settings.d)) for name, make in FORMULA.items()}
    formula["elu, fitted"] = problem.fitted("elu", settings.d)
    fitted = {
        name: [problem.fitted(method, size) for size in settings.sizes] for name, method in FITTED.items()
    }
    last = {**formula, **{name: states[-1] for name, states in fitted.items()}}
    ratios = {name: problem.ratio(state) for name, state in last.items()}
    curves = {name: [problem.ratio(state) for state in states] for name, states in fitted.items()}
    low, high = settings.polynomial
    return Finding(
        conclusions=(
            Conclusion(
                f"size of the state over that of the prompt, {low}",
                "<=",
                1.0,
                equivalents(last[low]) / settings.m,
            ),
            Conclusion(f"KL ratio (1: no effect is left), {low}", "<=", 1.0, ratios[low]),
            Conclusion(
                f"KL ratio, {high}, over that of the lower order", "<=", 1.0, ratios[high] / ratios[low]
            ),
            *(
                Conclusion(
                    f"KL ratio, {name}, as large as {equivalents(last[name]):.0f} of {settings.m} tokens",
                    "<=",
                    settings.tolerance,
                    ratio,
                    threshold="ours" if name in settings.polynomial else "stated",
                    claimed=name in settings.polynomial,
                )
                for name, ratio in ratios.items()
            ),
        ),
        numbers={
            **{f"ratio, {name}": ratio for name, ratio in ratios.items()},
            **{f"size in tokens, {name}": equivalents(state) for name, state in last.items()},
        },
        figures=(
            _ratio_figure(settings, formula, ratios, fitted, curves),
            _cost_figure(settings),
        ),
        remark="Ratio 0 keeps the prompt's whole effect, 1 none of it. The sentence has Z of d x d, which "
        "Lemma J.7's features, C(d + g, g) of them, do not fit; the authors' map, which does, is "
        "not one of that lemma's and loses most of the effect. Exponential features at tokens of "
        "the prompt, with masses and values fitted to attention itself, keep it in a state far "
        "smaller.",
    )


def _compression(settings: Settings, seed: int) -> Compression:
    model = trained_reader(settings.symbols, settings.heads, settings.d, settings.steps, seed)
    return Compression.draw(model, settings.m, settings.texts, seed)


def _ratio_figure(
    settings: Settings,
    formula: dict[str, PrefixState],
    ratios: dict[str, float],
    fitted: dict[str, list[PrefixState]],
    curves: dict[str, list[float]],
) -> Figure:
    sizes = {name: [equivalents(state) for state in states] for name, states in fitted.items()}
    return Figure(
        title=f"What a state keeps of a prompt of {settings.m} tokens",
        x_label="size of the state, in tokens of a KV cache",
        y_label="KL from the full prompt, relative to no prompt",
        series=(
            *(Series.of(name, sizes[name], curve) for name, curve in curves.items()),
            *(
                Series.of(name, [equivalents(state)], [ratios[name]], kind="points")
                for name, state in formula.items()
            ),
            Series.of("no prompt", [settings.sizes[0], settings.m], [1.0, 1.0], kind="bound"),
        ),
        log_x=True,
        log_y=True,
    )


def _cost_figure(settings: Settings) -> Figure:
    """Multiplications of one decoding step for one head: 2 m d with the prompt, 2 r d with its state."""
    lengths = [2**i for i in range(6, 16)]
    r = settings.sizes[-1]
    return Figure(
        title="Cost of a decoding step against the length of the prompt",
        x_label="tokens of the prompt",
        y_label="multiplications a head",
        series=(
            Series.of("with the prompt", lengths, [2 * m * settings.d for m in lengths]),
            Series.of(f"with {r} anchors", lengths, [2 * r * settings.d for _ in lengths]),
        ),
        log_x=True,
        log_y=True,
    )
