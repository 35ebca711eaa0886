"""A model cut below its top layers answers as the whole."""

import copy

import pytest
import torch
from transformers import RobertaForSequenceClassification

from attangent import AttangentError
from attangent.papers.p1_prefix.head_to_head.trunk import split_trunk
from attangent.tuning.data.text import read_task
from attangent.tuning.encoding import Padding, encode_task, stack
from attangent.tuning.loading import load_model, load_tokenizer
from attangent.tuning.methods import Method, adapt
from tests.adapters.models import tiny
from tests.adapters.tiny import save_bert, write_rows


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trunk")
    save_bert(folder, layers=3)
    task = read_task(write_rows(folder / "rows.jsonl", 10))
    rows = encode_task(task, load_tokenizer(folder), 4)
    rows[3] = {name: value[:4] if isinstance(value, list) else value for name, value in rows[3].items()}
    return load_model(folder, "classification", task.labels), rows


@pytest.mark.parametrize("top", [1, 2])
def test_text(texts, top):
    model, rows = texts
    pad = Padding(0)
    trunk, upper = split_trunk(model, top)
    states = trunk.encode(rows, pad, batch=4)
    assert [len(state["inputs_embeds"]) for state in states] == [len(row["input_ids"]) for row in rows]
    with torch.no_grad():
        whole, cut = model(**pad(rows)), upper.eval()(**pad(states))
    torch.testing.assert_close(cut.logits, whole.logits, rtol=1e-5, atol=1e-6)


def test_the_last_layer_goes_on_for_the_token_the_head_reads_alone(texts):
    model, rows = texts
    trunk, upper = split_trunk(model, 2)
    seen = []
    upper.base_model.encoder.layer[-1].output.register_forward_hook(lambda _, __, out: seen.append(out.shape))
    upper(**Padding(0)(trunk.encode(rows, Padding(0))))
    assert seen[0][1] == 1


def test_roberta():
    model = RobertaForSequenceClassification(tiny("roberta").config).eval()
    rows = [{"input_ids": [0, 4, 5, 6, 2][-n:], "attention_mask": [1] * n, "labels": 0} for n in (5, 3, 4)]
    trunk, upper = split_trunk(model, 1)
    pad = Padding(model.config.pad_token_id)
    with torch.no_grad():
        whole, cut = model(**pad(rows)), upper.eval()(**pad(trunk.encode(rows, pad)))
    torch.testing.assert_close(cut.logits, whole.logits, rtol=1e-5, atol=1e-6)


def test_vision():
    model = tiny("vit").eval()
    rows = [{"pixel_values": torch.randn(3, 8, 8), "labels": i % 3} for i in range(5)]
    trunk, upper = split_trunk(model, 1)
    with torch.no_grad():
        whole, cut = model(**stack(rows)), upper.eval()(**stack(trunk.encode(rows, stack, batch=2)))
    torch.testing.assert_close(cut.logits, whole.logits, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["ntk", "lora", "prefix"])
def test_every_method_goes_on_a_top(texts, name):
    model, rows = texts
    trunk, upper = split_trunk(model, 1)
    states = trunk.encode(rows, Padding(0))
    adapted = adapt(copy.deepcopy(upper), Method(name), "classification", 0, [Padding(0)(states)])
    adapted(**Padding(0)(states)).loss.backward()
    assert all(p.grad is not None for p in adapted.parameters() if p.requires_grad)


def test_what_cannot_be_cut_is_refused(texts):
    with pytest.raises(AttangentError, match="top is 3, expected 1 to 2 of 3 layers"):
        split_trunk(texts[0], 3)
    with pytest.raises(AttangentError, match="LlamaForCausalLM cannot be cut"):
        split_trunk(tiny("llama"), 1)
