"""The same findings, number for number, in one process and on a Dask cluster.

`test_interrupted.py` compares one process with two.
"""

import warnings

import pytest

from attangent import AttangentError
from attangent.audit import run

IDS = ["P2/claim-3.4", "P2/lemma-b.1", "P2/lemma-5.1", "P2/lemma-d.1"]
"""An identity, sums over many neurons, derivatives along moves, and training."""


def contents(found):
    return {record.origin.stem: record.content() for record in found.records}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    found = contents(run(IDS, seeds=2, jobs=1, out=tmp_path_factory.mktemp("alone")))
    assert len(found) == 2 * len(IDS)
    return found


@pytest.fixture
def cluster():
    from distributed import LocalCluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a busy port for a dashboard nobody looks at
        with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
            yield cluster


def test_dask_cluster(alone, tmp_path, cluster):
    assert contents(run(IDS, seeds=2, dask=cluster.scheduler_address, out=tmp_path)) == alone


def test_no_cluster_there(tmp_path, monkeypatch):
    monkeypatch.setattr("attangent._core.parallel.CONNECT_SECONDS", 0.5)
    with pytest.raises(AttangentError, match=r"no Dask scheduler answers at '127\.0\.0\.1:1'"):
        run(IDS[:1], dask="127.0.0.1:1", out=tmp_path)
