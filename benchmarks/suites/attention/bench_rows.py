"""Prefixes that differ from head to head or from row to row, against as many tokens spread evenly."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from attangent._core.random import generator
from attangent.adapters import NTKConfig, attach, attention_layers, batch
from attangent.attention import PrefixState, RaggedState
from attangent.attention.features import Anchors
from benchmarks.harness.benchmark import Benchmark, Contestant, Goal, Size
from benchmarks.suites.attention.bench_adapters import NEW_TOKENS, bare, decoding, small_llama, smollm2_sized

TOKENS = 64
"""Virtual tokens for each KV head, on average."""
TENANTS = 16
CONFIG = NTKConfig(features="anchors", units="raw", per="kv", size=TOKENS)
OPEN = ExitStack()
"""Keeps the rows of a batch as they are until the process ends."""


def drawn_state(sizes: list[int], layer: Any, seed: int) -> RaggedState:
    draw = generator(seed, f"bench rows {layer.name}")
    keys, values = ([torch.randn(r, layer.key_size, generator=draw) for r in sizes] for _ in range(2))
    return RaggedState.of(keys, values, [torch.rand(r, generator=draw) + 0.5 for r in sizes])


def uneven_sizes(heads: int) -> list[int]:
    """Sizes that fall by a factor from head to head: of four heads, 206, 39, 8 and 3 tokens of 256."""
    shares = torch.tensor([0.2**head for head in range(heads)])
    sizes = (shares / shares.sum() * (TOKENS - 1) * heads).round().long() + 1
    sizes[0] += TOKENS * heads - sizes.sum()
    return sizes.tolist()


def evenly(model: Any, seed: int = 0) -> dict[str, PrefixState]:
    found = {}
    for layer in attention_layers(model):
        state = drawn_state([TOKENS] * layer.kv_heads, layer, seed)
        found[layer.name] = PrefixState(Anchors(state.features.keys), *state.weights())
    return found


def even(model: Any) -> Any:
    return attach(model, CONFIG, states=evenly(model))


def ragged(model: Any) -> Any:
    layers = attention_layers(model)
    states = {layer.name: drawn_state(uneven_sizes(layer.kv_heads), layer, 0) for layer in layers}
    return attach(model, CONFIG, states=states)


def tenants(model: Any) -> Any:
    names = [f"tenant-{i}" for i in range(TENANTS)]
    for seed, name in enumerate(names):
        attach(model, CONFIG, name, states=evenly(model, seed))
    return OPEN.enter_context(batch(model, names))


MODELS: dict[str, tuple[Callable[[], Any], str, int]] = {
    "": (small_llama, "6 layers of 512 (8 heads, 4 KV heads)", 7),
    "-135m": (smollm2_sized, "SmolLM2-135M's sizes with random weights", 7),
}


def _benchmark(
    name: str, model: str, ways: dict[str, Any], batches: list[int], at_most: float, about: str
) -> Benchmark:
    """The last of the ways is to take at most so much of the time of the one before it."""
    config, described, rounds = MODELS[model]
    sizes: list[Size] = [{"B": count} for count in batches]
    *_, against, contestant = ways
    return Benchmark(
        name=name + model,
        about=f"{NEW_TOKENS} tokens, greedily, after a prompt of 32, by a Llama of {described}, B sequences "
        f"at once, float32, with {TOKENS} virtual tokens for each KV head of every layer {about}. The "
        "contestants alternate token by token; the time is the sum of the smallest that each token took in "
        "any round.",
        sizes=sizes,
        contestants=[
            Contestant(way, decoding(config, adapt), same_work=False, in_laps=True)
            for way, adapt in ways.items()
        ],
        baseline=against,
        threads=2,
        rounds=rounds,
        goals=[Goal(contestant, against, size, at_most=at_most) for size in sizes],
    )


BENCHMARKS = [
    *(
        _benchmark(
            "adapters-ragged",
            model,
            {"bare model": bare, "same size": even, "sizes by head": ragged},
            [1, 8],
            1.1,
            "on average, as many for each head or most of them for one",
        )
        for model in MODELS
    ),
    *(
        _benchmark(
            "adapters-tenants",
            model,
            {"bare model": bare, "one prefix": even, "16 prefixes": tenants},
            [TENANTS],
            1.15,
            "that all sequences share, or of which each has its own",
        )
        for model in MODELS
    ),
]
