"""Edit the spectrum of a model's attention: keep some singular values, measure the change, restore them."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Literal, get_args

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from attangent._core.checks import check_choice, check_size
from attangent._core.errors import AttangentError
from attangent.stages.singular_values import HeadProduct, Spectral, WeightMatrix, product_svd, spectral_parts

Keep = Literal["largest", "smallest", "drop_largest"]


@dataclass(frozen=True)
class SpectrumChange:
    """All singular values before, and Frobenius norms before, after and of the difference as written."""

    values: Tensor
    norm_before: float
    norm_after: float
    difference: float


@dataclass(frozen=True)
class Selection:
    """Which singular values stay: the largest or the smallest k, or all but the largest k.

    `rho` gives k as a share of all n values, round(rho n), at least 1.
    """

    keep: Keep
    rho: float | None = None
    k: int | None = None

    def __post_init__(self) -> None:
        check_choice("keep", self.keep, get_args(Keep))
        if (self.rho is None) == (self.k is None):
            raise AttangentError(f"rho is {self.rho} and k is {self.k}, expected exactly one of them")
        if self.rho is not None and not 0 < self.rho <= 1:
            raise AttangentError(f"rho is {self.rho}, expected a share above 0 and at most 1")
        if self.k is not None:
            check_size("k", self.k)

    def mask(self, n: int) -> Tensor:
        """Return a mask (n,) of the values, largest first, that stay."""
        count = self.k if self.k is not None else max(1, round((self.rho or 0.0) * n))
        index = torch.arange(n)
        if self.keep == "largest":
            return index < count
        return index >= (n - count if self.keep == "smallest" else count)

    @property
    def keeps_all(self) -> bool:
        """Whether rho=1 asks for the whole spectrum."""
        return self.rho == 1 and self.keep != "drop_largest"


@dataclass(frozen=True)
class EditReport:
    """The changes that an edit made.

    Attributes:
        frame: One row per matrix (or head, for qk): layer, module, target, head, values, kept, norm_before,
            norm_after, change (Frobenius norm of the difference), relative_change.
        spectra: One row per singular value: layer, target, head, index, value, kept.
    """

    frame: pd.DataFrame
    spectra: pd.DataFrame = field(repr=False)

    def by_layer(self) -> pd.DataFrame:
        """Combine the norms of all edited matrices of a layer."""
        layers = self.frame.groupby("layer")
        frame = pd.DataFrame(
            {name: layers[name].agg(np.linalg.norm) for name in ("norm_before", "norm_after", "change")}
        )
        return frame.assign(relative_change=frame["change"] / frame["norm_before"])


class SpectrumEdit:
    """An edit that is ready to be applied; see `edit_spectrum`."""

    def __init__(
        self, model: nn.Module, selection: Selection, targets: Iterable[str], layers: Iterable[int] | None
    ):
        self.model = model
        self.selection = selection
        self._parts = spectral_parts(model, targets, layers)
        named = {part.target for part in self._parts}
        if "qk" in named and named & {"q", "k"}:
            raise AttangentError(
                "targets name qk and q or k: the product contains both, edit one or the other"
            )
        self._originals: list[tuple[Tensor, Tensor]] | None = None

    def __enter__(self) -> EditReport:
        if self._originals is not None:
            raise AttangentError("this edit is already applied: leave its context before entering it again")
        self._originals = self._copies()
        try:
            return self._write()
        except BaseException:
            self._restore()
            raise

    def __exit__(self, *exception: object) -> None:
        self._restore()

    def apply(self) -> EditReport:
        """Edit the model permanently."""
        report = self.__enter__()
        self._originals = None
        return report

    def _copies(self) -> list[tuple[Tensor, Tensor]]:
        tensors = {id(tensor): tensor for part in self._parts for tensor in _tensors(part)}
        return [(tensor, tensor.detach().clone()) for tensor in tensors.values()]

    @torch.no_grad()
    def _restore(self) -> None:
        for tensor, original in self._originals or ():
            tensor.copy_(original)
        self._originals = None

    @torch.no_grad()
    def _write(self) -> EditReport:
        masks = [self.selection.mask(_count(part)) for part in self._parts]
        edits = [(part, mask, _keep(part, mask)) for part, mask in zip(self._parts, masks, strict=True)]
        if not self.selection.keeps_all and not any(_changed(*each) for each in edits):
            raise AttangentError(
                f"the edit {asdict(self.selection)} changed nothing beyond rounding: all {len(edits)} "
                "matrices have only what it keeps; keep fewer values, or pass rho=1 to keep all"
            )
        return _report(edits)


def edit_spectrum(
    model: nn.Module,
    keep: Keep,
    rho: float | None = None,
    k: int | None = None,
    targets: Iterable[str] = ("q", "k", "v", "o"),
    layers: Iterable[int] | None = None,
) -> SpectrumEdit:
    """Keep only some singular values of the attention weights of a Hugging Face model (P3 Section 5).

        with edit_spectrum(model, keep="largest", rho=0.1) as report:
            ...                                 # the model is edited; the report has the changes
                                                # here it is restored bit for bit
        edit_spectrum(model, "largest", k=8).apply()    # permanently

    Args:
        model: A Hugging Face model.
        keep: Keep the `largest` or `smallest` values, or `drop_largest`.
        rho: How many, as a share of all.
        k: How many, as a number.
        targets: Some of q, k, v, o (matrices; biases stay), qk (the product of query and key weights with
            their biases, per head), mlp (the linear modules of a layer outside attention), or endings of
            module names such as "mlp.down_proj".
        layers: Layers from 0; by default all.

    Returns:
        The edit, not yet applied.

    Raises:
        AttangentError: If the options contradict each other or a target does not exist. Applying an edit
            that changes nothing raises one too, unless rho=1.
    """
    return SpectrumEdit(model, Selection(keep, rho, k), targets, layers)


def _count(part: Spectral) -> int:
    """Return the number of singular values."""
    if isinstance(part, WeightMatrix):
        return min(part.projection.weight.shape)
    return min(min(part.factor(name).shape) for name in "qk")


def _tensors(part: Spectral) -> list[Tensor]:
    """Return the parameters that an edit of `part` writes to."""
    projection = part.projection if isinstance(part, WeightMatrix) else part.block.projections["q"]
    parameters = (projection.module.weight, getattr(projection.module, "bias", None))
    return [parameter for parameter in parameters if parameter is not None]


def _keep(part: Spectral, mask: Tensor) -> SpectrumChange:
    """Keep the singular values under a mask and write the result to the model."""
    return _keep_in_matrix(part, mask) if isinstance(part, WeightMatrix) else _keep_in_product(part, mask)


def _keep_in_matrix(part: WeightMatrix, mask: Tensor) -> SpectrumChange:
    weight = part.projection.weight
    before = weight.double()
    U, S, Vh = torch.linalg.svd(before, full_matrices=False)
    weight.copy_((U[:, mask] * S[mask]) @ Vh[mask])
    after = weight.double()
    return SpectrumChange(S, before.norm().item(), after.norm().item(), (after - before).norm().item())


def _keep_in_product(part: HeadProduct, mask: Tensor) -> SpectrumChange:
    A = part.factor("q")
    B = part.factor("k")
    U, S = product_svd(A, B)
    weight, bias = part.block.head("q", part.head)
    # A <- U_r U_r' A turns M = U S V' into U_r S_r V_r' and leaves B, which other heads may share, and the
    # basis of the head, in which rotary positions turn, unchanged.
    projected = U[:, mask] @ (U[:, mask].T @ A)
    weight.copy_(projected[: len(weight)])
    if bias is not None:
        bias.copy_(projected[-1])
    after = part.factor("q")
    return SpectrumChange(S, _norm(A, B), _norm(after, B), _norm(after - A, B))


def _norm(A: Tensor, B: Tensor) -> float:
    """Compute the Frobenius norm of A B'."""
    return ((A.T @ A) * (B.T @ B)).sum().clamp_min(0).sqrt().item()


def _changed(part: Spectral, mask: Tensor, change: SpectrumChange) -> bool:
    """Return whether the edit removed more than the rounding of the weights."""
    rounding = torch.finfo(_tensors(part)[0].dtype).eps
    return change.values[~mask].norm().item() > rounding * change.values.norm().item()


def _report(edits: list[tuple[Spectral, Tensor, SpectrumChange]]) -> EditReport:
    frame = pd.DataFrame(
        [
            {
                **_keys(part),
                "module": part.module,
                "values": len(mask),
                "kept": int(mask.sum()),
                "norm_before": change.norm_before,
                "norm_after": change.norm_after,
                "change": change.difference,
                "relative_change": change.difference / change.norm_before if change.norm_before else 0.0,
            }
            for part, mask, change in edits
        ]
    ).astype({"head": "Int64"})
    spectra = [
        {**_keys(part), "index": index, "value": value, "kept": stays}
        for part, mask, change in edits
        for index, (value, stays) in enumerate(zip(change.values.tolist(), mask.tolist(), strict=True))
    ]
    return EditReport(frame, pd.DataFrame(spectra).astype({"head": "Int64"}))


def _keys(part: Spectral) -> dict[str, object]:
    return {"layer": part.layer, "target": part.target, "head": part.head}
