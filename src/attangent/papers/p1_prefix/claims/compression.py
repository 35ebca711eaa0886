"""Appendix C: prompts compressed into Z and k."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.adapters.call import AttentionCall
from attangent.attention import PrefixState, merge_prefix
from attangent.attention.backends.torch.portable import merged
from attangent.attention.features import Elu, FeatureMap, Printed, Taylor
from attangent.audit import Conclusion, Figure, Finding, Series, Settings, claim
from attangent.compression.prompt_cache import prompt_part
from attangent.papers.common.figures import plot
from attangent.papers.p1_prefix.prompt_states import fit_layer


class BigramReader(nn.Module):
    """One layer of attention that learns in context which symbol follows which.

    A token is the pair (previous symbol, symbol). A query looks for tokens whose first symbol is its own, and
    their value holds the second. There are H heads of size d, and all weights are trained.
    """

    def __init__(self, symbols: int, heads: int, dim: int, seed: int):
        super().__init__()
        self.symbols = symbols
        self.heads = heads
        self.dim = dim
        draw = generator(seed, "bigram reader")

        def weights(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(shape, generator=draw) / math.sqrt(dim))

        self.query = weights(heads, symbols, dim)
        self.key = weights(heads, 2 * symbols, dim)
        self.value = weights(heads, 2 * symbols, dim)
        self.out = weights(heads, dim, symbols)
        self.skip = weights(symbols, symbols)

    def call(self, text: Tensor) -> AttentionCall:
        """Return the attention call of text (B, L + 1) over its last L tokens."""
        before, now = (F.one_hot(part, self.symbols).float() for part in (text[:, :-1], text[:, 1:]))
        pair = torch.cat([before, now], dim=-1)
        q = torch.einsum("bls,hsd->bhld", now, self.query)
        k, v = (torch.einsum("blp,hpd->bhld", pair, weight) for weight in (self.key, self.value))
        return AttentionCall("attention", q, k, v, None, True, self.dim**-0.5, None)

    def logits(self, text: Tensor, attended: Tensor) -> Tensor:
        """Return the next symbol's logits (B, L, symbols) from the output (B, H, L, d) of attention."""
        now = F.one_hot(text[:, 1:], self.symbols).float()
        return torch.einsum("bhld,hds->bls", attended, self.out) + now @ self.skip


def draw_text(symbols: int, texts: int, length: int, tables: Tensor, seed: int, stream: str) -> Tensor:
    """Draw symbols (texts, length) from Markov chains with these tables (texts or 1, symbols, symbols)."""
    draw = generator(seed, stream)
    rows = torch.arange(texts) % len(tables)
    columns = [torch.randint(0, symbols, (texts,), generator=draw)]
    for _ in range(length - 1):
        columns.append(torch.multinomial(tables[rows, columns[-1]], 1, generator=draw)[:, 0])
    return torch.stack(columns, dim=1)


def draw_tables(symbols: int, count: int, seed: int, stream: str) -> Tensor:
    """Draw transition probabilities (count, symbols, symbols) with a few likely successors per symbol."""
    logits = torch.randn(count, symbols, symbols, generator=generator(seed, stream))
    return (3 * logits).softmax(dim=-1)


