"""Singular values of a model's weights: of single matrices, or of the product of q and k per head."""

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError, loading
from attangent._core.plots import COLOURS, check_picture, finished, in_style, panels
from attangent.stages.weights import (
    PROJECTIONS,
    AttentionWeights,
    Projection,
    attention_weights,
    named_projections,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TARGETS = (*PROJECTIONS, "qk")


@dataclass(frozen=True)
class WeightMatrix:
    """A whole projection x W + b: its spectrum is that of W."""

    layer: int
    module: str
    target: str
    projection: Projection
    head: int | None = None

    def values(self) -> Tensor:
        """Compute the singular values in float64, largest first."""
        return torch.linalg.svdvals(self.projection.weight.double())


@dataclass(frozen=True)
class HeadProduct:
    """The scores of one head depend on (x W_q + b_q)(y W_k + b_k)' = [x 1] M [y 1]'.

    M = A B' with A = [W_q; b_q] and B = [W_k; b_k], (inputs + 1, head size). If positions rotate or norms
    follow, M is the product before them.
    """

    layer: int
    module: str
    block: AttentionWeights
    head: int
    target: str = "qk"

    def values(self) -> Tensor:
        """Compute the singular values of M in float64, largest first."""
        return product_svd(self.factor("q"), self.factor("k"))[1]

    def factor(self, name: str) -> Tensor:
        """Return A (`q`) or B (`k`); if only the other one has a bias, the last row is zero."""
        weight, bias = self.block.head(name, self.head)
        rows = weight.double()
        if all(self.block.projections[each].bias is None for each in "qk"):
            return rows
        return torch.cat([rows, rows.new_zeros(1, rows.shape[1]) if bias is None else bias.double()[None]])


def product_svd(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """Return left vectors and singular values of A B'."""
    # A B' is inputs x inputs but has the rank of a head: decompose the small product of the R factors.
    Q, R = torch.linalg.qr(A)
    _, T = torch.linalg.qr(B)
    U, S, _ = torch.linalg.svd(R @ T.T, full_matrices=False)
    return Q @ U, S


Spectral = WeightMatrix | HeadProduct


def spectral_parts(
    model: nn.Module, targets: Iterable[str], layers: Iterable[int] | None = None
) -> list[Spectral]:
    """Return what `targets` name in these layers: q, k, v, o, qk per head, mlp, or modules by name."""
    names = (targets,) if isinstance(targets, str) else tuple(targets)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise AttangentError(
            f"targets are {names}, expected one or more of {', '.join(TARGETS)}, mlp, or names of modules"
        )
    if len(set(names)) < len(names):
        raise AttangentError(f"targets are {names}, expected each one once")
    chosen = None if layers is None else [*layers]
    of_attention = [target for target in names if target in TARGETS]
    parts: list[Spectral] = [
        WeightMatrix(layer, module, target, projection)
        for target in names
        if target not in TARGETS
        for layer, module, projection in named_projections(model, target, chosen)
    ]
    for block in attention_weights(model, chosen) if of_attention else ():
        for target in of_attention:
            if target == "qk":
                parts += [HeadProduct(block.layer, block.name, block, head) for head in range(block.heads)]
            else:
                parts.append(WeightMatrix(block.layer, block.name, target, block.projections[target]))
    return parts


@torch.no_grad()
def spectrum(
    model: nn.Module, targets: Iterable[str] = PROJECTIONS, layers: Iterable[int] | None = None
) -> pd.DataFrame:
    """Compute the singular values of a model's weights.

    Args:
        model: A Hugging Face model.
        targets: Some of q, k, v, o, qk (the product of q and k per head, with biases), mlp (all linear
            modules outside attention), or endings of module names such as "mlp.down_proj".
        layers: Layers from 0; by default all.

    Returns:
        One row per value: layer, module, target, head (of qk, else empty), index (0 is the largest), value.

    Raises:
        AttangentError: If a target or layer does not exist, or the weights are quantised.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=20))
        >>> spectrum(model).groupby("target").value.count().to_dict()
        {'k': 8, 'o': 8, 'q': 8, 'v': 8}
    """
    return pd.concat(
        [_rows(matrix, matrix.values()) for matrix in spectral_parts(model, targets, layers)],
        ignore_index=True,
    )


def _rows(matrix: Spectral, values: Tensor) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "layer": matrix.layer,
            "module": matrix.module,
            "target": matrix.target,
            "head": pd.array([matrix.head] * len(values), dtype="Int64"),
            "index": range(len(values)),
            "value": values.cpu().numpy(),
        }
    )


def summarised(values: pd.DataFrame) -> pd.DataFrame:
    """Summarise singular values per matrix or head: number, largest, median, and rank for 90 % of squares."""
    keys = ["layer", "module", "target", "head"]
    groups = [rows for _, rows in values.groupby(keys, sort=False, dropna=False)]
    frame = pd.DataFrame([{**rows.iloc[0][keys].to_dict(), **_figures(rows["value"])} for rows in groups])
    return frame.drop(columns="head") if values["head"].isna().to_numpy().all() else frame


def _figures(column: Any) -> dict[str, float]:
    values = column.to_numpy()
    energy = np.cumsum(values**2)
    return {
        "values": len(values),
        "largest": float(values[0]),
        "median": float(np.median(values)),
        "for_90_percent": int(np.searchsorted(energy, 0.9 * energy[-1])) + 1,
    }


@in_style
def plot_spectrum(frame: pd.DataFrame, path: str | PathLike[str] | None = None) -> "Figure":
    """Draw singular values: one panel per target, one curve per layer (and head).

    Args:
        frame: Singular values from `spectrum`.
        path: File to write the figure to (.png, .svg or .pdf).

    Returns:
        The figure.

    Raises:
        AttangentError: If the frame is empty.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=20))
        >>> figure = plot_spectrum(spectrum(model))
    """
    if path is not None:
        check_picture(path)
    targets = list(dict.fromkeys(frame["target"]))
    if not targets:
        raise AttangentError("the frame has no singular values: take it from spectrum(model)")
    figure, axes = panels(len(targets))
    for panel, target in zip(axes, targets, strict=True):
        for _, values in frame.query("target == @target").groupby(["layer", "head"], dropna=False):
            colour = COLOURS[int(values["layer"].iloc[0]) % len(COLOURS)]
            panel.semilogy(values["index"], values["value"], color=colour, lw=1)
        panel.set(title=target, xlabel="index", ylabel="singular value")
    return finished(figure, path)


def load_model(name: str) -> Any:
    """Load a model from a folder or the Hub, with the head it was saved with if transformers knows it."""
    import transformers

    what = (
        "is a folder without a model" if Path(name).is_dir() else "is neither a folder nor a model on the Hub"
    )
    with loading(f"{name} {what}"):
        config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
        kind = (config.architectures or ["AutoModel"])[0]
        known = getattr(transformers, kind, transformers.AutoModel)
        return known.from_pretrained(name, trust_remote_code=False).eval()
