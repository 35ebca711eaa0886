"""The middleware puts a prefix's marker before requests that name it."""

import asyncio
import json
from types import SimpleNamespace

import pytest
import torch

from attangent import AttangentError
from attangent.serving.exports.engine_prefix import EnginePrefix, Layer, Marker, write_prefix
from attangent.serving.exports.prefix_names import PrefixNames, named

SYSTEM = {"role": "system", "content": "town 12 . ."}
USER = {"role": "user", "content": "who?"}


def prefix(messages):
    layer = Layer(torch.ones(3, 1, 2), torch.ones(3, 1, 2))
    return EnginePrefix("town", Marker([5, 6, 7], messages), (layer,), "m", 90)


KNOWN = {"town": prefix([SYSTEM])}


def test_chats_and_tokens_begin_with_the_marker():
    chat = json.loads(named(json.dumps({"model": "town", "messages": [USER], "seed": 1}).encode(), KNOWN))
    assert chat == {"messages": [SYSTEM, USER], "seed": 1}
    tokens = json.loads(named(b'{"model": "town", "prompt": [1, 2]}', KNOWN))
    assert tokens == {"prompt": [5, 6, 7, 1, 2]}


@pytest.mark.parametrize("body", [b'{"model": "m", "prompt": "a"}', b"{", b"[]", b'{"model": 3}', b"{}"])
def test_other_requests_are_unchanged(body):
    assert named(body, KNOWN) == body


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"prompt": "text"}, "must be a list of token ids"),
        ({"messages": "text"}, "must be a list"),
        ({"messages": [SYSTEM, USER]}, "already has a system message"),
    ],
)
def test_requests_that_cannot_follow_are_refused(request_, message):
    with pytest.raises(AttangentError, match=message):
        named(json.dumps({"model": "town", **request_}).encode(), KNOWN)


def test_a_prefix_of_plain_text_takes_no_chat():
    with pytest.raises(AttangentError, match="continues text"):
        named(json.dumps({"model": "town", "messages": [USER]}).encode(), {"town": prefix([])})


def sent_by(folder, path, body):
    """What the server behind the middleware reads, and what the client gets."""
    read = []
    answered = []

    async def app(scope, receive, send):
        read.append(((await receive())["body"], dict(scope["headers"])))

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        answered.append(message)

    settings = SimpleNamespace(kv_connector_extra_config={"prefixes": [str(folder)]})
    server = SimpleNamespace(state=SimpleNamespace(args=SimpleNamespace(kv_transfer_config=settings)))
    scope = {
        "type": "http",
        "path": path,
        "headers": [(b"content-length", b"1"), (b"a", b"b")],
        "app": server,
    }
    asyncio.run(PrefixNames(app)(scope, receive, send))
    return read, answered


def test_the_server_reads_the_new_body_and_its_length(tmp_path):
    folder = write_prefix(KNOWN["town"], tmp_path / "town")
    body = json.dumps({"model": "town", "messages": [USER]}).encode()
    [(new, headers)], answered = sent_by(folder, "/v1/chat/completions", body)
    assert json.loads(new)["messages"] == [SYSTEM, USER]
    assert headers == {b"content-length": str(len(new)).encode(), b"a": b"b"}
    assert not answered
    [(same, _)], _ = sent_by(folder, "/v1/models", body)
    assert same == body


def test_a_refused_request_gets_an_error_in_the_format_of_openai(tmp_path):
    folder = write_prefix(KNOWN["town"], tmp_path / "town")
    read, answered = sent_by(folder, "/v1/completions", b'{"model": "town", "prompt": "text"}')
    assert not read
    assert answered[0]["status"] == 400
    assert "token ids" in json.loads(answered[1]["body"])["error"]["message"]
