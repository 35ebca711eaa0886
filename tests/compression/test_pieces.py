"""Prompts piece by piece: exact where every piece is, beyond the context, behind sliding windows, resumed."""

import pytest
import torch

from attangent import AttangentError, detach
from attangent.compression import pieces
from attangent.compression.capture import prefill, run
from attangent.compression.entry import compress
from attangent.compression.pieces import LongPrompt, compress_pieces
from attangent.compression.pipeline import CompressionRun
from attangent.compression.prompt_cache import Piece, with_states
from attangent.compression.questions import Question
from attangent.compression.quiz import Quiz
from attangent.compression.request import CompressionRequest
from attangent.compression.size_search import SearchResult
from tests.compression.cases import Letters, run_of, tiny_llama

TEXT = "some text that is long enough to be cut into pieces, and then a little more of it. " * 2


def in_pieces(model, text, piece=None, folder=None, most_questions=0, **request):
    """A text in pieces, compressed to a fixed size unless a goal is given."""
    long = LongPrompt.of(model, Letters(), text, piece)
    wanted = CompressionRequest(text, **({"keep": 0} | request))
    result = compress_pieces(model, Letters(), long, wanted, folder, most_questions=most_questions)
    result.resume.clear()
    return result


def tokens(text):
    return torch.tensor(Letters()(text)["input_ids"])[None]


def behind(model, prompt, text):
    with torch.no_grad():
        return model(torch.cat([tokens(prompt), tokens(text)], dim=1)).logits[:, len(prompt) :]


def test_pieces_kept_whole_are_the_prompt_in_the_input():
    model = tiny_llama(layers=2)
    found = in_pieces(model, TEXT, size=64, piece=50).prompt
    assert found.position_offset == len(TEXT)
    expected = behind(model, TEXT, "what is it?")
    with torch.no_grad():
        said = run(model, tokens("what is it?"), len(TEXT), with_states(found.states)).logits
    torch.testing.assert_close(said, expected, atol=2e-3, rtol=1e-3)


def test_a_piece_is_read_behind_the_states_before_it():
    model, ids = tiny_llama(layers=2), tokens(TEXT)[0]
    whole = prefill(model, ids)
    first = run_of(model, Letters(), TEXT, piece=Piece(ids[:60])).fit(400)
    second = prefill(model, ids[60:], start=60, before=first.states)
    assert second.length == len(ids)
    for name, (keys, values) in second.layers.items():
        torch.testing.assert_close(keys, whole.layers[name][0][:, 60:], atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(values, whole.layers[name][1][:, 60:], atol=1e-3, rtol=1e-3)


def test_a_prompt_beyond_the_context_is_compressed_in_pieces_by_itself():
    model = tiny_llama(layers=2, context=160)
    text = TEXT * 3
    seen = []
    found = compress(model, Letters(), text, size=12, progress=lambda *stage: seen.append(stage))
    count = len(LongPrompt.of(model, Letters(), text).pieces)
    assert count > 3
    assert seen[-1] == ("pieces", count, count)
    assert found.size == 12 * count
    assert found.position_offset + 64 <= 160
    found.attach(model)
    assert torch.isfinite(model(tokens("what is it?")).logits).all()


def test_rotated_pieces_keep_their_distances():
    """Two whole pieces, the first rotated back, answer as the prompt in the input of a longer context."""
    short, long = tiny_llama(layers=2, context=200), tiny_llama(layers=2, context=4096)
    text = (TEXT + TEXT)[:200]
    found = in_pieces(short, text, size=110, piece=100).prompt
    assert found.position_offset == 100
    expected = behind(long, text, "what?")
    with torch.no_grad():
        said = run(short, tokens("what?"), 100, with_states(found.states)).logits
    near = behind(long, text[100:], "what?")
    assert (said - expected).abs().mean() < 0.5 * (near - expected).abs().mean()


def test_layers_with_a_sliding_window_keep_the_last_piece_only():
    from transformers import Gemma2Config, Gemma2ForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    model = Gemma2ForCausalLM(
        Gemma2Config(**sizes, head_dim=8, intermediate_size=48, vocab_size=128, sliding_window=128)
    ).eval()
    found = compress(model, Letters(), TEXT, size=16, method="plain")
    sliding, full = (found.states[name] for name in sorted(found.states))
    assert full.features.size == 3 * sliding.features.size == 3 * 16
    found.attach(model)
    assert torch.isfinite(model(tokens("what is it?")).logits).all()
    detach(model)


def test_a_run_cut_off_resumes_after_the_last_piece(tmp_path, monkeypatch):
    model, real = tiny_llama(layers=1), CompressionRun.states
    fitted = []

    class CutOff(Exception):
        pass

    def states(self, size, method):
        fitted.append(len(self.ids))
        if len(fitted) == 2:
            raise CutOff
        return real(self, size, method)

    expected = in_pieces(model, TEXT, 50, size=8).prompt
    monkeypatch.setattr(CompressionRun, "states", states)
    with pytest.raises(CutOff):
        in_pieces(model, TEXT, 50, tmp_path, size=8)
    found = in_pieces(model, TEXT, 50, tmp_path, size=8).prompt
    assert len(fitted) - 2 == len(LongPrompt.of(model, Letters(), TEXT, 50).pieces) - 1
    for name, state in expected.states.items():
        torch.testing.assert_close(found.states[name].Z, state.Z)
    assert list(tmp_path.iterdir()) == []


def test_pieces_that_cannot_be_read_at_once_are_refused():
    with pytest.raises(AttangentError, match="piece must be at most 96 tokens"):
        LongPrompt.of(tiny_llama(layers=1, context=160), Letters(), TEXT, piece=150)


def test_a_context_too_short_for_any_piece_is_refused():
    with pytest.raises(AttangentError, match="reads 64 tokens at once and at least 96"):
        compress(tiny_llama(layers=1, context=64), Letters(), TEXT, size=12)


def test_with_a_goal_each_piece_gets_a_size_of_its_own_and_is_fitted_once(monkeypatch):
    model, sizes, fits = tiny_llama(layers=1), iter([10, 14, 8, 12]), []

    def search(run, request):
        assert request.keep == 0.9
        return SearchResult(run.fit(next(sizes), request.method), True)

    def fitted(*arguments, fit=CompressionRun._fitted):
        fits.append(arguments[1])
        return fit(*arguments)

    monkeypatch.setattr(pieces, "search_size", search)
    monkeypatch.setattr(CompressionRun, "_fitted", fitted)
    result = in_pieces(model, TEXT, 50, keep=0.9)
    assert list(result.sizes) == fits == [10, 14, 8, 12]
    assert result.prompt.size == 44
    assert all(sum(state.sizes) == 44 * 2 for state in result.prompt.states.values())


def test_the_quiz_of_all_pieces_is_kept_for_the_end(monkeypatch, tmp_path):
    one = Quiz((Question("what?", "it"),), ("it is",), ("no",))
    monkeypatch.setattr(CompressionRun, "quiz", one)
    result = in_pieces(tiny_llama(layers=1), TEXT, 50, tmp_path, most_questions=48, size=8)
    assert result.quiz == Quiz.joined([one] * len(result.sizes))
    assert result.last.most_questions == 48 // len(result.sizes)
