"""HotpotQA: questions typed by what they ask for."""

import json

import pytest

from attangent import AttangentError
from attangent.papers.p3_two_stage.facts.hotpotqa import load_hotpotqa, question_kind

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
    with pytest.raises(AttangentError, match="1 to 7 usable"):
        load_hotpotqa(path, facts=9)
