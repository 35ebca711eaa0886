"""Every block of code in README and docs runs, with tiny models and files, or says why not."""

import contextlib
import doctest
import os
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from attangent.cli.commands import app
from tests.adapters.tiny import save_bert
from tests.docs.snippets import LANGUAGES, PAGES, QUESTIONS, ROOT, TEXT, Snippet, snippets, write_world
from tests.docs.toys import save_chat_model

CHAT = "HuggingFaceTB/SmolLM2-135M-Instruct"
ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
SMALLER = {
    "benchmarks/suites/compression/texts/documents/building/": "",
    "src/attangent/data/samples/": "",
    "'P2/lemma-*' --seeds 5": "P2/definition-3.6 --seeds 1 --jobs 1",
    "'P2/lemma-*' --seed 100 --seeds 5": "P2/definition-3.6 --seed 100 --seeds 1",
    "--profile quick --out audit-quick": "P2/definition-3.6 --profile quick --jobs 1 --out audit-quick",
    "--profile full --out audit-full": "P2/definition-3.6 --profile full --jobs 1 --out audit-full",
    "~/datasets": "datasets",
    "prompts=16": "prompts=2",
    "--jobs 2 --quiet": "--jobs 1 --quiet",
    '"max_tokens": 60': '"max_tokens": 4',
    'model="handbook", messages': 'max_tokens=4, model="handbook", messages',
    "legal=contracts --adapter support=run": "legal=handbook",
}
"""Parts of commands, and what takes their place here: shorter files, one claim, one process."""
BEFORE = {
    "calls.md": ["attangent tune --model {encoder} --train tickets.csv --method probe --out run"],
    "serve.md": [
        "attangent compress --model {chat} --prompt guide.md --keep 0 --size 16 --distill 0 --out handbook"
    ],
}
"""Commands that a reader of a page has run before."""
NOT_RUN = {
    r"^pip install ": "it changes the environment",
    r"^make ": "it takes minutes or installs packages; the target is looked up in the Makefile",
    r"(?:^| )python -m benchmarks": "it measures at real size; the module and its options are looked up",
    r"^vllm serve ": "it needs vLLM: tests/serving/test_vllm_connector.py",
    r"^llama-server |--server http|:8080/": "it needs llama.cpp: tests/serving/exports/test_slot_file.py",
    r"^curl .*Content-Type: application/json": "it asks vLLM",
    r"^ATTANGENT_\w+=\S+ .*pytest": "it needs another engine",
    r"attangent data get ": "it downloads",
    r"^attangent audit --paper MyPaper": "it needs the package that the line before installs",
    r"v1/prefixes": "it compresses in another process: tests/serving/test_compressor.py",
    r"^attangent stages runs/": "it needs TensorBoard: tests/stages reads such folders if it is installed",
    r"push_to_hub\(": "it uploads: tests/adapters/test_hub.py",
    r"langchain_openai": "langchain is no test package; the snippet before sends the same request",
    r"@claim\(": "it is a template with gaps to fill in: tests/audit checks the arguments",
}
"""Snippets that are not run, by a pattern, and why."""
RUN = CliRunner()


def reason_of(text: str) -> str | None:
    return next((reason for pattern, reason in NOT_RUN.items() if re.search(pattern, text)), None)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    words = re.findall(r"\w+|[^\w\s]", f"{TEXT} {QUESTIONS} " + " ".join(map(str, range(10))))
    encoder = save_bert(folder / "encoder")
    (encoder / "1_Pooling").mkdir()
    (encoder / "1_Pooling/config.json").write_text('{"pooling_mode_mean_tokens": true}')
    return {"chat": save_chat_model(folder / "chat", words), "encoder": encoder}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty home and a folder with the files that the pages speak of."""
    for name in ("ATTANGENT_CONFIG", "XDG_DATA_HOME", "ATTANGENT_STORE"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("ATTANGENT_DATA", "")  # a page may export it: restored after the test
    monkeypatch.delenv("ATTANGENT_DATA")
    work = tmp_path / "work"
    (work / "datasets").mkdir(parents=True)
    write_world(work)
    monkeypatch.chdir(work)
    torch.manual_seed(0)
    return work


@pytest.fixture
def background(monkeypatch):
    """Servers run in a thread, and end with the test or when the next one starts."""
    import uvicorn

    from attangent.serving import server
    from attangent.serving.app import create_app

    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def stop() -> None:
        while running:
            last, thread = running.pop()
            last.should_exit = True
            thread.join(20)

    def run(service, listener, announce=lambda: None):
        stop()
        started = threading.Event()
        engine = uvicorn.Server(uvicorn.Config(create_app(service), log_level="warning"))
        socket = listener.dup()
        thread = threading.Thread(target=lambda: engine.run(sockets=[socket]), daemon=True)
        thread.start()
        while not engine.started:
            started.wait(0.02)
        running.append((engine, thread))
        monkeypatch.setenv("PORT_OF_PAGE", str(listener.getsockname()[1]))
        announce()

    monkeypatch.setattr(server, "run", run)
    monkeypatch.setattr("attangent.serving.server.run", run)
    yield
    stop()


def adapted(text: str, models: dict[str, Path]) -> str:
    """Put tiny models, small inputs and the port of the test's server into a snippet."""
    for part, smaller in SMALLER.items():
        text = text.replace(part, smaller)
    text = text.replace(CHAT, str(models["chat"])).replace(ENCODER, str(models["encoder"]))
    text = re.sub(r"\bMODEL\b", str(models["chat"]), text)
    text = text.replace("ServeSettings(port=8000)", "ServeSettings(port=0)")
    return text.replace("127.0.0.1:8000", f"127.0.0.1:{os.environ.get('PORT_OF_PAGE', '8000')}")


