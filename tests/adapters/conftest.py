import pytest

from attangent.attention.backends.decode import native


@pytest.fixture(params=["compiled", "torch"])
def merging(request, monkeypatch):
    """With the compiled code and without it."""
    if request.param == "torch":
        monkeypatch.setattr(native, "library", lambda: None)
    elif native.library() is None:
        pytest.skip("decoding.c is not compiled: there was no C compiler at installation")
