"""Settings of the whole suite."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings
from threadpoolctl import threadpool_limits

settings.register_profile("suite", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("suite")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """One thread a test: sums in one order, and no quarrel over the cores."""
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield
