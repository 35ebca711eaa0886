"""Singular values against numpy, matrix by matrix and head by head."""

import numpy as np
import pytest
import torch

from attangent import AttangentError
from attangent.stages import spectrum
from attangent.stages.singular_values import load_model, plot_spectrum, summarised
from tests.stages.models import MAKERS, made


def test_of_gpt2_q_k_and_v_are_apart():
    model = made("gpt2")
    joined = model.transformer.h[1].attn.c_attn.weight.detach().numpy().astype(np.float64)
    frame = spectrum(model, layers=[1])
    for place, target in enumerate("qkv"):
        values = frame[frame.target == target].value.to_numpy()
        expected = np.linalg.svd(joined[:, 24 * place : 24 * (place + 1)], compute_uv=False)
        np.testing.assert_allclose(values, expected, rtol=1e-10)


@pytest.mark.parametrize("name", MAKERS)
def test_the_product_of_a_head_holds_weights_and_biases(name):
    from attangent.stages.weights import attention_weights

    model = made(name)
    frame = spectrum(model, targets=["qk"], layers=[0])
    block = attention_weights(model)[0]
    for head in range(block.heads):
        (q, b), (k, c) = block.head("q", head), block.head("k", head)
        if b is not None or c is not None:
            q, k = (
                torch.cat([w, torch.zeros(1, w.shape[1]) if bias is None else bias[None]])
                for w, bias in ((q, b), (k, c))
            )
        product = q.double() @ k.double().T
        expected = torch.linalg.svdvals(product)[: block.head_size]
        values = torch.tensor(frame[frame["head"] == head].value.to_numpy())
        torch.testing.assert_close(values, expected, rtol=1e-8, atol=1e-12)


def test_rows_say_where_they_come_from():
    frame = spectrum(made("llama"))
    assert list(frame.columns) == ["layer", "module", "target", "head", "index", "value"]
    assert len(frame) == 2 * (24 + 12 + 12 + 24)
    assert set(frame.module) == {"model.layers.0.self_attn", "model.layers.1.self_attn"}
    assert frame["head"].isna().all()


@pytest.mark.parametrize("targets", [[], ["x"], ["q", "q"], [None]])
def test_unknown_targets_are_refused(targets):
    with pytest.raises(
        AttangentError, match=r"expected one or more of q|are named 'x'|each one once|every entry a text"
    ):
        spectrum(made("gpt2"), targets)


def test_pictures(tmp_path):
    frame = spectrum(made("gpt2"), targets=["q", "qk"])
    plot_spectrum(frame, tmp_path / "spectrum.png")
    assert (tmp_path / "spectrum.png").stat().st_size > 5000
    with pytest.raises(AttangentError, match=r"ending in \.png"):
        plot_spectrum(frame, tmp_path / "spectrum.txt")
    with pytest.raises(AttangentError, match="no singular values"):
        plot_spectrum(frame[:0], tmp_path / "none.png")


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
