"""Command lines that the fuzzer starts from."""

import pytest
from chaos.command_lines import BEFORE, commands, lines

from attangent import AttangentError


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("lines"))
        yield lines()


def test_every_command_has_a_line_that_it_understands(made):
    assert set(made) == set(commands())
    assert set(BEFORE) < set(made)
    for name, words in made.items():
        commands()[name].make_context(name, list(words))


def test_a_server_is_visited_and_ended(made, monkeypatch):
    from chaos.commands_worker import run

    run("serve", made["serve"])
    monkeypatch.setattr("attangent.cli.commands.TERMINATED", 1)
    with pytest.raises(RuntimeError, match=r"a server answered \[200\] and ended with 1"):
        run("serve", made["serve"])
    with pytest.raises(AttangentError, match="exit 2"):
        run("serve", [*made["serve"], "--rows", "0"])
