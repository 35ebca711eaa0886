"""Draws of dropout, and noise like them."""

import pytest
import torch

from attangent.tuning.methods.classifier import trained_classifier
from attangent.tuning.planning.dropout import Noise, dropout_draws, has_dropout
from tests.adapters.tiny import save_bert, write_rows
from tests.tuning.planning.cases import case


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    folder = save_bert(tmp_path_factory.mktemp("noisy"), hidden_dropout_prob=0.02)
    write_rows(folder / "train.jsonl", 40)
    write_rows(folder / "eval.jsonl", 4, seed=1)
    return folder


def test_draws_are_those_of_the_rows_they_stand_at(noisy):
    given = case(noisy, "head")
    adapted, network = given.network()
    rows, layer = given.task.rows, trained_classifier(adapted)
    drawn = dropout_draws(adapted, rows, given.task.collate, 24, 0, layer)
    clean = network.classifier.features_of(network.tangent(rows).jacobian, network.basis)
    assert drawn.shape == (24, len(rows), clean.shape[1])
    off = (drawn.mean(dim=0)[:, None] - clean[None]).norm(dim=2)  # own row against every row
    assert (off.argmin(dim=1) == torch.arange(len(rows))).float().mean() > 0.9
    logits = dropout_draws(adapted, rows, given.task.collate, 1, 0)
    again = dropout_draws(adapted, rows, given.task.collate, 1, 0, layer)
    assert torch.allclose(again @ layer.weight.T + layer.bias, logits, atol=1e-5)
    assert not adapted.training


@pytest.mark.parametrize("model", ["bert", "llama"])
def test_a_model_without_dropout_is_asked_once(request, model):
    given = case(request.getfixturevalue(model), "head")
    adapted, network = given.network()
    rows, collate = given.task.rows, given.task.collate
    assert not has_dropout(adapted)
    (drawn,) = dropout_draws(adapted, rows, collate, 3, 0)
    assert torch.allclose(drawn @ network.basis, network.outputs(rows), atol=1e-5)
    (features,) = dropout_draws(adapted, rows, collate, 3, 0, trained_classifier(adapted))
    read_off = network.classifier.features_of(network.tangent(rows).jacobian, network.basis)
    assert torch.allclose(features, read_off, atol=1e-5)


def test_noise_keeps_what_all_rows_share_and_changes_sign():
    draw = torch.Generator().manual_seed(0)
    clean = torch.randn(200, 8, generator=draw)
    drawn = 0.7 * clean + 0.5 + torch.randn(2, 200, 8, generator=draw)
    noise = Noise.of(drawn, clean)
    shrunk = (noise.mean * (clean - clean.mean(dim=0))).sum() / (clean - clean.mean(dim=0)).square().sum()
    assert shrunk.item() == pytest.approx(-0.3, abs=0.05)
    first, other = noise.of_epoch(0, seed=1), noise.of_epoch(2, seed=1)
    assert torch.equal(first, noise.of_epoch(0, seed=1))
    same = torch.isclose(first, other, atol=1e-5).all(dim=1)
    assert 60 < int(same.sum()) < 140
    assert torch.allclose((first + other)[~same] / 2, noise.mean[~same], atol=1e-5)
