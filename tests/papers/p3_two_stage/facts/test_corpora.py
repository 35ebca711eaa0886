"""Corpora of facts: made-up ones, CounterFact and HotpotQA."""

import gzip
import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attangent import AttangentError
from attangent.papers.p3_two_stage.facts.corpora import (
    DIRECT,
    TWO_HOPS,
    FactCorpus,
    FactExample,
    TypedFacts,
    load_counterfact,
    load_hotpotqa,
    question_kind,
)


def test_the_most_frequent_answer():
    examples = tuple(FactExample(f"p{i}", answer, "t") for i, answer in enumerate("aaab"))
    assert FactCorpus(examples, (), {"t": ("a", "b")}, "test").most_frequent == 0.75


def test_corpora_are_checked():
    with pytest.raises(AttangentError, match="no examples"):
        FactCorpus((), (), {}, "empty")
    with pytest.raises(AttangentError, match="not among those of type"):
        FactCorpus((FactExample("p", "c", "t"),), (), {"t": ("a",)}, "test")


@settings(max_examples=20)
@given(
    relations=st.integers(2, 6),
    answers=st.integers(1, 6),
    subjects=st.integers(1, 20),
    facts=st.integers(1, 2),
    wordings=st.integers(2, 5),
    links=st.integers(0, 3),
)
def test_sizes_types_and_paraphrases(relations, answers, subjects, facts, wordings, links):
    made = TypedFacts(relations, answers, subjects, facts, wordings, links)
    corpus = made.corpus()
    assert len(corpus.held_out) == subjects * facts
    assert len(corpus.training) == subjects * facts * (wordings - 1)
    assert len(corpus.answers) == relations * answers
    assert not {e.prompt for e in corpus.training} & {e.prompt for e in corpus.held_out}
    assert all(example.answer in corpus.types[example.type] for example in corpus.training)
    assert len({e.prompt for e in corpus.training}) == len(corpus.training)


def parsed(example, wordings):
    """Number of the wording and its words by name."""
    for number, wording in enumerate(wordings):
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>\\w+)", re.escape(wording))
        if found := re.fullmatch(pattern, example.prompt):
            return number, found.groupdict()
    raise AssertionError(example)


def test_every_wording_is_trained_on_and_held_out():
    corpus = TypedFacts(wordings=4).corpus()
    for examples in (corpus.training, corpus.held_out):
        found = [parsed(example, DIRECT) for example in examples]
        assert {number for number, _ in found} == {0, 1, 2, 3}
        assert all(words["relation"] == e.type for (_, words), e in zip(found, examples, strict=True))


def test_the_seed_decides():
    assert TypedFacts(seed=1).corpus() == TypedFacts(seed=1).corpus()
    assert TypedFacts(seed=1).corpus() != TypedFacts(seed=2).corpus()


def test_links_matter_to_the_answer():
    corpus = TypedFacts(relations=2, subjects=50, facts_per_subject=6, links=3).corpus()
    answers = {}
    for example in corpus.training:
        _, words = parsed(example, TWO_HOPS)
        answers.setdefault((words["subject"], words["relation"]), {})[words["link"]] = example.answer
    assert all(len(by_link) == 3 for by_link in answers.values())
    differ = [len(set(by_link.values())) > 1 for by_link in answers.values()]
    assert sum(differ) / len(differ) > 0.9


WRONG = [
    {"relations": 0},
    {"facts_per_subject": 11},
    {"wordings": 1},
    {"wordings": 9},
    {"links": -1},
]


@pytest.mark.parametrize("sizes", WRONG, ids=str)
def test_sizes_that_cannot_be_are_refused(sizes):
    with pytest.raises(AttangentError):
        TypedFacts(**sizes)


def record(subject, answer, other, wording="{} is located in", paraphrase="Noise. One finds {} in"):
    return {
        "prompt": wording.format(subject),
        "subject": subject,
        "ground_truth": answer,
        "target_new": other,
        "rephrase_prompt": paraphrase.format(subject),
    }


