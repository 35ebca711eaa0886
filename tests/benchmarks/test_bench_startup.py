import subprocess

import pytest

from benchmarks.harness.child import Unavailable
from benchmarks.suites import bench_startup


def test_a_process_that_fails_is_no_measurement():
    bench_startup.started("-c", "print('thrown away')")()
    with pytest.raises(subprocess.CalledProcessError):
        bench_startup.started("-c", "raise SystemExit(3)")()


def test_a_library_may_be_in_another_environment(monkeypatch):
    monkeypatch.delenv("ATTANGENT_RIVALS", raising=False)
    with pytest.raises(Unavailable, match="nonesuch is not installed"):
        bench_startup.importing("nonesuch")({})
    monkeypatch.setenv("ATTANGENT_RIVALS", "/bin/true")
    bench_startup.importing("nonesuch")({})()


def test_the_table_is_one_that_can_be_forecast(tmp_path):
    months = bench_startup._months(13)
    assert months[0] == "2015-01-01,100"
    assert months[12] == "2016-01-01,112"
    assert months[6].endswith(",126")
