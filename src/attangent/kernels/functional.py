"""Any torch module as a function of some of its parameters, the way torch.func wants it."""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_map

from attangent._core.errors import AttangentError

Points = Tensor | Mapping[str, Tensor]
Parameters = dict[str, Tensor]
Output = Callable[[Any], Any]


@dataclass(frozen=True)
class Functional:
    """F(theta, x): the outputs (n, O) of `module` at points x as a function of the chosen parameters."""

    module: nn.Module
    parameters: Parameters
    output: Output

    @classmethod
    def of(cls, module: Any, params: str | Sequence[str] | None, output: Output | None) -> "Functional":
        _refuse_randomness(module)
        return cls(module, choose_parameters(module, params), output or first_tensor)

    def check_points(self, name: str, x: Points) -> int:
        """How many points there are; refused where the module does not take the first of them."""
        count = count_points(name, x)
        try:
            with torch.no_grad():
                self._call(self.parameters, take(x, slice(0, 1)))
        except Exception as error:
            raise AttangentError(f"the module cannot be called with {name}: {error}") from error
        return count

    def _call(self, parameters: Parameters, x: Points) -> Any:
        arguments, keywords = ((), dict(x)) if isinstance(x, Mapping) else ((x,), {})
        return functional_call(self.module, parameters, arguments, keywords)

    def batch(self, parameters: Parameters, x: Points) -> Tensor:
        """F (n, O) at all points at once."""
        given = self.output(self._call(parameters, x))
        if not isinstance(given, Tensor) or not given.is_floating_point():
            raise AttangentError(
                f"the module's output is {type(given).__name__}, expected a floating tensor (points, ...): "
                "pick one with output=, for example output=lambda out: out.logits[:, -1]"
            )
        return given.flatten(1) if given.ndim > 1 else given[:, None]

    def one(self, parameters: Parameters, x: Points) -> Tensor:
        """F (O,) at one point."""
        alone = {name: value[None] for name, value in x.items()} if isinstance(x, Mapping) else x[None]
        return self.batch(parameters, alone)[0]


def choose_parameters(module: nn.Module, params: str | Sequence[str] | None) -> Parameters:
    """Parameters by name pattern such as "*.attn.*"; the trainable ones where none is given."""
    named = {name: value.detach() for name, value in module.named_parameters()}
    if params is None:
        chosen = {name: named[name] for name, value in module.named_parameters() if value.requires_grad}
        if not chosen:
            raise AttangentError("the module has no trainable parameter: name some with params=")
        return chosen
    patterns = [params] if isinstance(params, str) else list(params)
    if not patterns:
        raise AttangentError("params is empty, expected names or patterns of parameters, or None for all")
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in named):
            close = difflib.get_close_matches(pattern, named, n=3, cutoff=0.4) or list(named)[:3]
            raise AttangentError(
                f"params {pattern!r} matches no parameter; there are {', '.join(close)}, ..."
            )
    return {name: value for name, value in named.items() if any(fnmatchcase(name, p) for p in patterns)}


def count_points(name: str, x: Any) -> int:
    """How many points there are in a tensor (n, ...) or in a mapping of such tensors."""
    tensors = list(x.values()) if isinstance(x, Mapping) else [x]
    if not tensors or not all(isinstance(tensor, Tensor) and tensor.ndim for tensor in tensors):
        raise AttangentError(
            f"{name} is {type(x).__name__}, expected a tensor (points, ...) or a mapping of names to tensors"
        )
    sizes = {len(tensor) for tensor in tensors}
    if len(sizes) != 1 or 0 in sizes:
        raise AttangentError(f"{name} has {sorted(sizes)} points, expected one number of points above 0")
    if any(tensor.is_floating_point() and not torch.isfinite(tensor).all() for tensor in tensors):
        raise AttangentError(f"{name} has NaN or infinite entries: drop or fill those points first")
    return sizes.pop()


def take(x: Points, points: slice | int) -> Points:
    """Some of the points, or one."""
    return {name: value[points] for name, value in x.items()} if isinstance(x, Mapping) else x[points]


def per_point(of_one: Callable[..., Any], parameters: Parameters, x: Points) -> Any:
    """`of_one` (parameters, one point) at all points by vmap, or one by one where vmap cannot follow."""
    try:
        return vmap(of_one, in_dims=(None, 0))(parameters, x)
    except RuntimeError as error:
        if "vmap" not in str(error):
            raise
    alone = [of_one(parameters, take(x, i)) for i in range(count_points("x", x))]
    return tree_map(lambda *values: torch.stack(values), *alone)


def first_tensor(outputs: Any) -> Any:
    """What a module calls its output: a tensor, or the logits or first tensor of a model's output."""
    if isinstance(outputs, Tensor):
        return outputs
    logits = getattr(outputs, "logits", None)
    if isinstance(logits, Tensor):
        return logits
    parts = outputs.values() if isinstance(outputs, Mapping) else outputs
    return next((part for part in parts if isinstance(part, Tensor)), outputs)


@contextmanager
def differentiable_attention() -> Iterator[None]:
    """Attention by plain operations: the fused kernels have no forward mode and no vmap."""
    with sdpa_kernel(SDPBackend.MATH):
        yield


def _refuse_randomness(module: nn.Module) -> None:
    """Dropout or batch statistics make outputs depend on chance or on the other points."""
    for name, part in module.named_modules():
        dropout = isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0
        if part.training and (dropout or isinstance(part, nn.modules.batchnorm._BatchNorm)):
            raise AttangentError(
                f"{name or 'the module'} is a {type(part).__name__} in training mode, expected outputs that "
                "depend on the point alone: call module.eval() first"
            )
