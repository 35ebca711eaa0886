"""Language models with and without adapters, and trainings of them."""

from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def _saved_language_model() -> Any:
    """A language model of two layers and its tokenizer; callers get a copy."""
    import tempfile
    from pathlib import Path

    from transformers import AutoModelForCausalLM, AutoTokenizer

    from tests.adapters.tiny import save_llama

    folder = save_llama(Path(tempfile.mkdtemp(prefix="drill-")))
    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def language_model() -> Any:
    import copy

    return copy.deepcopy(_saved_language_model()[0])


def tokenizer() -> Any:
    return _saved_language_model()[1]


def attached() -> Any:
    from attangent.adapters import NTKConfig, attach

    return attach(language_model(), NTKConfig(features="elu", units="raw"))


def attached_twice() -> Any:
    from attangent.adapters import NTKConfig, attach

    return attach(attached(), NTKConfig(features="elu", units="raw"), name="other")


def _kernel_tuned() -> Any:
    from attangent import KernelTuned

    return KernelTuned("no/such/model")


def _tuning() -> Any:
    from attangent.tuning.request import Tuning
    from drill.jobs import rows, small_encoder

    return Tuning(small_encoder(), rows())


INSTANCES: dict[str, Callable[[], Any]] = {
    "KernelTuned": _kernel_tuned,
    "Tuning": _tuning,
}
