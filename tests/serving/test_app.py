"""The endpoints as a client meets them: answers, streams, prefixes and errors in OpenAI's format."""

import json
import time

import pytest
import torch

from attangent import batch
from attangent.adapters.hub import load_causal_lm
from attangent.compression import load_compressed
from attangent.compression.session import generate_text
from attangent.serving import create_app
from attangent.serving.protocol import CompletionRequest

CHAT = {
    "model": "red",
    "messages": [{"role": "user", "content": "hello"}],
    "temperature": 0,
    "max_tokens": 12,
}
TEXT = {"model": "red", "prompt": "hello", "max_tokens": 8}


def events(response):
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def test_models_are_listed(client, model_folder):
    models = client.get("/v1/models").json()["data"]
    assert [model["id"] for model in models] == [model_folder.name, "red", "green", "blue"]
    assert [model["max_model_len"] for model in models] == [1024, 984, 949, 914]
    assert client.get("/v1/models/red").json() == models[1]
    assert client.get("/v1/models/pink").status_code == 404


def test_a_chat_answers_as_generate_does(client, model_folder, prefix_folders):
    network, tokenizer = load_causal_lm(str(model_folder))
    reader = load_compressed(network, tokenizer, prefix_folders["red"])
    wanted = generate_text(network, tokenizer, reader.question(tokenizer, "hello"), 12)
    body = client.post("/v1/chat/completions", json=CHAT).json()
    assert body["object"] == "chat.completion"
    assert body["choices"][0]["message"]["content"].strip() == wanted
    assert body["choices"][0]["finish_reason"] in ("length", "stop")
    asked = len(reader.question(tokenizer, "hello"))
    assert body["usage"]["prompt_tokens"] == asked
    assert body["usage"]["total_tokens"] == asked + body["usage"]["completion_tokens"]
    states = sum(
        t.numel() * t.element_size()
        for slot in network.modules()
        if type(slot).__name__ == "RaggedState"
        for t in slot.state_dict().values()
    )
    tokens = (asked + body["usage"]["completion_tokens"] - 1) * 2 * 2 * 2 * 8 * 4
    assert body["usage"]["attangent"]["kv_bytes"] == states + tokens


def test_a_stream_has_the_text_of_the_whole_answer(client):
    whole = client.post("/v1/chat/completions", json={**CHAT, "n": 2}).json()
    streamed = client.post(
        "/v1/chat/completions",
        json={**CHAT, "n": 2, "stream": True, "stream_options": {"include_usage": True}},
    )
    assert streamed.headers["content-type"].startswith("text/event-stream")
    *chunks, last = events(streamed)
    assert last["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
    assert last["choices"] == []
    for number, choice in enumerate(whole["choices"]):
        own = [each for chunk in chunks for each in chunk["choices"] if each["index"] == number]
        assert own[0]["delta"] == {"role": "assistant", "content": ""}
        assert "".join(each["delta"].get("content", "") for each in own) == choice["message"]["content"]
        assert [each["finish_reason"] for each in own][-1] == choice["finish_reason"]
    assert not any("usage" in chunk for chunk in chunks)


def test_several_prompts_and_answers_by_seed(client):
    request = {**TEXT, "prompt": ["a b", "c"], "n": 2, "seed": 1}
    one, same = (client.post("/v1/completions", json=request).json() for _ in range(2))
    texts = [choice["text"] for choice in one["choices"]]
    assert [choice["index"] for choice in one["choices"]] == [0, 1, 2, 3]
    assert texts == [choice["text"] for choice in same["choices"]]
    assert texts[0] != texts[1]
    alone = client.post("/v1/completions", json={**request, "prompt": "c", "n": 1}).json()
    assert alone["choices"][0]["text"] == texts[2]
    assert one["usage"]["prompt_tokens"] == 4


def test_tokens_can_be_passed_instead_of_text(client):
    ids = client.app.state.service.catalog.tokenizer("hello")["input_ids"]
    texts = [
        client.post("/v1/completions", json={**TEXT, "temperature": 0, "prompt": prompt}).json()["choices"][0]
        for prompt in ("hello", ids, [ids])
    ]
    assert texts[0] == texts[1] == texts[2]


def test_a_stop_string_ends_the_answer(client):
    whole = client.post("/v1/completions", json={**TEXT, "temperature": 0}).json()["choices"][0]["text"]
    stop = whole[3:5]
    request = {**TEXT, "temperature": 0, "stop": [stop, "never"]}
    choice = client.post("/v1/completions", json=request).json()["choices"][0]
    assert choice["text"] == whole[: whole.index(stop)]
    assert choice["finish_reason"] == "stop"


def test_log_probabilities(client):
    body = client.post("/v1/chat/completions", json={**CHAT, "logprobs": True, "top_logprobs": 2}).json()
    content = body["choices"][0]["logprobs"]["content"]
    assert len(content) == body["usage"]["completion_tokens"]
    assert all(each["top_logprobs"][0]["logprob"] == each["logprob"] for each in content)
    assert "".join(each["token"] for each in content).startswith(body["choices"][0]["message"]["content"])


@pytest.mark.parametrize(
    ("path", "change", "status", "param", "words"),
    [
        ("chat/completions", {"model": "pink"}, 404, "model", "there is no model 'pink'; use one of"),
        ("chat/completions", {"tools": [{"type": "function"}]}, 400, "tools", "at most 0 items"),
        ("chat/completions", {"colour": 1}, 400, "colour", "colour is not supported; leave it out"),
        ("chat/completions", {"temperature": 3}, 400, "temperature", "less than or equal to 2"),
        ("chat/completions", {"temperature": "0"}, 400, "temperature", "valid number"),
        ("chat/completions", {"presence_penalty": 0.0}, 200, None, ""),
        ("chat/completions", {"presence_penalty": 0.5}, 400, "presence_penalty", "Input should be 0"),
        ("chat/completions", {"messages": []}, 400, "messages", "at least 1 item"),
        ("chat/completions", {"n": 17}, 400, "n", "less than or equal to 16"),
        ("chat/completions", {"top_logprobs": 2}, 400, None, "top_logprobs needs logprobs"),
        ("chat/completions", {"max_tokens": 1000}, 400, "messages", "red has room for 984 tokens"),
        ("completions", {"prompt": ""}, 400, "prompt", "the prompt has no tokens"),
        ("completions", {"prompt": []}, 400, "prompt", "1 to 64 prompts"),
        ("completions", {"prompt": [5, 128]}, 400, "prompt", "not between 0 and 127"),
        ("completions", {"logprobs": 1}, 400, "logprobs", "Input should be None"),
        ("completions", {"prompt": "x" * 2000}, 400, "prompt", "shorten the messages"),
    ],
)
def test_what_is_not_supported_is_an_error(client, path, change, status, param, words):
    body = {**(CHAT if path.startswith("chat") else TEXT), **change}
    response = client.post(f"/v1/{path}", json=body)
    assert response.status_code == status
    if status != 200:
        error = response.json()["error"]
        assert error["param"] == param
        assert words in error["message"]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"[" * 100_000, b'{"model": ' + b"1" * 5000 + b"}", b'"\\ud800"', b"\xff"]
)
@pytest.mark.parametrize("path", ["chat/completions", "completions", "prefixes"])
def test_a_body_that_is_no_object_is_an_error(client, path, content):
    response = client.post(f"/v1/{path}", content=content)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "invalid_json"


