"""Prefixes in their folder: found again, kept apart by model, and never named by a request's words."""

import pytest

from attangent.adapters.hub import load_causal_lm
from attangent.serving.prefix_store import PrefixStore, model_fingerprint
from attangent.serving.protocol import ApiError, PrefixRequest

REPORT = {
    "prompt_tokens": 90,
    "size": 16,
    "kept": 9,
    "asked": 10,
    "bytes_of_cache": 1000,
    "bytes_of_states": 100,
    "goal": {"met": True, "attempts": [{"size": 16, "kept": 9, "asked": 10}]},
}


@pytest.fixture
def store(tmp_path):
    return PrefixStore(tmp_path / "store", "one model")


def request(text="a text", **options):
    return PrefixRequest(text=text, **options)


def complete(store, id):
    from attangent._core.files import write_json

    store.prefix_folder(id).mkdir()
    write_json(store.prefix_folder(id) / "report.json", REPORT)
    store.finish(id, None)


def test_the_same_text_and_options_are_the_same_prefix(store):
    first, is_new = store.add(request(name="mine"))
    assert is_new
    assert store.add(request()) == (first, False)
    assert store.get("mine") == store.get(first.id) == first
    for other in (request("another text"), request(keep=0.5), request(size=32)):
        assert store.add(other)[1]


def test_a_restart_finds_what_is_there(store):
    ready, waiting, failed = (store.add(request(text))[0] for text in ("a", "b", "c"))
    complete(store, ready.id)
    store.finish(failed.id, "too short")
    store.update(waiting.id, status="compressing", stage="reading", done=3)
    again = PrefixStore(store.folder, "one model")
    assert [again.get(each.id).status for each in (ready, waiting, failed)] == ["ready", "waiting", "failed"]
    shown = again.get(ready.id).as_json()
    assert shown["curve"] == [{"size": 16, "kept": 9, "asked": 10}]
    assert shown["result"]["prefix_bytes"] == 100
    assert again.get(failed.id).error == "too short"
    assert again.add(request("c"))[1]  # a failed one is compressed again
    assert again.get(failed.id).status == "waiting"


def test_a_folder_without_a_request_is_removed_and_others_are_left(store):
    (store.folder / f"px-{'0' * 24}").mkdir()
    (store.folder / "notes").mkdir()
    assert PrefixStore(store.folder, "one model").all() == []
    assert [path.name for path in store.folder.iterdir()] == ["notes"]


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"fingerprint": "one model"}', '{"fingerprint": "one model", "request": 3}']
)
def test_a_damaged_request_is_left_out(store, content, caplog):
    folder = store.folder / f"px-{'0' * 24}"
    folder.mkdir()
    (folder / "request.json").write_text(content)
    assert PrefixStore(store.folder, "one model").all() == []
    assert folder.is_dir()
    assert ("is damaged and is left out" in caplog.text) == (content != "{}")


@pytest.mark.parametrize("report", ["", "[]", '{"goal": 3}', '{"goal": {"attempts": [{}]}}'])
def test_a_damaged_report_is_left_out(store, report):
    prefix, _ = store.add(request())
    store.prefix_folder(prefix.id).mkdir()
    (store.prefix_folder(prefix.id) / "report.json").write_text(report)
    assert PrefixStore(store.folder, "one model").all() == []


def test_prefixes_of_another_model_are_left_alone(store):
    prefix, _ = store.add(request())
    other = PrefixStore(store.folder, "another model")
    assert other.all() == []
    assert other.add(request())[0].id != prefix.id
    assert store.prefix_folder(prefix.id).parent.is_dir()


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc", "..", "px-" + "0" * 24, "a\0b", ""])
def test_no_name_becomes_a_path(store, name):
    with pytest.raises(ApiError, match="there is no prefix"):
        store.get(name)


def test_names_are_unique_and_deleting_frees_them(store):
    prefix, _ = store.add(request(name="mine"))
    with pytest.raises(ApiError, match="'mine' is taken"):
        store.add(request("another", name="mine"))
    store.delete(prefix.id)
    assert list(store.folder.iterdir()) == []
    store.update(prefix.id, status="compressing")  # a late report of its process changes nothing
    assert store.all() == []
    assert store.add(request("another", name="mine"))[1]


def test_the_number_of_prefixes_is_limited(store, monkeypatch):
    monkeypatch.setattr("attangent.serving.prefix_store._MOST_PREFIXES", 1)
    store.add(request())
    with pytest.raises(ApiError, match="delete one first"):
        store.add(request("another"))


def test_a_fingerprint_tells_weights_apart(model_folder):
    network, tokenizer = load_causal_lm(str(model_folder))
    before = model_fingerprint(network, tokenizer)
    assert model_fingerprint(*load_causal_lm(str(model_folder))) == before
    network.lm_head.weight[0, 0] += 1
    assert model_fingerprint(network, tokenizer) != before


def test_a_ready_prefix_that_cannot_be_loaded_has_failed(make_service, tmp_path):
    store = make_service(store=tmp_path / "kept").store
    prefix, _ = store.add(request(name="tower"))
    complete(store, prefix.id)
    again = make_service(store=tmp_path / "kept")
    assert again.store.get("tower").status == "failed"
    assert "no file" in again.store.get("tower").error
    assert "tower" not in again.catalog