def trained_reader(symbols: int, heads: int, dim: int, steps: int, seed: int) -> BigramReader:
    """Train the model for `steps` of Adam on new texts, each drawn from another table."""
    model = BigramReader(symbols, heads, dim, seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    tables = draw_tables(symbols, 32 * steps, seed, "training tables").split(32)
    for step, table in enumerate(tables):
        text = draw_text(symbols, 32, 98, table, seed, f"training text {step}")
        call = model.call(text[:, :-1])
        logits = model.logits(text[:, :-1], call.tokens()[0])
        loss = F.cross_entropy(logits.flatten(0, 1), text[:, 2:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.requires_grad_(False)


@dataclass(frozen=True)
class Compression:
    """A prompt, calibration text to fit on, and held-out text to measure on."""

    model: BigramReader
    keys: Tensor
    values: Tensor
    calibration: Tensor
    held_out: Tensor

    @classmethod
    def draw(cls, model: BigramReader, length: int, texts: int, seed: int) -> "Compression":
        """Draw a prompt of `length` tokens and 2 x `texts` texts of 32 tokens, all from one new table."""
        table = draw_tables(model.symbols, 1, seed, "prompt's table")
        prompt = model.call(draw_text(model.symbols, 1, length + 1, table, seed, "prompt"))
        text = draw_text(model.symbols, 2 * texts, 33, table, seed, "text behind the prompt")
        return cls(model, prompt.k[0], prompt.v[0], text[:texts], text[texts:])

    def by_formula(self, features: FeatureMap) -> PrefixState:
        """Return Z and k by Eq. (7)."""
        return PrefixState.from_prefix(features, self.keys, self.values)

    def fitted(self, method: str, size: int) -> PrefixState:
        """Return Z and k fitted on the calibration text."""
        call = self.model.call(self.calibration)
        valid = torch.ones(call.q.shape[0], call.q.shape[2], dtype=torch.bool)
        state = fit_layer(call, valid, self.keys, self.values, size, method)
        if not isinstance(state, PrefixState):
            raise AttangentError(f"{method} gave its heads states of several sizes, expected one size")
        return state

    def ratio(self, state: PrefixState) -> float:
        """KL(full prompt || state) / KL(full prompt || no prompt), each a mean over the held-out text."""
        call = self.model.call(self.held_out)
        output, lse = call.tokens()
        full = merged((output, lse), prompt_part(call, self.keys, self.values))[0]
        with_state = merge_prefix(call.q, output, lse, state, call.scale)
        reference, with_state, without = (
            self.model.logits(self.held_out, x).log_softmax(-1) for x in (full, with_state, output)
        )
        return _divergence(reference, with_state) / _divergence(reference, without)


def _divergence(full: Tensor, other: Tensor) -> float:
    return (full.exp() * (full - other)).sum(dim=-1).mean().item()


def equivalents(state: PrefixState) -> float:
    """Return the size of the state in tokens of a KV cache: its numbers over those of a key and a value."""
    return state.number_of_floats / state.heads / (state.features.dim + state.Z.shape[-1])


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
    quote="we can compress prompts into Z and k if phi(.) by utilizing Lemma J.7",
    rests_on=("P1/equation-7", "P1/lemma-j.7"),
    nature="remark",
    plain="""The paper says that a prompt can be compressed into Z and k. A toy reader keeps part of the
        prompt's effect, more with more features.""",
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
    """With the polynomial features of Lemma J.7 a prompt can be compressed into Z and k. A state smaller than
    the prompt's keys and values keeps part of the prompt's effect on the output, and more of it with more
    features.
    """
    model = trained_reader(settings.symbols, settings.heads, settings.d, settings.steps, seed)
    problem = Compression.draw(model, settings.m, settings.texts, seed)
    formula = {name: problem.by_formula(make(settings.d)) for name, make in FORMULA.items()}
    formula["elu, fitted"] = problem.fitted("elu", settings.d)
    fitted = {
        name: [problem.fitted(method, size) for size in settings.sizes] for name, method in FITTED.items()
    }
    last = {**formula, **{name: states[-1] for name, states in fitted.items()}}
    ratios = {name: problem.ratio(state) for name, state in last.items()}
    curves = {name: [problem.ratio(state) for state in states] for name, states in fitted.items()}
    low, high = settings.polynomial
    relative_size = equivalents(last[low]) / settings.m
    return Finding(
        conclusions=(
            Conclusion(f"size of the state / size of the prompt, {low}", "<=", 1.0, relative_size),
            Conclusion(f"KL ratio (1 means no effect), {low}", "<=", 1.0, ratios[low]),
            Conclusion(f"KL ratio, {high} / lower order", "<=", 1.0, ratios[high] / ratios[low]),
            *(
                Conclusion(
                    f"KL ratio, {name}, size of {equivalents(last[name]):.0f} of {settings.m} tokens",
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
            **{f"KL ratio, {name}": ratio for name, ratio in ratios.items()},
            **{f"size in tokens, {name}": equivalents(state) for name, state in last.items()},
        },
        figures=(_ratio_figure(settings, formula, ratios, fitted, curves), _cost_figure(settings)),
        differs=("a one-layer reader of bigrams instead of a language model",),
        remark="A KL ratio of 0 keeps the full effect of the prompt, 1 none of it. The paper's Z is d x d, "
        "but Lemma J.7 prints up to C(2(g + d), 2g) features, of which C(g + d, g) are enough. The authors' "
        "map has d features, is not one of that lemma and loses most of the effect. Exponential features at "
        "tokens of the prompt, with fitted masses and values, keep the effect in a far smaller state.",
    )


def _ratio_figure(
    settings: Settings,
    formula: dict[str, PrefixState],
    ratios: dict[str, float],
    fitted: dict[str, list[PrefixState]],
    curves: dict[str, list[float]],
) -> Figure:
    sizes = {name: [equivalents(state) for state in states] for name, states in fitted.items()}
    return plot(
        f"Effect of a prompt of {settings.m} tokens that a state keeps",
        ("size of the state, in tokens of a KV cache", "KL from the full prompt, relative to no prompt"),
        *(Series.of(name, sizes[name], curve) for name, curve in curves.items()),
        *(
            Series.of(name, [equivalents(state)], [ratios[name]], kind="points")
            for name, state in formula.items()
        ),
        Series.of("no prompt", [settings.sizes[0], settings.m], [1.0, 1.0], kind="bound"),
    )


def _cost_figure(settings: Settings) -> Figure:
    """Draw the multiplications per decoding step and head: 2 m d with the prompt, 2 r d with its state."""
    lengths = [2**i for i in range(6, 16)]
    r = settings.sizes[-1]
    return plot(
        "Cost of a decoding step over the length of the prompt",
        ("tokens of the prompt", "multiplications per head"),
        Series.of("with the prompt", lengths, [2 * m * settings.d for m in lengths]),
        Series.of(f"with {r} anchors", lengths, [2 * r * settings.d for _ in lengths]),
    )
