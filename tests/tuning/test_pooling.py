"""The mean over tokens in place of the first token."""

import json

import pytest
import torch

from attangent import AttangentError
from attangent.tuning.loading import load_model
from attangent.tuning.pooling import check_pooling, mean_over_tokens, resolved_pooling, use_mean_pooling
from tests.adapters.tiny import save_bert


def test_the_classifier_reads_the_mean_of_tokens_that_are_no_padding(tmp_path):
    model = use_mean_pooling(load_model(save_bert(tmp_path), "classification", ("a", "b"))).eval()
    ids, mask = torch.tensor([[2, 5, 6, 3], [2, 7, 3, 0]]), torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=mask).logits
        plain = load_model(tmp_path, "classification", ("a", "b")).eval()
        alone = [plain.bert(input_ids=ids[i : i + 1, :n]).last_hidden_state[0] for i, n in ((0, 4), (1, 3))]
        expected = torch.stack([model.classifier(states.mean(dim=0)) for states in alone])
    torch.testing.assert_close(logits, expected)


def test_without_a_mask_all_tokens_count():
    states = torch.arange(6.0).reshape(1, 3, 2)
    torch.testing.assert_close(mean_over_tokens(states, None), torch.tensor([[2.0, 3.0]]))
    torch.testing.assert_close(mean_over_tokens(states, torch.tensor([[1, 0, 0]])), states[:, 0])


def test_declared_is_what_the_files_say(tmp_path):
    folder = save_bert(tmp_path / "bert")
    assert resolved_pooling("declared", folder) == "first"
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    assert resolved_pooling("declared", folder) == "mean"
    assert resolved_pooling("first", folder) == "first"
    (folder / "1_Pooling/config.json").write_text("{")
    with pytest.raises(AttangentError, match="is not JSON"):
        resolved_pooling("declared", folder)


def test_what_has_no_encoder_is_refused():
    with pytest.raises(AttangentError, match="no encoder whose tokens"):
        use_mean_pooling(torch.nn.Linear(2, 2))
    with pytest.raises(AttangentError, match="pooling is 'max'"):
        check_pooling("max")
