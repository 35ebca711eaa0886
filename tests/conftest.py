"""Settings of the whole suite."""

import gc
import os
import sys
from collections.abc import Iterator
from functools import cache

import pytest
import torch
from hypothesis import settings
from threadpoolctl import ThreadpoolController

gc.disable()  # while a million objects are imported; `pytest_collection_finish` enables it
settings.register_profile("suite", deadline=None, derandomize=True, max_examples=30)
settings.load_profile("suite")
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton kernels run on the CPU, in Python
os.environ["ATTANGENT_CONFIG"] = os.devnull  # no folder that somebody added

_MANY_MODULES = 150
_set_aside = 0
_SLOWEST = (
    "tests/attention/test_ntk.py",
    "tests/attention/backends/test_conformance.py",
    "tests/tuning/test_training.py",
    "tests/audit/test_interrupted.py",
    "tests/docs/test_snippets.py",
    "tests/adapters/test_matrix.py",
    "tests/cli/test_compression.py",
    "tests/papers/p3_two_stage/claims/test_spectra.py",
    "tests/attention/backends/triton/test_kernels.py",
    "tests/audit/report/test_page_browser.py",
    "tests/tuning/folders/test_tuned.py",
    "tests/forecast/pipeline/test_forecaster.py",
    "tests/papers/p1_prefix/claims/test_kernel_training.py",
    "tests/stages/test_rates.py",
    "tests/tuning/test_running.py",
)
"""By CPU time, the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slowest files come first: begun last, one of them would run alone at the end.

    `make test` keeps this order; by itself xdist would begin with the files of most tests.
    """
    places = {name: place for place, name in enumerate(_SLOWEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))


def pytest_collection_finish() -> None:
    gc.enable()


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """One thread per test: sums in one order, and no quarrel over the cores."""
    torch.set_num_threads(1)
    with _thread_pools(len(sys.modules)).limit(limits=1):
        yield


@cache
def _thread_pools(imported: int) -> ThreadpoolController:
    """The thread pools of all libraries; looked up again only if there are more modules than before."""
    return ThreadpoolController()


@pytest.fixture(autouse=True)
def _imports_set_aside() -> None:
    """The million objects of imported libraries, out of the garbage collector's sight.

    Every training run collects garbage, which otherwise looks at each of them: half a second a run.
    """
    global _set_aside
    if len(sys.modules) - _set_aside >= _MANY_MODULES:
        gc.collect()
        gc.freeze()
        _set_aside = len(sys.modules)
