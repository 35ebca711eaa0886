"""A Dask cluster that loses its workers or its scheduler ends in one clear line."""

import logging
import warnings

import pytest

from attangent import AttangentError
from attangent.audit import run
from attangent.audit.running import cluster


@pytest.fixture
def start():
    from distributed import LocalCluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a busy port for a dashboard nobody looks at
        made = []

        def start(workers):
            made.append(LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None))
            return made[-1]

        yield start
        for one in made:
            one.close()


def test_a_cluster_without_workers(start, claims, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.5)
    with pytest.raises(AttangentError, match="has no workers: start some"):
        run(["P1/lemma-1"], dask=start(0).scheduler_address, out=tmp_path)


def test_a_scheduler_that_goes_away(start, claims, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE_SECONDS", 1.0)
    made = start(1)
    real = cluster._outcome

    def then_gone(*given):
        found = real(*given)
        made.close()
        return found

    monkeypatch.setattr(cluster, "_outcome", then_gone)
    with pytest.raises(AttangentError, match="the same command goes on from here, also without --dask"):
        run(["P1/lemma-1", "P1/lemma-2"], seeds=20, dask=made.scheduler_address, out=tmp_path)
    monkeypatch.undo()
    assert not logging.getLogger("distributed.client").isEnabledFor(logging.ERROR)  # no tracebacks of theirs
