"""Directions of the input that a map sees damped: (I - R'R) x in the place of x."""

from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.attention.features.base import check_weights


def checked_damping(damping: Tensor, rows: Tensor) -> Tensor:
    """R, (c, d) or (heads, c, d), for a map of x @ rows'."""
    damping = check_weights("damping", damping, columns=rows.shape[-1])
    if damping.shape[:-2] != rows.shape[:-2] or damping.shape[-2] > damping.shape[-1]:
        raise AttangentError(
            f"damping has shape {tuple(damping.shape)}, expected at most {rows.shape[-1]} rows of as many "
            f"columns, for the heads of the map's weights, which have shape {tuple(rows.shape)}"
        )
    return damping.detach().clone()


def damped(rows: Tensor, damping: Tensor | None) -> Tensor:
    """rows (I - R'R), what x itself is multiplied with."""
    if damping is None:
        return rows
    R = damping.to(rows.dtype)
    return rows - (rows @ R.mT) @ R
