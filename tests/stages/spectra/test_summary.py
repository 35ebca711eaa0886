"""Spectra in a few figures."""

import numpy as np
import pytest

from attangent import AttangentError
from attangent.stages import spectrum
from attangent.stages.spectra.summary import load_model, summarised
from tests.stages.models import made


def test_figures_are_those_of_the_values():
    values = spectrum(made("llama"), ["q", "mlp.down_proj"])
    frame = summarised(values)
    assert len(frame) == 4
    row = frame[(frame.layer == 1) & (frame.target == "q")].iloc[0]
    own = values[(values.layer == 1) & (values.target == "q")].value.to_numpy()
    assert row["largest"] == own.max()
    share = (own[: row["for_90_percent"]] ** 2).sum() / (own**2).sum()
    assert share >= 0.9 > (own[: row["for_90_percent"] - 1] ** 2).sum() / (own**2).sum()
    assert row["median"] == np.median(own)
    assert "head" in summarised(spectrum(made("llama"), ["qk"]))


def test_a_saved_model_is_loaded_with_its_head(tmp_path):
    made("llama").save_pretrained(tmp_path)
    assert type(load_model(str(tmp_path))).__name__ == "LlamaForCausalLM"
    with pytest.raises(AttangentError, match="folder without a model"):
        load_model(str(tmp_path.parent))
