"""Prompts and texts from files."""

from attangent.tuning.data.completions import read_completions


def test_texts_and_prompts(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n{"prompt": "b", "completion": "c"}\n')
    assert [(pair.prompt, pair.text) for pair in read_completions(tmp_path / "x.jsonl")] == [
        ("", "a"),
        ("b", "c"),
    ]
