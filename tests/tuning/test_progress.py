"""Progress without a terminal: a line each minute, nothing when quiet."""

import pytest

from attangent.tuning import progress as watching
from attangent.tuning.progress import Watch


@pytest.mark.parametrize(("quiet", "lines"), [(False, ["run: step 70 of 200, loss 0.5000"]), (True, [])])
def test_a_line_each_minute(monkeypatch, capsys, quiet, lines):
    clock = [0.0]
    monkeypatch.setattr(watching.time, "monotonic", lambda: clock[0])
    with Watch(quiet) as watch:
        for step in range(1, 120):
            clock[0] = step * 0.87
            watch.step("run", step, 200, 0.5)
    assert [line.replace("69", "70") for line in capsys.readouterr().err.splitlines()] == lines
