"""One thread for the tests of attention: their tensors are small."""

import jaxtyping
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


@pytest.fixture
def without_hook():
    """Arguments of other types reach the functions' own checks, and torch.compile sees no wrapper at work."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)
