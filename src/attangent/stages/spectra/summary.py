"""Spectra in a few figures, and the model they are taken from."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attangent._core.errors import loading
from attangent.papers.p3_two_stage.low_rank import is_low_rank, load_low_rank


def summarised(values: pd.DataFrame) -> pd.DataFrame:
    """One row per matrix or head: how many values, the largest, the median, and how many carry 90 % of the
    sum of squares."""
    keys = ["layer", "module", "target", "head"]
    parts = [part for _, part in values.groupby(keys, sort=False, dropna=False)]
    rows = [{**part.iloc[0][keys].to_dict(), **_figures(part["value"].to_numpy())} for part in parts]
    frame = pd.DataFrame(rows)
    return frame.drop(columns="head") if values["head"].isna().to_numpy().all() else frame


def _figures(values: Any) -> dict[str, float]:
    energy = np.cumsum(values**2)
    return {
        "values": len(values),
        "largest": float(values[0]),
        "median": float(np.median(values)),
        "for_90_percent": int(np.searchsorted(energy, 0.9 * energy[-1])) + 1,
    }


def load_model(name: str) -> Any:
    """The model of a folder or of the hub, with the head it was saved with where transformers knows it.

    A folder of factors is read as such.
    """
    import transformers

    if is_low_rank(name):
        return load_low_rank(name)
    what = "is a folder without a model" if Path(name).is_dir() else "is no folder and no model on the hub"
    with loading(f"{name} {what}"):
        config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
        kind = (config.architectures or ["AutoModel"])[0]
        known = getattr(transformers, kind, transformers.AutoModel)
        return known.from_pretrained(name, trust_remote_code=False).eval()
