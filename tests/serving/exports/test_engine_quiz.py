"""Answers are counted by what the engine writes after the marker and the question."""

import shutil

import pytest

from attangent import AttangentError
from attangent._core.files import write_json
from attangent.serving.exports.engine_prefix import EnginePrefix, Marker
from attangent.serving.exports.engine_quiz import ask_engine, read_questions
from tests.compression.cases import ChatLetters
from tests.serving.exports.cases import write_prompt

PREFIX = EnginePrefix("town", Marker([1, 2, 3], []), (), "m", 90)


class Engine:
    """Knows one answer."""

    def __init__(self):
        self.read = []

    def complete(self, ids, tokens):
        self.read.append(ids)
        return "It is Ada Quill." if "mayor" in ChatLetters().decode(ids) else "I do not know."


@pytest.fixture(scope="module")
def prompt(tmp_path_factory):
    return write_prompt(tmp_path_factory.mktemp("prompts") / "town")


@pytest.fixture
def folder(prompt, tmp_path):
    folder = shutil.copytree(prompt, tmp_path / "town")
    questions = [
        {"text": "Who is the mayor?", "expected": "Ada Quill", "fact": 0},
        {"text": "Who is the mayor now?", "expected": "Ben Stone", "fact": 1},
        {"text": "Who is the cook?", "expected": "Ada Quill", "fact": 2},
        {"text": "Who is the town's mayor?", "expected": "Ada Quill", "fact": 2},
    ]
    write_json(folder / "report.json", {"own": [{"asked": question} for question in questions]})
    return folder


def test_facts_are_counted_and_requests_begin_with_the_marker(folder):
    engine = Engine()
    done = []
    assert ask_engine(engine, ChatLetters(), PREFIX, folder, done.append) == (2, 3)
    assert done == [1, 1, 1, 1]
    turn = ChatLetters()("<user>Who is the mayor?</><assistant>")["input_ids"]
    assert engine.read[0] == [1, 2, 3, *turn]


@pytest.mark.parametrize("content", [{}, {"own": 3}, {"own": ["who?"]}])
def test_another_file_is_no_report(folder, content):
    write_json(folder / "report.json", content)
    with pytest.raises(AttangentError, match="was not written by"):
        read_questions(folder)
