import os
import signal
import subprocess
import sys
import threading
import warnings

import pytest

from attangent import __version__
from attangent.cli import commands
from attangent.tuning.data.text import BlankTextWarning


def test_version_and_help_do_without_torch():
    script = (
        "import sys; sys.argv = ['attangent', {!r}]\n"
        "from attangent.cli.commands import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules, 'heavy import'\n"
    )
    for option, expected in (("--version", f"attangent {__version__}"), ("--help", "audit")):
        done = subprocess.run(
            [sys.executable, "-c", script.format(option)], capture_output=True, text=True, check=True
        )
        assert expected in done.stdout


def run_main(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["attangent", *words])
    with pytest.raises(SystemExit) as ended:
        commands.main()
    return ended.value.code, capsys.readouterr()


def test_a_missing_package_of_an_extra_is_named_with_the_extra(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    (tmp_path / "p.txt").write_text("a prompt")
    words = ("compress", "--model", "a/b", "--prompt", str(tmp_path / "p.txt"), "--out", str(tmp_path / "o"))
    code, said = run_main(monkeypatch, capsys, *words)
    assert code == 2
    assert "huggingface_hub, which is not installed: pip install 'attangent[adapters]'" in said.err


def test_what_no_extra_brings_is_raised(monkeypatch):
    with pytest.raises(ModuleNotFoundError):
        commands._name_extra(ModuleNotFoundError("no", name="nonesuch"))


def test_a_shell_completes_the_names_of_commands(monkeypatch, capsys):
    monkeypatch.setenv("_ATTANGENT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "attangent fore")
    monkeypatch.setenv("COMP_CWORD", "1")
    _, said = run_main(monkeypatch, capsys)
    assert said.out.split() == ["forecast"]


def test_a_disk_that_is_full_while_torch_writes_is_one_line(monkeypatch, capsys):
    def full(**given):
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 8384 vs 8278")

    monkeypatch.setattr(commands, "app", full)
    with pytest.raises(SystemExit) as ended:
        commands.main()
    assert ended.value.code == 2
    assert "attangent: cannot write: " in capsys.readouterr().err


@pytest.mark.parametrize("kind", [MemoryError, RuntimeError])
def test_memory_that_is_not_there_is_one_line(monkeypatch, capsys, kind):
    def large(**given):
        raise kind("Unable to allocate 2.24 TiB")

    monkeypatch.setattr(commands, "app", large)
    with pytest.raises(SystemExit) as ended:
        commands.main()
    assert ended.value.code == 2
    assert "attangent: there is not enough memory: Unable to allocate 2.24 TiB" in capsys.readouterr().err


def test_a_warning_of_ours_is_one_line_and_one_of_others_as_it_was(monkeypatch, capsys):
    def warn(prog_name):
        for _ in range(2):
            warnings.warn("two rows have no text", BlankTextWarning, stacklevel=1)
        warnings.warn("a peer's", UserWarning, stacklevel=1)

    monkeypatch.setattr(commands, "app", warn)
    with pytest.warns(UserWarning, match="a peer's") as others:
        commands.main()
    assert capsys.readouterr().err == "warning: two rows have no text\n"
    assert len(others) == 1


@pytest.fixture
def _hook_of_threads(monkeypatch):
    """Put back afterwards: a process that was asked to end does not need it any more, the tests do."""
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)


@pytest.mark.usefixtures("_hook_of_threads")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_ends_the_block_and_handlers_are_put_back(name):
    number = getattr(signal, name)
    before = signal.getsignal(number)
    with pytest.raises(commands.Terminated, match=name), commands.ending_on_signals():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) == before


@pytest.mark.usefixtures("_hook_of_threads")
def test_threads_that_fail_while_all_is_taken_down_are_silent(monkeypatch, capsys):
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    with pytest.raises(commands.Terminated), commands.ending_on_signals():
        os.kill(os.getpid(), signal.SIGTERM)
    falling = threading.Thread(target=lambda: {}["no such work"])
    falling.start()
    falling.join()
    assert capsys.readouterr().err == ""


def test_it_is_not_taken_for_a_failure():
    assert not issubclass(commands.Terminated, Exception)


def test_other_threads_are_left_alone():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def run():
        with commands.ending_on_signals():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]
