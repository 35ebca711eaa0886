"""Pictures of spectra."""

import pytest

from attangent import AttangentError
from attangent.stages import spectrum
from attangent.stages.spectra.plots import plot_spectrum
from tests.stages.models import made


def test_pictures(tmp_path):
    frame = spectrum(made("gpt2"), targets=["q", "qk"])
    plot_spectrum(frame, tmp_path / "spectrum.png")
    assert (tmp_path / "spectrum.png").stat().st_size > 5000
    with pytest.raises(AttangentError, match=r"ending in \.png"):
        plot_spectrum(frame, tmp_path / "spectrum.txt")
    with pytest.raises(AttangentError, match="no singular values"):
        plot_spectrum(frame[:0], tmp_path / "none.png")
