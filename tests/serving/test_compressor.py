"""Documents are compressed in a process that can be killed at any time."""

import json
import os
import signal
import sys
import time

import pytest
from fastapi.testclient import TestClient

from attangent.serving import create_app
from attangent.serving.compressor import _compress
from attangent.serving.protocol import PrefixRequest

DOCUMENT = "The keeper of the tower is old. The light of the tower is green. The boat is called Mary. " * 2


def until(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def times_of(work):
    """When each stored result of a compression was written."""
    return {path.name: path.stat().st_mtime_ns for path in work.rglob("*.safetensors")}


def test_a_document_survives_a_kill_and_answers_after_a_restart(make_service, tmp_path, monkeypatch):
    """One story with one process, because each takes seconds to start: it resumes in this one."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    service = make_service(store=tmp_path / "kept")
    prefix, _ = service.store.add(PrefixRequest(text=DOCUMENT, keep=0, size=8, name="tower"))
    folder = service.store.prefix_folder(prefix.id)
    service.compressor.start()
    until(lambda: times_of(folder / ".work"))
    os.kill(service.compressor._process.pid, signal.SIGSTOP)  # so that it cannot finish first
    service.compressor._stopping = True  # the server dies with it, as far as the folder can tell
    os.kill(service.compressor._process.pid, signal.SIGKILL)
    service.stop()
    stored = times_of(folder / ".work")
    again = make_service(store=tmp_path / "kept")
    seen = []

    def resume(id):
        def report(**news):
            again.compressor._note(id, news)
            seen.append(times_of(folder / ".work"))

        _compress(again.compressor.model, folder.parent, report)

    monkeypatch.setattr(again.compressor, "_watch", resume)
    with TestClient(create_app(again), base_url="http://127.0.0.1") as client:
        until(lambda: client.get("/v1/prefixes/tower").json()["status"] == "ready")
        assert stored
        assert all(times.items() >= stored.items() for times in seen if times)
        result = client.get("/v1/prefixes/tower").json()["result"]
        assert result["size"] == 8
        assert result["prompt_tokens"] > len(DOCUMENT)
        same = client.post("/v1/prefixes", json={"text": DOCUMENT, "keep": 0, "size": 8})
        assert (same.status_code, same.json()["id"]) == (200, prefix.id)
        chat = {"model": "tower", "messages": [{"role": "user", "content": "who?"}], "max_tokens": 4}
        assert client.post("/v1/chat/completions", json=chat).status_code == 200
        assert client.get("/v1/prefixes/tower/text").json() == {"text": DOCUMENT}
        assert client.delete("/v1/prefixes/tower").json()["deleted"]
        assert client.post("/v1/chat/completions", json=chat).status_code == 404
        until(lambda: "tower" not in again.catalog.network.attangent_record.configs)
    assert list((tmp_path / "kept").iterdir()) == []


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ('print(\'{"stage": "reading", "done": 1, "total": 2}\'); exit(9)', "ended with code 9"),
        ('print(\'{"error": "the prompt is too long"}\')', "the prompt is too long"),
        ("print('no JSON')", "the compression failed"),
    ],
)
def test_a_failure_is_told_and_can_be_tried_again(client, script, error):
    client.app.state.service.compressor.command = (sys.executable, "-c", f"input(); {script}")
    for _ in range(2):
        assert client.post("/v1/prefixes", json={"text": "a text", "name": "bad"}).status_code == 202
        until(lambda: client.get("/v1/prefixes/bad").json()["status"] == "failed")
        assert error in client.get("/v1/prefixes/bad").json()["error"]
    assert "bad" not in [model["id"] for model in client.get("/v1/models").json()["data"]]


def test_progress_and_the_curve_are_shown_and_deleting_ends_the_process(client):
    news = [{"stage": "fitting", "done": 1, "total": 4}, {"size": 16, "kept": 3, "asked": 9}]
    lines = "".join(json.dumps(each) + "\\n" for each in news)
    script = f"import time; input(); print('{lines}', flush=True); time.sleep(600)"
    client.app.state.service.compressor.command = (sys.executable, "-c", script)
    client.post("/v1/prefixes", json={"text": "a text", "name": "slow"})
    until(lambda: client.get("/v1/prefixes/slow").json()["curve"])
    shown = client.get("/v1/prefixes/slow").json()
    assert shown["progress"] == news[0]
    assert shown["curve"] == [news[1]]
    assert client.delete("/v1/prefixes/slow").status_code == 200
    until(lambda: client.app.state.service.compressor._process is None)
    assert client.get("/v1/prefixes").json()["data"] == []


@pytest.mark.parametrize(
    ("content", "kind", "query", "status", "words"),
    [
        (b" ", "text/plain", "", 400, "only blanks"),
        (b"\xff", "text/plain", "", 400, "not UTF-8"),
        (b"a", "text/plain", "?keep=2", 400, "less than or equal to 1"),
        (b"a", "text/plain", "?size=two", 400, "valid integer"),
        (b"a", "text/plain", "?size=%C2%B2", 400, "valid integer"),  # a superscript is a digit, but no number
        (b"a", "text/plain", "?size=" + "9" * 99, 400, "less than or equal to 65536"),
        (b"a", "text/plain", "?path=/etc", 400, "path is not supported"),
        (b"a", "multipart/form-data", "", 415, "send JSON or text/plain"),
        (b'{"text": "a", "name": "../x"}', "application/json", "", 400, "name"),
        (b'{"text": "a", "name": "red"}', "application/json", "", 409, "taken"),
        (b'{"text": "a", "file": "/etc/passwd"}', "application/json", "", 400, "file is not supported"),
        (b'{"text": "a"}', "application/json", "?keep=1", 400, "put them into the JSON"),
    ],
)
def test_bad_requests_start_nothing(client, content, kind, query, status, words):
    response = client.post(f"/v1/prefixes{query}", content=content, headers={"content-type": kind})
    assert response.status_code == status
    assert words in response.json()["error"]["message"]
    assert client.get("/v1/prefixes").json()["data"] == []
