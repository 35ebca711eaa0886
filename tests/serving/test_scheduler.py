"""The scheduler writes for many what `generate` writes for one."""

import threading
import time

import pytest
import torch

from attangent import AttangentError, batch
from attangent.adapters.hub import load_causal_lm
from attangent.compression import load_compressed
from attangent.compression.session import generate
from attangent.serving.generation import Generation, Sampler, TextStream
from attangent.serving.scheduler import BASE, BusyError, OutOfTimeError, Scheduler

TEXTS = ["hello", "the light of the tower", "a", "who is the keeper of the tower?\n" * 12]
NAMES = [None, "red", "green", "blue"]


@pytest.fixture(scope="module")
def loaded(model_folder, prefix_folders):
    """The network with all prefixes, and its tokenizer."""
    network, tokenizer = load_causal_lm(str(model_folder))
    for name, folder in prefix_folders.items():
        load_compressed(network, tokenizer, folder, name)
    return network, tokenizer


@pytest.fixture
def engine(loaded):
    engine = Scheduler()
    engine.add_network(BASE, *loaded)
    yield engine
    engine.stop()
    engine.batches[BASE].forget_rows()


class Answer:
    """A generation whose pieces are collected."""

    def __init__(self, loaded, name, text, tokens=24, sampler=None, seconds=60.0, **options):
        self.pieces = []
        self.done = threading.Event()
        self.generation = Generation(
            BASE,
            name,
            loaded[1](text)["input_ids"],
            tokens,
            sampler or Sampler(0, 1, 0),
            TextStream(loaded[1]),
            self.take,
            time.monotonic() + seconds,
            **options,
        )

    def take(self, piece):
        self.pieces.append(piece)
        if piece.finish is not None or piece.error is not None:
            self.done.set()

    @property
    def tokens(self):
        assert self.done.wait(60)
        assert self.pieces[-1].error is None, self.pieces[-1].error
        return self.generation.written


def alone(loaded, name, text, tokens=24):
    network, tokenizer = loaded
    with bare_rows(network), batch(network, [name]):
        return generate(network, tokenizer, torch.tensor(tokenizer(text)["input_ids"]), tokens).tolist()


def bare_rows(network):
    """The rows that the engine left on the network are removed."""
    import contextlib

    from attangent.adapters.record import record_of, slots

    record_of(network).rows = None
    for slot in slots(network).values():
        slot.rows = None
    return contextlib.nullcontext()


def test_greedy_tokens_are_those_of_generate_alone_and_in_a_mixed_batch(engine, loaded):
    cases = [(name, text) for text in TEXTS[:2] for name in NAMES] + [("red", TEXTS[3]), (None, TEXTS[2])]
    wanted = [alone(loaded, *case) for case in cases]
    assert len({tuple(tokens) for tokens in wanted}) > 6  # prefixes matter
    engine.start()
    one = Answer(loaded, *cases[1])
    engine.submit(one.generation)
    assert one.tokens == wanted[1]
    answers = [Answer(loaded, *case) for case in cases]
    engine.submit(*(answer.generation for answer in answers[:5]))
    time.sleep(0.02)  # the others join a running batch
    engine.submit(*(answer.generation for answer in answers[5:]))
    assert [answer.tokens for answer in answers] == wanted


def test_a_seed_fixes_an_answer_whatever_else_is_written(engine, loaded):
    def drawn(seed):
        return Answer(loaded, "green", TEXTS[1], sampler=Sampler(1.0, 0.9, seed))

    engine.start()
    one = drawn(3)
    engine.submit(one.generation)
    assert one.tokens
    others = [drawn(3), drawn(4), *(Answer(loaded, name, TEXTS[0]) for name in NAMES)]
    engine.submit(*(answer.generation for answer in others))
    assert others[0].tokens == one.tokens
    assert others[1].tokens != one.tokens


def test_later_prompts_reuse_what_they_have_in_common(engine, loaded):
    engine.start()
    first = Answer(loaded, "blue", TEXTS[3])
    engine.submit(first.generation)
    assert first.tokens
    later = Answer(loaded, "blue", TEXTS[3] + "and who?")
    other = Answer(loaded, "red", TEXTS[3])
    engine.submit(later.generation, other.generation)
    assert later.tokens == alone(loaded, "blue", TEXTS[3] + "and who?")
    assert other.tokens == alone(loaded, "red", TEXTS[3])
    assert later.pieces[-1].usage.reused_tokens == len(TEXTS[3])
    assert other.pieces[-1].usage.reused_tokens == 0


def test_a_client_that_leaves_frees_its_row(engine, loaded):
    left, stays = (Answer(loaded, name, TEXTS[0], tokens=400) for name in ("red", None))
    engine.submit(left.generation, stays.generation)
    left.generation.cancel()
    engine.start()
    assert len(stays.tokens) > 0
    engine.call(lambda: None).result(60)  # the step has ended
    assert left.generation.written == []
    assert engine.running == engine.waiting == 0
    assert engine.batches[BASE].cache.number_of_bytes == 0


def test_what_takes_too_long_fails_and_the_rest_is_written(engine, loaded):
    late, good = Answer(loaded, None, TEXTS[0], seconds=-1.0), Answer(loaded, None, TEXTS[0])
    engine.submit(late.generation, good.generation)
    engine.start()
    assert good.tokens
    assert isinstance(late.pieces[-1].error, OutOfTimeError)


def test_too_many_waiting_answers_are_refused_together(engine, loaded):
    engine.most_waiting = 2
    with pytest.raises(BusyError, match="0 answers are waiting, at most 2 may"):
        engine.submit(*(Answer(loaded, None, "a").generation for _ in range(3)))
    assert engine.waiting == 0


def test_a_failed_step_fails_its_answers_and_the_next_ones_are_written(engine, loaded, monkeypatch):
    batch_of = engine.batches[BASE]
    real = batch_of.step

    def broken():
        monkeypatch.setattr(batch_of, "step", real)
        raise RuntimeError("out of memory")

    monkeypatch.setattr(batch_of, "step", broken)
    lost, good = Answer(loaded, "red", "hello"), Answer(loaded, "red", "hello")
    engine.submit(lost.generation)
    engine.start()
    assert lost.done.wait(60)
    assert str(lost.pieces[-1].error) == "out of memory"
    engine.submit(good.generation)
    assert good.tokens == alone(loaded, "red", "hello")


def test_calls_run_in_the_thread_and_their_errors_come_back(engine):
    engine.start()
    assert engine.call(lambda: threading.current_thread().name).result(10) == "attangent-scheduler"
    with pytest.raises(ZeroDivisionError):
        engine.call(lambda: 1 / 0).result(10)


def test_stopping_fails_what_is_left(engine, loaded):
    answer = Answer(loaded, None, "hello", tokens=900)
    engine.start()
    engine.submit(answer.generation)
    engine.stop()
    assert answer.done.wait(10)
    assert isinstance(answer.pieces[-1].error, AttangentError)
    with pytest.raises(BusyError):
        engine.submit(answer.generation)
