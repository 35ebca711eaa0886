from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub.errors import RepositoryNotFoundError

from attangent import AttangentError
from attangent.adapters.hub import check_model_name


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
