"""Names on the Hub, pushing to it and loading from it; its client is replaced by a folder."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
import torch
from huggingface_hub.errors import RepositoryNotFoundError
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline

import attangent
from attangent import AttangentError
from attangent.adapters import NTKConfig, attach, load_adapter, save_adapter
from attangent.adapters.hub import check_model_name, push_to_hub
from attangent.tuning import Method, TrainingSettings, TuningRequest, tune
from tests.adapters.tiny import save_bert, save_llama, write_rows


@pytest.fixture
def hub(monkeypatch):
    """The hub replaced at its border: what was asked, and what it answers."""
    asked = []

    def answer_with(error: Exception | None = None) -> list:
        def model_info(self, name, *, timeout):
            asked.append((name, timeout))
            if error is not None:
                raise error

        monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)
        return asked

    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda name, file: None)
    return answer_with


def test_a_folder_is_taken_as_it_is(tmp_path, hub):
    asked = hub(OSError("no network"))
    check_model_name(tmp_path)
    assert asked == []


def test_the_hub_is_asked_once_and_briefly(hub):
    asked = hub()
    check_model_name("owner/model")
    assert asked == [("owner/model", 5.0)]


def test_a_cached_model_needs_no_network(monkeypatch, hub):
    asked = hub(OSError("no network"))
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda name, file: "/cache/config.json")
    check_model_name("owner/model")
    assert asked == []


def test_an_unreachable_hub_is_said_with_both_readings(hub):
    hub(OSError("name not known"))
    with pytest.raises(AttangentError, match=r"misspelt is neither a local folder.*Hub could not be reached"):
        check_model_name("misspelt")


def test_a_model_the_hub_does_not_have(hub):
    response = SimpleNamespace(headers={}, request=None, status_code=404)
    hub(RepositoryNotFoundError("404", response=response))
    with pytest.raises(AttangentError, match="no model of this name"):
        check_model_name("owner/gone")


@pytest.mark.parametrize("name", ["", "../up", "a/b/c", "/nowhere/at/all", "with space"])
def test_what_can_be_neither_is_refused_without_asking(name, hub):
    asked = hub()
    with pytest.raises(AttangentError, match="there is no folder"):
        check_model_name(name)
    assert asked == []


def test_a_file_is_no_model(tmp_path, monkeypatch, hub):
    hub()
    (tmp_path / "model").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AttangentError, match="there is no folder model"):
        check_model_name("model")


@pytest.fixture
def shared_hub(monkeypatch, tmp_path):
    """What was pushed lies below `remote`, and is fetched from there."""
    remote = tmp_path / "remote"

    class Api:
        def __init__(self, token=None):
            self.token = token

        def create_repo(self, repo, private, exist_ok):
            assert exist_ok
            return f"https://hub.example/{repo}"

        def create_commit(self, repo, operations, commit_message):
            if self.token == "refused":
                raise RuntimeError("401 Unauthorized\nlong story")
            for one in operations:
                place = remote / repo / one.path_in_repo
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(one.path_or_fileobj)

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    monkeypatch.setattr(
        huggingface_hub, "try_to_load_from_cache", lambda name, file: str(remote / name / file)
    )
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda name, file: str(remote / name / file))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, allow_patterns: str(remote / name))
    return remote


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return save_llama(tmp_path_factory.mktemp("llama"))


def attached(folder):
    torch.manual_seed(0)
    return attach(AutoModelForCausalLM.from_pretrained(folder).eval(), NTKConfig(features="elu", units="raw"))


def test_an_adapter_goes_up_with_its_card_and_comes_back(shared_hub, llama, tmp_path):
    model = attached(llama)
    save_adapter(model, tmp_path / "mine")
    (tmp_path / "mine/.secret.json").write_text("{}")
    (tmp_path / "mine/notes.py").write_text("")
    address = push_to_hub(tmp_path / "mine", "me/story", base_model="them/llama", private=True)
    assert address == "https://hub.example/me/story"
    names = {path.name for path in (shared_hub / "me/story").iterdir()}
    assert names == {"adapter_config.json", "adapter_model.safetensors", "README.md"}
    everything = "".join(path.read_text(errors="replace") for path in (shared_hub / "me/story").iterdir())
    assert str(llama) not in everything
    card = (shared_hub / "me/story/README.md").read_text()
    assert "base_model: them/llama" in card
    assert 'load_adapter(model, "me/story")' in card
    again = load_adapter(AutoModelForCausalLM.from_pretrained(llama).eval(), "me/story")
    ids = torch.arange(8)[None]
    assert torch.equal(again(ids).logits, model(ids).logits)


def test_a_tuned_folder_goes_up_and_load_tuned_takes_its_name(shared_hub, tmp_path):
    bert = save_bert(tmp_path / "bert")
    write_rows(bert / "train.jsonl", 24)
    given = TuningRequest(
        str(bert), bert / "train.jsonl", method=Method("ntk"), training=TrainingSettings(epochs=1)
    )
    tune(given, tmp_path / "run")
    push_to_hub(tmp_path / "run", "me/tuned", base_model="them/bert")
    assert json.loads((shared_hub / "me/tuned/tuned.json").read_text())["base_model"] == "them/bert"
    assert re.search(r'load_tuned\("me/tuned"\)', (shared_hub / "me/tuned/README.md").read_text())
    texts = ["the cat sleeps", "no dog runs"]
    ours = attangent.load_tuned(tmp_path / "run").predict(texts)
    assert attangent.load_tuned("me/tuned", model=str(bert)).predict(texts) == ours


def test_a_base_model_on_this_disk_has_to_be_named(shared_hub, llama, tmp_path):
    save_adapter(attached(llama), tmp_path / "mine")
    with pytest.raises(AttangentError, match="pass its Hub id as base_model="):
        push_to_hub(tmp_path / "mine", "me/story")
    with pytest.raises(AttangentError, match="has no adapter"):
        push_to_hub(llama, "me/story")
    assert not shared_hub.exists()


def test_a_refusal_of_the_hub_is_one_line(shared_hub, llama, tmp_path):
    save_adapter(attached(llama), tmp_path / "mine")
    with pytest.raises(AttangentError, match="401 Unauthorized; check the name") as refused:
        push_to_hub(tmp_path / "mine", "me/story", base_model="a/b", token="refused")
    assert "long story" not in str(refused.value)


def test_what_is_on_the_hub_but_no_tuned_model_is_refused(shared_hub):
    (shared_hub / "me/other").mkdir(parents=True)
    with pytest.raises(AttangentError, match=r"has no tuned\.json"):
        attangent.load_tuned("me/other")


def test_transformers_pipeline_takes_a_model_with_an_adapter(llama):
    model, tokenizer = attached(llama), AutoTokenizer.from_pretrained(llama)
    named = {"max_new_tokens": 3, "do_sample": False, "return_full_text": False}
    said = pipeline("text-generation", model=model, tokenizer=tokenizer)("the cat", **named)
    ids = tokenizer("the cat", return_tensors="pt")
    ours = model.generate(**ids, max_new_tokens=3, do_sample=False)[0, ids["input_ids"].shape[1] :]
    assert said[0]["generated_text"].split() == tokenizer.decode(ours, skip_special_tokens=True).split()


def test_a_folder_that_is_not_there_is_refused():
    with pytest.raises(AttangentError, match="has no adapter"):
        push_to_hub(Path("/nonexistent"), "me/x")
