"""The effect of an edit on outputs and loss."""

import pytest
import torch
from torch.nn import functional

from attangent import AttangentError
from attangent.stages import edit_spectrum, measure_effect, minus_loss
from tests.stages.models import WORDS, made


def tokenizer(text, **options):
    return {"input_ids": torch.tensor([[ord(letter) % WORDS for letter in text]])}


def test_loss_and_kl_are_those_of_the_texts():
    model = made("llama")
    edit = edit_spectrum(model, "largest", k=1, targets=["mlp"])
    weights = [weight.clone() for weight in model.parameters()]
    effect = measure_effect(edit, tokenizer, ["some text", "more"])
    assert all(torch.equal(*pair) for pair in zip(weights, model.parameters(), strict=True))
    lost, count, kl = 0.0, 0, []
    for text in ("some text", "more"):
        ids = tokenizer(text)["input_ids"]
        with torch.no_grad():
            logs = model(ids).logits[0].log_softmax(-1)
            with edit:
                edited = model(ids).logits[0].log_softmax(-1)
        lost += functional.nll_loss(logs[:-1], ids[0, 1:], reduction="sum").item()
        count += ids.shape[1] - 1
        kl += functional.kl_div(edited, logs, log_target=True, reduction="none").sum(-1).tolist()
    assert effect.loss_before == pytest.approx(lost / count, rel=1e-5)
    assert minus_loss(tokenizer, ["some text", "more"])(model) == pytest.approx(-lost / count, rel=1e-5)
    assert effect.kl == pytest.approx(sum(kl) / len(kl), rel=1e-3)
    assert effect.kl > 0
    assert effect.loss_after != effect.loss_before
    assert effect.layers["layer"].tolist() == [-1, 0, 1]
    assert effect.layers["cosine"][0] == pytest.approx(1)
    assert effect.layers["cosine"][2] < 1


def test_an_encoder_has_no_loss_but_a_cosine():
    effect = measure_effect(edit_spectrum(made("bert"), "largest", k=1), tokenizer, ["words"])
    assert effect.cosine < 1
    assert effect.kl != effect.kl
    with pytest.raises(AttangentError, match="BertModel predicts no words"):
        minus_loss(tokenizer, ["words"])(made("bert"))


@pytest.mark.parametrize("texts", [[], [""], [None]])
def test_texts_are_needed(texts):
    with pytest.raises(AttangentError, match=r"texts (are empty|is list)"):
        measure_effect(edit_spectrum(made("bert"), "largest", k=1), tokenizer, texts)
