"""CounterFact and HotpotQA files: small ones written here, the real one where it is at hand."""

import gzip
import json
import os
from pathlib import Path

import pytest

from attangent import AttangentError
from attangent.papers.p3_two_stage.facts.counterfact import load_counterfact


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
    with pytest.raises(AttangentError, match="1 to 16 usable"):
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
