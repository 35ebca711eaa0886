"""Settings of the whole suite."""

import pytest
import torch
from hypothesis import settings

settings.register_profile("suite", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("suite")


@pytest.fixture(autouse=True)
def one_thread():
    """One thread a test: sums in one order, and no quarrel over the cores."""
    torch.set_num_threads(1)
