"""What the tests of this room share."""

from contextlib import contextmanager

import pytest

from attangent.kernels import gram_dense, gram_pairs, tangent


@pytest.fixture
def small_blocks(monkeypatch):
    """Within it every algorithm streams over blocks of 64 neurons and tiles of a few pairs."""

    @contextmanager
    def small():
        with monkeypatch.context() as patch:
            for module in (gram_dense, gram_pairs, tangent):
                patch.setattr(module, "_BLOCK_BYTES", 1)
            patch.setattr(gram_pairs, "_TILE_ROWS", 3)
            yield

    return small
