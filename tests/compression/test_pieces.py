"""Prompts piece by piece: exact where every piece is, beyond the context, behind sliding windows, resumed."""

import pytest
import torch

from attangent import AttangentError, detach
from attangent.compression import pieces
from attangent.compression.capture import prefill, run, with_states
from attangent.compression.compressor import Compressor
from attangent.compression.entry import compress
from attangent.compression.pieces import LongPrompt, PieceRun, compress_pieces
from attangent.compression.problem import Piece
from attangent.compression.quiz.questions import Question
from attangent.compression.quiz.quiz import Quiz
from attangent.compression.size_search import Goal, Outcome
from tests.compression.cases import Letters, tiny_llama

TEXT = "some text that is long enough to be cut into pieces, and then a little more of it. " * 2


def tokens(text):
    return torch.tensor(Letters()(text)["input_ids"])[None]


def behind(model, prompt, text):
    with torch.no_grad():
        return model(torch.cat([tokens(prompt), tokens(text)], dim=1)).logits[:, len(prompt) :]


def test_pieces_kept_whole_are_the_prompt_in_the_input():
    model = tiny_llama(layers=2)
    found = compress_pieces(model, Letters(), TEXT, size=64, piece=50)
    assert found.position_offset == len(TEXT)
    expected = behind(model, TEXT, "what is it?")
    with torch.no_grad():
        said = run(model, tokens("what is it?"), len(TEXT), with_states(found.states)).logits
    torch.testing.assert_close(said, expected, atol=2e-3, rtol=1e-3)


def test_a_piece_is_read_behind_the_states_before_it():
    model, ids = tiny_llama(layers=2), tokens(TEXT)[0]
    whole = prefill(model, ids)
    first = Compressor(model, Letters(), TEXT, piece=Piece(ids[:60])).fit(400)
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


def test_pieces_that_become_too_many_tokens_are_compacted():
    model = tiny_llama(layers=2, context=160)
    text = TEXT * 3
    apart = compress_pieces(model, Letters(), text, size=16, seed=1)
    found = compress_pieces(model, Letters(), text, size=16, seed=1, total=40)
    assert apart.size > 60
    assert found.size == 40
    sizes = [len(tokens) for state in found.states.values() for tokens, *_ in state.by_head()]
    assert sum(sizes) == 40 * len(sizes)
    assert min(sizes) >= 4
    said, exact, none = (
        run(model, tokens("what is it?"), found.position_offset, handler).logits.log_softmax(dim=-1)
        for handler in (with_states(found.states), with_states(apart.states), with_states({}))
    )
    assert (said - exact).abs().mean() < 0.25 * (none - exact).abs().mean()


def test_rotated_pieces_keep_their_distances():
    """Two whole pieces, the first rotated back, answer as the prompt in the input of a longer context."""
    short, long = tiny_llama(layers=2, context=200), tiny_llama(layers=2, context=4096)
    text = (TEXT + TEXT)[:200]
    found = compress_pieces(short, Letters(), text, size=110, piece=100)
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
    found = compress(model, Letters(), TEXT, size=16, method="anchors")
    sliding, full = (found.states[name] for name in sorted(found.states))
    assert full.features.size == 3 * sliding.features.size == 3 * 16
    found.attach(model)
    assert torch.isfinite(model(tokens("what is it?")).logits).all()
    detach(model)


def test_a_run_cut_off_goes_on_behind_the_last_piece(tmp_path):
    model, worked = tiny_llama(layers=1), []

    class CutOff(Exception):
        pass

    def stop(job):
        worked.append(len(job.ids))
        if len(worked) == 2:
            raise CutOff

    whole = compress_pieces(model, Letters(), TEXT, size=8, piece=50)
    with pytest.raises(CutOff):
        compress_pieces(model, Letters(), TEXT, size=8, piece=50, folder=tmp_path, done=stop)
    again = []
    found = compress_pieces(model, Letters(), TEXT, size=8, piece=50, folder=tmp_path, done=again.append)
    assert len(again) == len(LongPrompt.of(model, Letters(), TEXT, 50).pieces) - 1
    for name, state in whole.states.items():
        torch.testing.assert_close(found.states[name].Z, state.Z)
    assert list(tmp_path.iterdir()) == []


def test_pieces_that_cannot_be_read_at_once_are_refused():
    with pytest.raises(AttangentError, match="more cannot be read at once"):
        compress_pieces(tiny_llama(layers=1, context=160), Letters(), TEXT, piece=150)


def test_a_context_too_short_for_any_piece_is_refused():
    with pytest.raises(AttangentError, match="reads 64 tokens at once, expected at least 96"):
        compress(tiny_llama(layers=1, context=64), Letters(), TEXT, size=12)


def test_with_a_goal_each_piece_gets_a_size_of_its_own_and_is_fitted_once(monkeypatch):
    model, sizes, fits = tiny_llama(layers=1), iter([10, 14, 8, 12]), []

    def reach(job, goal, method):
        assert goal == Goal(0.9)
        return Outcome(job.fit(next(sizes), method), True)

    def fitted(*arguments, fit=Compressor._fitted_anew):
        fits.append(arguments[1])
        return fit(*arguments)

    monkeypatch.setattr(pieces, "reach", reach)
    monkeypatch.setattr(Compressor, "_fitted_anew", fitted)
    whole = PieceRun(model, Letters(), TEXT, piece=50, goal=Goal(0.9))
    found = whole.compressed()
    assert whole.sizes == fits == [10, 14, 8, 12]
    assert found.size == 44
    assert all(sum(state.sizes) == 44 * 2 for state in found.states.values())


def test_the_quiz_of_all_pieces_is_kept_for_the_end(monkeypatch, tmp_path):
    one = Quiz((Question("what?", "it"),), ("it is",), ("no",))
    monkeypatch.setattr(Compressor, "quiz", one)
    whole = PieceRun(tiny_llama(layers=1), Letters(), TEXT, 8, piece=50, questions=48, folder=tmp_path)
    whole.compressed()
    assert whole.quiz == Quiz.joined([one] * len(whole.long.pieces))
    assert whole.last is not None
    assert whole.last.questions == 48 // len(whole.long.pieces)
