"""The gate: key, host, origin, size, time, and headers on every response."""

import asyncio
import json

import pytest

from attangent.serving.guard import HEADERS, Guard, Metrics
from attangent.serving.settings import ServeSettings

KEY = "a-secret-key"
LEFT = {"type": "http.disconnect"}


async def echo(scope, receive, send):
    """An application that answers with the size of the body."""
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(len(body)).encode()})


def call(
    settings=None, path="/v1/models", headers=None, parts=(b"",), app=echo, delay=0.0, send=None, receive=None
):
    """Status, headers and body of a response."""
    messages = [
        {"type": "http.request", "body": part, "more_body": index < len(parts) - 1}
        for index, part in enumerate(parts)
    ]
    sent = []

    async def parts_received():
        await asyncio.sleep(delay)
        return messages.pop(0)

    async def collect(message):
        sent.append(message)

    named = {"host": "127.0.0.1:8000"} | (headers or {})
    scope = {
        "type": "http",
        "path": path,
        "headers": [(name.encode(), value.encode()) for name, value in named.items()],
    }
    metrics = Metrics()
    guard = Guard(app, settings or ServeSettings(), metrics)
    asyncio.run(guard(scope, receive or parts_received, send or collect))
    if not sent:
        return None, {}, metrics.text({})
    start, *rest = sent
    return start["status"], dict(start["headers"]), b"".join(message["body"] for message in rest)


def message_of(body):
    return json.loads(body)["error"]["message"]


def test_a_request_passes_with_the_headers_of_security():
    status, headers, body = call(parts=(b"ab", b"c"))
    assert (status, body) == (200, b"3")
    assert headers[b"content-security-policy"].startswith(b"default-src 'none'")
    assert {name.encode() for name in HEADERS} <= set(headers)


@pytest.mark.parametrize(
    "given", [None, "", "Bearer", "Bearer wrong", f"bearer {KEY}", KEY, "Bearer caf\u00e9"]
)
def test_a_key_is_needed_if_there_is_one(given):
    headers = {} if given is None else {"authorization": given}
    status, _, body = call(ServeSettings(api_key=KEY), headers=headers)
    assert status == 401
    assert json.loads(body)["error"]["code"] == "invalid_api_key"


def test_the_right_key_and_open_paths_pass():
    settings = ServeSettings(api_key=KEY)
    assert call(settings, headers={"authorization": f"Bearer {KEY}"})[0] == 200
    assert [call(settings, path)[0] for path in ("/", "/health", "/page/app.js")] == [200] * 3
    assert [call(settings, path)[0] for path in ("/metrics", "/v1/prefixes", "/pages")] == [401] * 3


def test_nobody_without_the_key_fills_the_memory_with_bodies():
    settings = ServeSettings(api_key=KEY)
    assert call(settings, "/health", parts=(b"x",))[0] == 413
    assert call(settings, "/health", headers={"authorization": f"Bearer {KEY}"}, parts=(b"x",))[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8000", "", "10.0.0.1", "["])
def test_another_name_of_this_machine_is_refused(host):
    assert call(headers={"host": host})[0] == 403
    assert call(ServeSettings(host="0.0.0.0", api_key=KEY), "/health", headers={"host": host})[0] == 200


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:8000"])
def test_names_of_this_machine_pass(host):
    assert call(headers={"host": host})[0] == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://evil.example", 403),
        ("null", 403),
        ("http://[", 403),
        ("http://127.0.0.1:9", 403),
        ("http://127.0.0.1:8000", 200),
    ],
)
def test_pages_of_other_origins_are_refused(origin, status):
    assert call(headers={"origin": origin})[0] == status


def test_a_large_body_is_refused_as_declared_and_as_sent():
    settings = ServeSettings(most_bytes=10)
    for declared in ("11", "9" * 5000):
        assert call(settings, headers={"content-length": declared}, parts=(b"x" * 11,))[0] == 413
    for parts in ((b"x" * 11,), (b"x" * 6, b"x" * 6), (b"x" * 6,) * 100):
        assert call(settings, parts=parts)[0] == 413
    assert call(settings, parts=(b"x" * 5, b"x" * 5))[0] == 200


@pytest.mark.parametrize(("parts", "closed"), [(6, False), (100, True)])
def test_the_rest_of_a_large_body_is_read_within_bounds(parts, closed):
    """A client that has sent all hears why; one that sends without end is cut off."""
    _, headers, _ = call(ServeSettings(most_bytes=10), parts=(b"x" * 6,) * parts)
    assert (headers.get(b"connection") == b"close") == closed


def test_a_body_whose_client_leaves_never_reaches_the_application():
    read = []

    async def receive():
        read.append(None)
        return {"type": "http.request", "body": b"half", "more_body": True} if len(read) == 1 else LEFT

    status, _, _ = call(receive=receive)
    assert status == 499


def test_a_body_that_never_arrives_is_refused():
    status, _, body = call(ServeSettings(body_seconds=0.05), delay=1.0)
    assert status == 408
    assert message_of(body) == "the body took over 0.05 s to arrive"


def test_a_client_that_does_not_read_is_given_up():
    async def stuck(message):
        await asyncio.sleep(10)

    assert 'status="200"' in call(ServeSettings(send_seconds=0.05), send=stuck)[2]