def test_a_long_list_of_wrong_items_is_one_error():
    body = {**TEXT, "prompt": [*[1] * 1000, "x"]}
    with pytest.raises(ValueError, match="validation error") as refused:
        CompletionRequest.model_validate(body)
    assert refused.value.error_count() < 10


def test_the_name_of_an_unknown_parameter_is_shortened(client):
    error = client.post("/v1/completions", json={**TEXT, "x" * 10_000: 1}).json()["error"]
    assert (len(error["param"]), error["code"]) == (100, "unsupported_parameter")


def test_a_lone_surrogate_is_an_error(client):
    for raw in (b'{"model": "red", "prompt": "\\ud800"}', b'{"model": "\\ud800", "prompt": "a"}'):
        assert client.post("/v1/completions", content=raw).status_code in (400, 404)


def test_a_full_queue_and_the_time_limit(make_service):
    from fastapi.testclient import TestClient

    service = make_service(most_waiting=2, request_seconds=1e-9)
    with TestClient(create_app(service), base_url="http://127.0.0.1") as client:
        busy = client.post("/v1/completions", json={**TEXT, "n": 3})
        assert (busy.status_code, busy.json()["error"]["type"]) == (429, "rate_limit_error")
        assert client.post("/v1/completions", json=TEXT).status_code == 504
        late = client.post("/v1/completions", json={**TEXT, "stream": True})
        assert late.status_code == 200
        assert "time limit" in json.loads(late.text.removeprefix("data: "))["error"]["message"]


def test_a_failure_says_nothing_of_the_inside(client, monkeypatch):
    monkeypatch.setattr(client.app.state.service.catalog, "get", lambda name: 1 / 0)
    response = client.post("/v1/completions", json=TEXT)
    assert response.status_code == 500
    assert response.json()["error"]["message"] == "the server failed; its log says why"
    assert "content-security-policy" in response.headers


def test_health_and_metrics(client):
    client.post("/v1/completions", json={**TEXT, "temperature": 0})
    assert client.get("/health").json() == {"status": "ok"}
    lines = client.get("/metrics").text.splitlines()
    assert 'attangent_requests_total{route="/v1/completions",status="200"} 1' in lines
    assert 'attangent_tokens_total{kind="prompt"} 5' in lines
    assert "attangent_first_token_seconds_count 1" in lines
    deadline = time.monotonic() + 10  # the row leaves the batch just after its answer
    while "attangent_running 0" not in client.get("/metrics").text.splitlines():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_files_of_the_page(client):
    assert "attangent" in client.get("/").text
    for name in ("app.js", "style.css", "icon.svg"):
        assert client.get(f"/page/{name}").status_code == 200
    for name in ("index.html", "..%2fapp.py", "%2e%2e/app.py", "nothing.js"):
        assert client.get(f"/page/{name}").status_code == 404


def test_rows_and_prefixes_of_one_network_do_not_leak(client):
    """The base model answers as it does without any prefix."""
    service = client.app.state.service
    client.post("/v1/completions", json=TEXT)
    base = client.post(
        "/v1/completions", json={**TEXT, "model": service.catalog.base, "temperature": 0}
    ).json()
    service.stop()
    network, tokenizer = load_causal_lm(service.compressor.model)
    ids = torch.tensor(tokenizer("hello")["input_ids"])
    with batch(network, [None]):
        assert generate_text(network, tokenizer, ids, 8) == base["choices"][0]["text"].strip()
