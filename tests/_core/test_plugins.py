"""Parts of other packages: used by name like ours, and left out with a warning if they are broken."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from attangent import AttangentError
from attangent._core.plugins import installed_parts
from attangent.cli import commands
from attangent.compression import CompressionMethod, CompressionRequest
from attangent.compression import methods as compression_methods
from attangent.compression.methods import method_named
from attangent.forecast import SeriesForecaster, models
from attangent.tuning import Method
from attangent.tuning.methods import registry
from attangent.tuning.methods.technique import Technique

EXAMPLES = Path(__file__).parents[2] / "examples" / "extend"
PARTS = {
    compression_methods.GROUP: {"first-and-last": "compression_method:FirstAndLast"},
    registry.GROUP: {"bias": "tuning_method:BiasOnly"},
    models.GROUP: {"drift": "forecaster:Drift"},
}


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Leave behind what `pip install` of a package with these entry points would."""

    def installed(groups):
        folder = tmp_path / "somebodys-0.1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: somebodys\nVersion: 0.1\n")
        lines = [
            f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in points.items())
            for group, points in groups.items()
        ]
        (folder / "entry_points.txt").write_text("\n".join(lines))
        monkeypatch.syspath_prepend(EXAMPLES)
        monkeypatch.syspath_prepend(tmp_path)
        installed_parts.cache_clear()

    yield installed
    installed_parts.cache_clear()
    for path in EXAMPLES.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_methods_of_a_package_have_their_names(install):
    install(PARTS)
    assert method_named("first-and-last").weighted
    assert CompressionRequest("A text", method="first-and-last").method == "first-and-last"
    assert Method("bias").rate == 1e-3
    with pytest.raises(AttangentError, match=r"'x', expected one of first-and-last, recall, plain"):
        method_named("x")
    with pytest.raises(AttangentError, match=r"method is \['bias'\], expected one of bias, ntk"):
        Method.from_dict({"name": ["bias"]})


def test_a_forecaster_of_a_package_is_named_measured_and_combined(install):
    install(PARTS)
    values = np.cumsum(np.random.default_rng(0).normal(1, 0.1, 60))
    months = pd.date_range("2020-01-01", periods=60, freq="MS")
    frame = pd.DataFrame({"unique_id": "a", "ds": months, "y": values})
    forecast = SeriesForecaster("drift").fit(frame).predict(3)
    drift = (values[-1] - values[0]) / 59
    np.testing.assert_allclose(forecast.iloc[:, 2], values[-1] + drift * np.arange(1, 4), rtol=1e-6)
    assert "drift" in SeriesForecaster().fit(frame).outlook(h=3).errors


def test_the_command_takes_the_name(install, tmp_path):
    from typer.testing import CliRunner

    rows = tmp_path / "rows.csv"
    rows.write_text("value\n" + "\n".join(map(str, range(40))))
    run = CliRunner().invoke(commands.app, ["forecast", str(rows), "--horizon", "2", "--model", "drift"])
    assert "model is 'drift', expected one of auto" in str(run.exception)
    install(PARTS)
    run = CliRunner().invoke(commands.app, ["forecast", str(rows), "--horizon", "2", "--model", "drift"])
    assert run.exit_code == 0, run.exception
    assert "drift" in run.output


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("no_such_module:Method", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("tuning_method:toy_files", "TypeError: "),
        ("forecaster:Drift", "it is no CompressionMethod"),
    ],
)
def test_a_part_that_cannot_be_used_is_left_out_with_a_warning(install, target, reason):
    install(
        {compression_methods.GROUP: {"broken": target, "first-and-last": "compression_method:FirstAndLast"}}
    )
    with pytest.warns(
        UserWarning, match=f"{target} is not used as one of {compression_methods.GROUP}: {reason}"
    ):
        (part,) = installed_parts(compression_methods.GROUP, CompressionMethod)
    assert part.name == "first-and-last"
    assert installed_parts(registry.GROUP, Technique) == ()
