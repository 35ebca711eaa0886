import pytest

from attangent.attention.backends.cpu import decoding


@pytest.fixture(params=["compiled", "torch"])
def merging(request, monkeypatch):
    """With the compiled code and without it."""
    if request.param == "torch":
        monkeypatch.setattr(decoding, "library", lambda: None)
    elif decoding.library() is None:
        pytest.skip("decoding.c is not compiled: there was no C compiler at installation")
