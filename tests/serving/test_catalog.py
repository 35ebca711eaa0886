"""Names and what they stand for: tuned adapters, removed prefixes, taken names."""

import json

import pytest
import torch

from attangent import AttangentError
from attangent.adapters.hub import load_causal_lm
from attangent.compression.session import generate_text, plain_ids
from attangent.serving.catalog import Catalog
from attangent.serving.scheduler import BASE, Scheduler
from attangent.tuning import Method, TrainingSettings, TuningRequest, tune
from attangent.tuning.folders.tuned import load_generator
from tests.serving.conftest import save_letters


@pytest.fixture(scope="module")
def tuned(model_folder, tmp_path_factory):
    """A prefix state and a LoRA, both briefly trained."""
    folder = tmp_path_factory.mktemp("tuned")
    rows = folder / "rows.jsonl"
    rows.write_text(json.dumps({"prompt": "row 7", "completion": " is here"}) + "\n")
    rows.write_text(rows.read_text() * 16)
    for name in ("ntk", "lora"):
        request = TuningRequest(
            str(model_folder),
            rows,
            rows,
            "causal-lm",
            method=Method(name, learning_rate=0.05),
            training=TrainingSettings(epochs=2, batch=8),
        )
        tune(request, folder / name)
    return {name: folder / name for name in ("ntk", "lora")}


def test_tuned_adapters_answer_as_generate_does(make_service, tuned, model_folder):
    from fastapi.testclient import TestClient

    from attangent.serving import create_app

    service = make_service(adapters=tuned)
    assert set(service.engine.batches) == {BASE, "lora"}
    with TestClient(create_app(service), base_url="http://127.0.0.1") as client:
        texts = {}
        for name, folder in tuned.items():
            network, tokenizer = load_generator(folder, str(model_folder))
            wanted = generate_text(network, tokenizer, plain_ids(tokenizer, "row 7"), 10)
            body = {"model": name, "prompt": "row 7", "max_tokens": 10, "temperature": 0}
            texts[name] = client.post("/v1/completions", json=body).json()["choices"][0]["text"].strip()
            assert texts[name] == wanted
        assert len(set(texts.values())) == 2


def test_a_classifier_is_refused(model_folder, tmp_path):
    network, tokenizer = load_causal_lm(str(model_folder))
    catalog = Catalog(Scheduler(), str(model_folder), network, tokenizer)
    with pytest.raises(AttangentError):
        catalog.add_adapter("intents", tmp_path)


@pytest.mark.parametrize("name", ["", "a b", "../a", "a" * 65, "é"])
def test_names_are_checked(model_folder, prefix_folders, name):
    network, tokenizer = load_causal_lm(str(model_folder))
    catalog = Catalog(Scheduler(), str(model_folder), network, tokenizer)
    with pytest.raises(AttangentError, match="letters, digits"):
        catalog.add_prefix(name, prefix_folders["red"])


def test_a_prefix_of_another_model_is_refused(prefix_folders, tmp_path):
    from tests.compression.cases import tiny_llama

    folder = save_letters(tmp_path, tiny_llama(layers=3, kv_heads=4))
    network, tokenizer = load_causal_lm(str(folder))
    catalog = Catalog(Scheduler(), str(folder), network, tokenizer)
    with pytest.raises(AttangentError):
        catalog.add_prefix("red", prefix_folders["red"])
    assert [model.name for model in catalog.all()] == [folder.name]


def test_the_last_prefix_can_be_removed(model_folder, prefix_folders):
    network, tokenizer = load_causal_lm(str(model_folder))
    before = network(torch.arange(5)[None]).logits
    engine = Scheduler()
    catalog = Catalog(engine, str(model_folder), network, tokenizer)
    catalog.add_prefix("red", prefix_folders["red"])
    engine.start()
    catalog.remove("red")
    engine.call(lambda: None).result(10)
    assert "red" not in catalog
    assert torch.equal(network(torch.arange(5)[None]).logits, before)
    catalog.add_prefix("red", prefix_folders["red"])
    engine.stop()
