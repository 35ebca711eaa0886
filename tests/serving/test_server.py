"""A live server: the real OpenAI client, clients that leave, a graceful end, and the page's browser."""

import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading

import pytest

from attangent import AttangentError
from attangent._core.files import write_json
from attangent.adapters.hub import load_causal_lm
from attangent.serving.server import address_of, build_service, open_socket, run
from attangent.serving.settings import ServeSettings
from tests.serving.test_compressor import until

QUESTION = [{"role": "user", "content": "who is the keeper?"}]


@pytest.fixture(scope="module")
def endless(model_folder, tmp_path_factory):
    """The folder of a model that never ends a text."""
    folder = tmp_path_factory.mktemp("endless") / "model"
    shutil.copytree(model_folder, folder)
    settings = json.loads((folder / "generation_config.json").read_text())
    write_json(folder / "generation_config.json", {**settings, "eos_token_id": None})
    return folder


@pytest.fixture(scope="module")
def live(endless, prefix_folders, tmp_path_factory):
    """`attangent serve`: its address and process."""
    command = [sys.executable, "-m", "attangent", "serve", "--model", endless, "--port", "0", "--json"]
    for name, folder in prefix_folders.items():
        command += ["--prefix", f"{name}={folder}"]
    command += ["--store", tmp_path_factory.mktemp("store")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ATTANGENT_API_KEY": "a-secret-key"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([str(word) for word in command], env=environment, **pipes) as process:
        about = json.loads(process.stdout.readline() or process.stderr.read())
        yield about["url"], process
        if process.poll() is None:
            process.kill()


@pytest.fixture(scope="module")
def openai_client(live):
    openai = pytest.importorskip("openai")
    return openai.OpenAI(base_url=f"{live[0]}v1", api_key="a-secret-key", max_retries=0)


def test_the_openai_client_works_unchanged(openai_client, live):
    import openai

    assert [model.id for model in openai_client.models.list()][1:] == ["red", "green", "blue"]
    create = openai_client.chat.completions.create
    options = {"model": "red", "messages": QUESTION, "temperature": 0, "max_tokens": 12}
    whole = create(**options).choices[0].message.content
    with create(**options, stream=True) as stream:
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == whole
    completion = openai_client.completions.create(model="green", prompt="who", max_tokens=4, seed=1, n=2)
    assert len(completion.choices) == 2
    assert completion.usage.completion_tokens <= 8
    with pytest.raises(openai.NotFoundError, match="there is no model"):
        create(**{**options, "model": "pink"})
    with pytest.raises(openai.BadRequestError, match="not supported"):
        create(**options, extra_body={"colour": "red"})
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{live[0]}v1", api_key="another-key").models.list()


def test_langchain_asks_with_a_base_url(live):
    langchain = pytest.importorskip("langchain_openai", reason="pip install langchain-openai")
    llm = langchain.ChatOpenAI(
        base_url=f"{live[0]}v1", api_key="a-secret-key", model="red", temperature=0, max_tokens=4
    )
    assert isinstance(llm.invoke("who?").content, str)


def metric(openai_client, live, name):
    import httpx

    headers = {"authorization": f"Bearer {openai_client.api_key}"}
    lines = httpx.get(f"{live[0]}metrics", headers=headers, trust_env=False).text.splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"attangent_{name} ")))


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_row(openai_client, live, stream):
    host, port = live[0].removeprefix("http://").strip("/").split(":")
    body = json.dumps(
        {"model": "red", "messages": QUESTION, "max_tokens": 900, "stream": stream, "n": 4}
    ).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer a-secret-key\r\n"
    with socket.create_connection((host, int(port))) as client:
        client.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        until(lambda: metric(openai_client, live, "running") > 0, 20)
    until(lambda: metric(openai_client, live, "running") == 0, 20)


def test_a_signal_finishes_running_answers(openai_client, live):
    """The last test of this server."""
    answers = []

    def ask():
        create = openai_client.chat.completions.create
        with create(model="blue", messages=QUESTION, max_tokens=300, stream=True, seed=1) as stream:
            answers.append([chunk.choices[0].finish_reason for chunk in stream])

    thread = threading.Thread(target=ask)
    thread.start()
    until(lambda: metric(openai_client, live, "running") > 0, 20)
    live[1].send_signal(signal.SIGTERM)
    thread.join(60)
    assert answers[0][-1] in ("length", "stop")
    assert live[1].wait(60) == 143
    assert "terminated" in live[1].stderr.read()


def test_a_killed_server_is_an_error_for_its_clients(endless, tmp_path):
    """Streamed and not streamed; the server is forked, which saves the seconds of its imports."""
    openai = pytest.importorskip("openai")
    settings = ServeSettings(port=0)
    service = build_service(str(endless), *load_causal_lm(str(endless)), settings, tmp_path / "store")
    with open_socket(settings) as listener:
        server = multiprocessing.get_context("fork").Process(target=run, args=(service, listener))
        server.start()
        url = address_of(listener)
    client = openai.OpenAI(base_url=f"{url}v1", api_key="none", max_retries=0)
    errors = {}

    def ask(stream):
        try:
            list(client.completions.create(model="model", prompt="who", max_tokens=900, stream=stream))
        except Exception as error:  # the client passes on errors of its HTTP library within a stream
            errors[stream] = type(error).__name__

    threads = [threading.Thread(target=ask, args=(stream,)) for stream in (True, False)]
    for thread in threads:
        thread.start()
    until(lambda: metric(client, [url], "running") == 2, 20)
    server.kill()
    for thread in threads:
        thread.join(10)
    assert errors[True] in ("APIConnectionError", "RemoteProtocolError", "ReadError")
    assert errors[False] == "APIConnectionError"


def test_a_port_that_is_taken_is_named():
    with open_socket(ServeSettings(port=0)) as listener:
        port = listener.getsockname()[1]
        assert address_of(listener) == f"http://127.0.0.1:{port}/"
        with pytest.raises(AttangentError, match=f"cannot listen on 127.0.0.1 port {port}"):
            open_socket(ServeSettings(port=port))
