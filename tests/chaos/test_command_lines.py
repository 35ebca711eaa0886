"""Command lines that the fuzzer starts from."""

import pytest
from chaos.command_lines import BEFORE, commands, lines


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
