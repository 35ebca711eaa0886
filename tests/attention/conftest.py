"""One thread for the tests of attention: their tensors are small."""

import pytest
import torch

from attangent.attention.backends.cpu import decoding


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=["compiled", "torch"])
def merging(request, monkeypatch):
    """With the compiled code and without it."""
    if request.param == "torch":
        monkeypatch.setattr(decoding, "library", lambda: None)
    elif decoding.library() is None:
        pytest.skip("decoding.c is not compiled: there was no C compiler at installation")
