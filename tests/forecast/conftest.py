import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True)
def one_blas_thread():
    """numpy's threads would quarrel over the cores."""
    with threadpool_limits(1):
        yield
