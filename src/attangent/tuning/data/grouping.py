"""A validation part of unlike rows: whole groups of rows that resemble each other are kept apart.

Rows of one source often repeat themselves, and new rows will not. Held-out rows that are near copies of
training rows say nothing of that, so that what is kept apart here is one group of each class, found by
clustering the frozen model's features.
"""

from typing import Any

import numpy as np

from attangent.tuning.data.splitting import held_out

_GROUPS = 5
_LEAST_ROWS = 4
"""Rows for each group that clustering a class needs; with fewer, rows are drawn at random."""


def unlike_part(features: np.ndarray, targets: list[int], seed: int) -> tuple[list[int], list[int]]:
    """Indices to train on and indices kept apart, about a fifth of each class."""
    labels = np.asarray(targets)
    held: set[int] = set()
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        held |= {int(i) for i in _one_group(features[own], own, seed)}
    return [i for i in range(len(targets)) if i not in held], sorted(held)


def _one_group(features: np.ndarray, places: np.ndarray, seed: int) -> np.ndarray:
    """The group whose size is nearest to a fifth of the rows."""
    if len(places) < _GROUPS * _LEAST_ROWS or len(np.unique(features, axis=0)) < _GROUPS:
        _, kept = held_out([0] * len(places), 1 / _GROUPS, seed, "validation")
        return places[kept] if len(places) > 1 else places[:0]
    from sklearn.cluster import KMeans

    clustering: Any = KMeans(_GROUPS, n_init=4, random_state=seed)  # pyright: ignore[reportArgumentType]
    groups = clustering.fit(features).labels_
    sizes = np.bincount(groups, minlength=_GROUPS)
    chosen = int(np.abs(sizes - len(places) / _GROUPS).argmin())
    return places[groups == chosen]
