"""Small models, tables and runs that the fuzzers start from."""

import copy
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def panel() -> pd.DataFrame:
    """Return one daily series of 40 values."""
    days = pd.date_range("2024-01-01", periods=40, freq="D")
    return pd.DataFrame({"unique_id": "a", "ds": days, "y": np.sin(np.arange(40.0) / 3) + 10})


def readings() -> pd.DataFrame:
    """Return the loss curve of one run."""
    steps = np.arange(80.0)
    return pd.DataFrame({"group": "a", "step": steps, "loss": np.exp(-steps / 20)})


@cache
def _saved_language_model() -> Any:
    from transformers import AutoModelForCausalLM

    from tests.adapters.tiny import save_llama

    folder = save_llama(Path(tempfile.mkdtemp(prefix="chaos-")))
    return AutoModelForCausalLM.from_pretrained(folder)


def language_model() -> Any:
    """Return a new copy of a language model with two layers."""
    return copy.deepcopy(_saved_language_model())


def attached() -> Any:
    """Return a language model with an adapter."""
    from attangent.adapters import NTKConfig, attach

    return attach(language_model(), NTKConfig(features="elu", units="raw"))


def prefix_state() -> Any:
    """Return a zero state of two heads."""
    from attangent.attention import PrefixState
    from attangent.attention.features import Elu

    return PrefixState.zero(Elu(4), heads=2)


@cache
def audit_run() -> str:
    """Audit one claim and return the folder of the run."""
    from attangent.audit import run

    run(["P1/algorithm-1"], seeds=1, out="finished")
    return "finished"
