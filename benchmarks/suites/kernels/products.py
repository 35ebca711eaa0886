"""One product of the tangent kernel with a vector at MiniLM's size, beside one forward and backward pass.

`python -m benchmarks.suites.kernels.products [POINTS]`, beside torch.func's vjp and jvp, and curvlinops
where it is installed. nngeometry knows linear and convolutional layers only, so a prefix state is beyond
it. Interleaved, minima over rounds.
"""

import importlib.util
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from attangent.adapters import NTKConfig, attach
from attangent.kernels.modules import tangent_operator
from attangent.kernels.modules.functional import Functional, differentiable_attention
from attangent.tuning.loading import load_model
from benchmarks.suites.tuning.data import minilm

TOKENS = 24
ROUNDS = 3


def network(points: int) -> tuple[Any, dict[str, torch.Tensor]]:
    """MiniLM with a prefix state in every layer and a head of four classes, and points without padding."""
    model = load_model(minilm(), "classification", ("a", "b", "c", "d"))
    model.requires_grad_(False)
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(1000, 20000, (points, TOKENS), generator=draw)
    attach(model, NTKConfig(modules_to_save=["classifier"]), calibration=[{"input_ids": ids[:32]}])
    return model.eval(), {"input_ids": ids}


def products(model: Any, x: dict[str, torch.Tensor]) -> dict[str, Callable[[], Any]]:
    """What is timed, by name; each gives K v for the same v, but for the first."""
    operator = tangent_operator(model, x)
    v = np.random.default_rng(0).standard_normal(operator.shape[0])
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def forward_backward() -> None:
        torch.autograd.grad(model(**x).logits.square().sum(), parameters)

    function = Functional.of(model, None, None)
    columns = torch.as_tensor(v, dtype=torch.float32).reshape(operator.outputs, -1).T

    def by_torch_func() -> torch.Tensor:
        def outputs(given: dict[str, torch.Tensor]) -> torch.Tensor:
            return function.batch(given, x)

        with differentiable_attention():
            _, pull = torch.func.vjp(outputs, function.parameters)
            (gradient,) = pull(columns)
            return torch.func.jvp(outputs, (function.parameters,), (gradient,))[1]

    found: dict[str, Callable[[], Any]] = {
        "one forward and backward pass": forward_backward,
        "tangent_operator": lambda: operator @ v,
        "torch.func vjp, jvp": by_torch_func,
    }
    if importlib.util.find_spec("curvlinops") is not None:
        found["curvlinops"] = by_curvlinops(model, parameters, x["input_ids"], columns)
    return found


class Logits(nn.Module):
    """The model as a function of one tensor, as curvlinops wants it."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids).logits


def by_curvlinops(
    model: Any, parameters: list[nn.Parameter], ids: torch.Tensor, columns: torch.Tensor
) -> Callable[[], torch.Tensor]:
    """J (J' v) by its two operators."""
    from curvlinops import (  # pyright: ignore[reportMissingImports]
        JacobianLinearOperator,
        TransposedJacobianLinearOperator,
    )

    given = Logits(model), parameters, [(ids, torch.zeros(len(ids)))]
    with differentiable_attention():
        forth = JacobianLinearOperator(*given, check_deterministic=False)
        back = TransposedJacobianLinearOperator(*given, check_deterministic=False)

    def product() -> torch.Tensor:
        with differentiable_attention():
            return forth @ (back @ columns.flatten())

    return product


def main(points: int = 64) -> None:
    torch.set_num_threads(1)
    timed = products(*network(points))
    taken: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(ROUNDS):
        for name, run in timed.items():
            began = time.process_time()
            run()
            taken[name].append(time.process_time() - began)
    base = min(taken["one forward and backward pass"])
    for name, seconds in taken.items():
        least, first = min(seconds), seconds[0]
        print(f"{name}: {least:.3f} s of CPU, {least / base:.2f} of a pass; the first time {first:.3f} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
