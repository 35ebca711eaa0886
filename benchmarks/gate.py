"""What the gate at the public entries costs: the same calls with it and without it, by turns in one process.

    python -m benchmarks.gate

One thread, float32, four heads of 64, a prefix of 16 anchors; CPU time, the median of the rounds' ratios with
their quartiles. The import is measured by `python -X importtime`, three processes each.
"""

import inspect
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from attangent import PrefixState, ntk_attention
from attangent._core.gate import is_guarded
from attangent.attention import features
from benchmarks.measure import fixed_threads
from benchmarks.prefix_exponents import seconds

LENGTHS = (1, 32, 256, 1024)
ROUNDS = 41


def guarded() -> Iterator[tuple[Any, str, Any]]:
    """Every place that holds something behind the gate: where, under which name, what."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "attangent":
            continue
        for own, thing in list(vars(module).items()):
            held = [(module, own, thing)]
            if inspect.isclass(thing) and thing.__module__.startswith("attangent"):
                held += [(thing, part, member) for part, member in vars(thing).items()]
            yield from (place for place in held if inspect.isfunction(place[2]) and is_guarded(place[2]))


def switch(places: list[tuple[Any, str, Any]], on: bool) -> None:
    """Put the gate up at all places, or take it away."""
    for where, name, thing in places:
        setattr(where, name, thing if on else thing.__wrapped__)


def work(length: int, backward: bool) -> Callable[[], Any]:
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 4, length, 64, generator=draw).requires_grad_(backward) for _ in range(3))
    keys, values = torch.randn(2, 4, 16, 64, generator=draw)
    state = PrefixState.from_prefix(features.Anchors(keys), keys, values)

    def call() -> Any:
        out = sys.modules["attangent.attention"].ntk_attention(q, k, v, state, causal=True)
        return torch.autograd.grad(out.sum(), [q, k, v]) if backward else out

    return call


def ratios(call: Callable[[], Any], places: list[tuple[Any, str, Any]]) -> list[float]:
    """Time with the gate over time without it, round by round."""
    found = []
    for number in range(ROUNDS):
        taken = {}
        for on in (True, False) if number % 2 else (False, True):
            switch(places, on)
            taken[on] = seconds(call)
        found.append(taken[True] / taken[False])
    switch(places, True)
    return found


def import_milliseconds(module: str) -> dict[str, float]:
    """Milliseconds of `import module`, in all and of the gate's own files: the least of three processes."""
    found: dict[str, list[float]] = {}
    for _ in range(3):
        command = [sys.executable, "-X", "importtime", "-c", f"import {module}"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
        for line in lines:
            own, _, name = (part.strip() for part in line.removeprefix("import time:").split("|"))
            if name in ("attangent._core.gate", "attangent._core.kinds", "attangent._core.arrays"):
                found.setdefault(name, []).append(float(own) / 1000)
        found.setdefault(module, []).append(float(lines[-1].split("|")[1]) / 1000)
    return {name: min(times) for name, times in found.items()}


def main() -> None:
    places = list(guarded())
    assert ntk_attention.__wrapped__ is not ntk_attention
    print(f"{len(places)} guarded places\n\n| call | with / without the gate | quartiles |\n|---|---|---|")
    with fixed_threads(1):
        for length in LENGTHS:
            for backward in (False, True):
                found = ratios(work(length, backward), places)
                low, middle, high = statistics.quantiles(found, n=4)
                what = f"L = {length}, forward{' and backward' if backward else ''}"
                print(f"| {what} | {middle:.3f} | {low:.3f} to {high:.3f} |", flush=True)
    for module in ("attangent", "attangent.attention"):
        print(f"\nimport {module}, ms: {import_milliseconds(module)}")


if __name__ == "__main__":
    main()
