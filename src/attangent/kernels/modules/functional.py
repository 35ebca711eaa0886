"""Any torch module as a function of some of its parameters, as torch.func needs it."""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_map

from attangent._core.errors import AttangentError

Points = Tensor | Mapping[str, Tensor]
Parameters = dict[str, Tensor]
Output = Callable[[Any], Tensor]


@dataclass(frozen=True)
class Functional:
    """F(theta, x): the outputs (n, O) of `module` at points x as a function of the chosen parameters."""

    module: nn.Module
    parameters: Parameters
    output: Output

    @classmethod
    def of(cls, module: nn.Module, params: str | Sequence[str] | None, output: Output | None) -> "Functional":
        """Check the module and choose its parameters."""
        _refuse_randomness(module)
        return cls(module, choose_parameters(module, params), output or first_tensor)

    def check_points(self, name: str, x: Points) -> int:
        """Return the number of points; raise an AttangentError if the module cannot take the first one."""
        count = count_points(name, x)
        try:
            with torch.no_grad():
                self._call(self.parameters, take(x, slice(0, 1)))
        except Exception as error:
            raise AttangentError(f"the module cannot be called with {name}: {error}") from error
        return count

    def _call(self, parameters: Parameters, x: Points) -> Any:
        if isinstance(x, Mapping):
            return functional_call(self.module, parameters, (), dict(x))
        return functional_call(self.module, parameters, (x,))

    def batch(self, parameters: Parameters, x: Points) -> Float[Tensor, "n O"]:
        """Compute F (n, O) at all points at once."""
        outputs = self.output(self._call(parameters, x))
        if not isinstance(outputs, Tensor) or not outputs.is_floating_point():
            raise AttangentError(
                f"the module's output is {type(outputs).__name__}, expected a floating tensor (points, ...): "
                "pick one with output=, for example output=lambda out: out.logits[:, -1]"
            )
        return outputs.flatten(1) if outputs.ndim > 1 else outputs[:, None]

    def at_point(self, parameters: Parameters, x: Points) -> Float[Tensor, " O"]:
        """Compute F (O,) at one point."""
        # Modules expect a batch: add an axis of one point and remove it again.
        alone = {name: value[None] for name, value in x.items()} if isinstance(x, Mapping) else x[None]
        return self.batch(parameters, alone)[0]


def choose_parameters(module: nn.Module, params: str | Sequence[str] | None) -> Parameters:
    """Return the parameters that match name patterns such as "*.attn.*", by default the trainable ones."""
    named = {name: value.detach() for name, value in module.named_parameters()}
    if params is None:
        chosen = {name: named[name] for name, value in module.named_parameters() if value.requires_grad}
        if not chosen:
            raise AttangentError("the module has no trainable parameter: choose some with params=")
        return chosen
    patterns = [params] if isinstance(params, str) else list(params)
    if not patterns:
        raise AttangentError("params is empty, expected names or patterns of parameters, or None for all")
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in named):
            # Long models have hundreds of names: suggest similar ones and not all.
            close = difflib.get_close_matches(pattern, named, n=3, cutoff=0.4) or list(named)[:3]
            raise AttangentError(
                f"params {pattern!r} matches no parameter; there are {', '.join(close)}, ..."
            )
    return {name: value for name, value in named.items() if any(fnmatchcase(name, p) for p in patterns)}


def count_points(name: str, x: Any) -> int:
    """Return the number of points in a tensor (n, ...) or in a mapping of such tensors."""
    tensors = list(x.values()) if isinstance(x, Mapping) else [x]
    if not tensors or not all(isinstance(tensor, Tensor) and tensor.ndim for tensor in tensors):
        raise AttangentError(
            f"{name} is {type(x).__name__}, expected a tensor (points, ...) or a mapping of names to tensors"
        )
    sizes = {len(tensor) for tensor in tensors}
    if len(sizes) != 1 or 0 in sizes:
        raise AttangentError(
            f"{name} has {sorted(sizes)} points, expected the same number above 0 in every tensor"
        )
    if any(tensor.is_floating_point() and not torch.isfinite(tensor).all() for tensor in tensors):
        raise AttangentError(f"{name} has NaN or infinite entries: drop or fill those points first")
    return sizes.pop()


def take(x: Points, points: slice | int) -> Points:
    """Select some points, or one."""
    return {name: value[points] for name, value in x.items()} if isinstance(x, Mapping) else x[points]


def per_point(function: Callable[..., Any], parameters: Parameters, x: Points) -> Any:
    """Apply `function` (parameters, one point) to all points by vmap, or one by one if vmap fails."""
    try:
        return vmap(function, in_dims=(None, 0))(parameters, x)
    except RuntimeError as error:
        # Data-dependent control flow and operators without a batching rule; all else is a real error.
        if "vmap" not in str(error):
            raise
    alone = [function(parameters, take(x, i)) for i in range(count_points("x", x))]
    return tree_map(lambda *values: torch.stack(values), *alone)


def first_tensor(outputs: Any) -> Any:
    """Return the tensor in a module's output: itself, the logits, or the first tensor."""
    if isinstance(outputs, Tensor):
        return outputs
    logits = getattr(outputs, "logits", None)
    if isinstance(logits, Tensor):
        return logits
    items = outputs.values() if isinstance(outputs, Mapping) else outputs
    return next((item for item in items if isinstance(item, Tensor)), outputs)


@contextmanager
def differentiable_attention() -> Iterator[None]:
    """Use plain attention operations: the fused kernels support neither forward mode nor vmap."""
    with sdpa_kernel(SDPBackend.MATH):
        yield


def _refuse_randomness(module: nn.Module) -> None:
    """Raise an AttangentError if outputs depend on chance or on the other points."""
    for name, inner in module.named_modules():
        dropout = isinstance(inner, nn.modules.dropout._DropoutNd) and inner.p > 0
        if inner.training and (dropout or isinstance(inner, nn.modules.batchnorm._BatchNorm)):
            raise AttangentError(
                f"{name or 'the module'} is a {type(inner).__name__} in training mode, expected outputs that "
                "depend on the point alone: call module.eval() first"
            )