@pytest.fixture
def file(tmp_path):
    places = [record(f"Place {i}", "France" if i % 2 else "Spain", "Peru") for i in range(10)]
    tongues = [record(f"Person {i}", "French", "Thai", "{} speaks", "{} writes in") for i in range(6)]
    rare = [record("Rarity", "blue", "red", "the colour of {} is", "{} looks")]
    twice = [record("Place 0", "Chile", "Peru")]
    path = tmp_path / "facts.json.gz"
    path.write_bytes(gzip.compress(json.dumps(places + tongues + rare + twice).encode()))
    return path


def test_types_are_the_answers_of_a_wording(file):
    corpus = load_counterfact(file, least=5, held_out=0.25)
    assert dict(corpus.types) == {
        "{} is located in": ("France", "Peru", "Spain"),
        "One finds {} in": ("France", "Peru", "Spain"),
        "{} speaks": ("French", "Thai"),
        "{} writes in": ("French", "Thai"),
    }
    assert len(corpus.held_out) == 4
    assert len(corpus.training) == 16 + 12
    assert not {e.prompt for e in corpus.training} & {e.prompt for e in corpus.held_out}
    assert not any("Noise" in example.prompt for example in corpus.training)


def test_a_prompt_counts_once_and_facts_are_drawn_by_seed(file):
    whole = load_counterfact(file, least=5, held_out=0)
    assert [e.answer for e in whole.training if e.prompt == "Place 0 is located in"] == ["Spain"]
    some = [load_counterfact([file], facts=5, least=5, seed=seed) for seed in (0, 0, 1)]
    assert some[0] == some[1] != some[2]
    assert len({e.prompt for e in some[0].training if "is located" in e.prompt or "speaks" in e.prompt}) == 5


def test_wrong_files_are_refused(file, tmp_path):
    with pytest.raises(AttangentError, match="no file"):
        load_counterfact(tmp_path / "none.json")
    with pytest.raises(AttangentError, match="pass 1 to 16"):
        load_counterfact(file, facts=100, least=5)
    with pytest.raises(AttangentError, match="held_out is 2"):
        load_counterfact(file, held_out=2)
    (tmp_path / "bad.json").write_text("[{]")
    with pytest.raises(AttangentError, match="not JSON"):
        load_counterfact(tmp_path / "bad.json")
    (tmp_path / "short.json").write_text('[{"prompt": "a"}]')
    with pytest.raises(AttangentError, match="lacks subject"):
        load_counterfact(tmp_path / "short.json")


def test_the_real_file():
    folder = os.environ.get("ATTANGENT_DATA")
    if not folder:
        pytest.skip("set ATTANGENT_DATA to a folder with counterfact/counterfact-val.json.gz")
    corpus = load_counterfact(Path(folder) / "counterfact/counterfact-val.json.gz")
    assert len(corpus.training) == 941
    assert "English" in corpus.types["The language of {} was"]
    assert all(len(answers) > 1 for answers in corpus.types.values())


KINDS = {
    "Were Scott Derrickson and Ed Wood of the same nationality?": "yes or no",
    "How many people live in the city of Emma?": "number",
    "In what year was the author born?": "date",
    "Who wrote the song that opens the film?": "person",
    "In which city was the author of Emma born?": "place",
    "What science fantasy series has companion books?": "thing",
}


@pytest.mark.parametrize(("question", "kind"), KINDS.items())
def test_kinds_of_questions(question, kind):
    assert question_kind(question) == kind


def test_questions_are_typed_by_their_kind(tmp_path):
    path = tmp_path / "hotpot.jsonl"
    rows = [{"_id": str(i), "question": q, "answer": f"answer {i}"} for i, q in enumerate(KINDS)]
    rows.append({"_id": "6", "question": "Who " + "very " * 50 + "long?", "answer": "nobody"})
    rows.append({"_id": "7", "question": "Who sang?", "answer": "Ella Fitzgerald"})
    path.write_text("\n".join(map(json.dumps, rows)))
    corpus = load_hotpotqa(path)
    assert len(corpus.training) == 7
    assert corpus.types["person"] == ("Ella Fitzgerald", "answer 3")
    assert len(load_hotpotqa(path, facts=3).training) == 3
    with pytest.raises(AttangentError, match="pass 1 to 7"):
        load_hotpotqa(path, facts=9)
