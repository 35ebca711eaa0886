"""The page in a real browser: compress, watch, chat side by side, on a screen and on a phone."""

import json
import shutil
import sys
import threading

import pytest
import uvicorn

from attangent._core.files import write_json
from attangent.serving import create_app
from attangent.serving.protocol import PrefixRequest
from attangent.serving.server import address_of, open_socket
from tests.audit.report.browser import start
from tests.serving.test_compressor import until
from tests.serving.test_prefix_store import REPORT

pytestmark = pytest.mark.browser
EVIL = "<img src=x onerror=document.title='owned'> the keeper is old"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with start(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def page(chromium, make_service, prefix_folders, tmp_path):
    """The page of a server with one stored prefix, whose compressions stay at the first size."""
    draft = make_service(store=tmp_path / "kept")
    prefix, _ = draft.store.add(PrefixRequest(text=EVIL, name="tower"))
    shutil.copytree(prefix_folders["red"], draft.store.prefix_folder(prefix.id))
    write_json(draft.store.prefix_folder(prefix.id) / "report.json", REPORT)
    service = make_service(store=tmp_path / "kept")
    news = [{"stage": "fitting", "done": 1, "total": 4}, {"size": 16, "kept": 3, "asked": 9}]
    lines = "".join(json.dumps(each) + "\\n" for each in news)
    script = f"import time; input(); print('{lines}', flush=True); time.sleep(600)"
    service.compressor.command = (sys.executable, "-c", script)
    listener = open_socket(service.settings)
    server = uvicorn.Server(uvicorn.Config(create_app(service), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    until(lambda: server.started)
    chromium.resize(1280, 900, phone=False)
    chromium.driver.get("about:blank")
    chromium.requests()
    chromium.driver.get(address_of(listener))
    chromium.home = address_of(listener)
    until(lambda: chromium.visible("#prefixes li"), 20)
    yield chromium
    server.should_exit = True
    thread.join(30)


def text_of(page, selector):
    return page.find(selector).text


def test_chat_side_by_side_with_its_figures(page):
    item = next(each for each in page.visible("#prefixes li") if each.text.startswith("tower"))
    assert "9 of 10 answers kept" in item.text
    item.find_element("css selector", "button").click()
    until(lambda: page.visible("#chat"), 20)
    page.find("#question").send_keys("<b>who?</b>")
    page.find("#ask").click()
    until(lambda: len(page.visible(".stats b")) == 8, 60)
    for column in ("#compressed", "#full"):
        assert text_of(page, f"{column} .turn.user") == "<b>who?</b>"
        figures = text_of(page, f"{column} .stats")
        assert all(word in figures for word in ("first token", "speed", "KV memory", "read"))
    assert text_of(page, "#name") == "tower"
    assert page.run("return document.title") == "attangent: chat with a compressed document"
    assert page.run("return document.querySelectorAll('main img, .turn b').length") == 0
    assert all(url.startswith((page.home, "about:", "data:")) for url in page.requests())
    assert [entry for entry in page.console() if entry["level"] == "SEVERE"] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_document_is_compressed_before_ones_eyes_on_a_phone(page, scheme):
    page.emulate(prefers_color_scheme=scheme)
    page.resize(390, 844, phone=True)
    page.find("#compress").click()
    until(lambda: "Paste a document first." in text_of(page, "#error"), 20)
    page.find("#text").send_keys("A short document.")
    page.find("#compress").click()
    until(lambda: page.visible("#curve circle"), 30)
    assert text_of(page, "#status").startswith("Fitting the compressed document, 1 of 4 · ")
    assert "3/9" in page.run("return document.getElementById('curve').textContent")
    page.find("#question").send_keys("who?")
    page.find("#ask").click()
    until(lambda: len(page.visible("#full .stats b")) == 4, 60)
    assert text_of(page, "#wait") == "Answers as soon as the compression has ended."
    assert page.visible("#compressed .turn") == []
    assert page.run("return document.documentElement.scrollWidth") <= 390
    background = page.run("return getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(18, 24, 26)") == (scheme == "dark")