def run_python(text: str, page: Path, names: dict) -> None:
    """Run an example; one that shows a session (>>>) must print what it shows."""
    if ">>>" not in text:
        exec(compile(text, page.name, "exec"), names)
        return
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    example = doctest.DocTestParser().get_doctest(text, names, page.name, str(page), 0)
    failed, _ = doctest.DocTestRunner(optionflags=flags).run(example, clear_globs=False)
    names.update(example.globs)
    assert failed == 0


def run_shell(command: str) -> None:
    if command.startswith("curl "):
        done = subprocess.run([*shlex.split(command), "--fail", "--silent"], capture_output=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return
    if command.startswith("export "):
        name, _, value = command.removeprefix("export ").partition("=")
        os.environ[name] = value
        return
    typed, _, command = command.rpartition(" | ")
    command, _, target = command.partition(" > ")
    command = re.sub(r"\$\(attangent (.+?)\)", lambda found: output_of(found[1]).strip(), command)
    words = shlex.split(command)
    assert words[0] == "attangent", f"nothing runs {command!r}: add a reason to NOT_RUN"
    more = ["--port", "0"] if words[1] == "serve" else []
    given = typed.removeprefix("echo ") or ("Who is the mayor?\n" if words[1] == "chat" else None)
    done = RUN.invoke(app, [*words[1:], *more], input=given)
    # a random model seldom keeps its facts: compress then exits with 3
    allowed = {0, 3} if words[1] == "compress" else {0}
    assert done.exit_code in allowed, (command, done.output, done.exception)
    if target:
        Path(target).write_text(done.stdout)


def output_of(arguments: str) -> str:
    return RUN.invoke(app, shlex.split(arguments)).stdout


def runnable(page: Path) -> list[Snippet]:
    return [each for each in snippets(page) if each.language in ("python", "sh") and not reason_of(each.text)]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=name_of)
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
def test_snippets_of_a_page_run_in_order(page, models, place, background):
    for command in BEFORE.get(page.name, ()):
        run_shell(command.format(**models))
    names: dict = {"__name__": "example"}
    for snippet in runnable(page):
        text = adapted(snippet.text, models)
        with contextlib.redirect_stdout(sys.stderr):
            run_python(text, page, names) if snippet.language == "python" else run_shell(text)


NOT = [each for page in PAGES for each in snippets(page) if reason_of(each.text)]


@pytest.mark.parametrize(
    "snippet", NOT, ids=lambda each: f"{name_of(each.page)}: {each.text.split(chr(10))[0][:50]}"
)
def test_why_a_snippet_is_not_run(snippet):
    """A skip shows the reason; what can be looked up is."""
    for target in re.findall(r"^make (\w+)", snippet.text):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target
    for module, options in re.findall(r"python -m (benchmarks[\w.]*)(.*)", snippet.text):
        check_module(module, options)
    pytest.skip(reason_of(snippet.text) or "")


def check_module(module: str, options: str) -> None:
    path = ROOT / module.replace(".", "/")
    file = path / "__main__.py" if path.is_dir() else path.with_suffix(".py")
    assert file.is_file(), module
    missing = [each for each in re.findall(r"(--[a-z-]+)", options) if each not in file.read_text()]
    assert not missing, (module, missing)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_name_their_language(page):
    assert {each.language for each in snippets(page)} <= LANGUAGES


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_modules_and_scripts_in_sentences_exist(page):
    text = page.read_text()
    for module, options in re.findall(r"`python -m (benchmarks[\w.]*)([^`]*)`", text):
        check_module(module, options)
    for script in re.findall(r"`(?:\.venv/bin/)?python (docs/[\w/.]+)", text):
        assert (ROOT / script).is_file(), script


def test_every_reason_is_used():
    texts = [snippet.text for snippet in NOT]
    assert [pattern for pattern in NOT_RUN if not any(re.search(pattern, text) for text in texts)] == []
