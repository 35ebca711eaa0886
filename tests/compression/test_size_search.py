"""The smallest size that keeps enough answers: what is tried, in which order, and where it ends."""

import pytest

from attangent.compression import size_search
from attangent.compression.fidelity import Fidelity
from attangent.compression.pipeline import CompressionRun
from attangent.compression.quiz import Answer
from attangent.compression.request import CompressionRequest
from attangent.compression.result import CompressedPrompt
from attangent.compression.size_search import _sizes, compress_by


def goal(**changes):
    return CompressionRequest("", **changes)


class Job(CompressionRun):
    """Keeps a part of ten answers that grows with the size, and three more when distilled."""

    def __init__(self, asked=10):
        self.ids = range(500)
        self.asked = asked
        self.tried = []

    def fit(self, size, method):
        self.tried.append((size, 0))
        return CompressedPrompt({}, 500, size, method, (), "", exact=size == 500)

    def distill(self, start, steps):
        steps = 15 if steps is None else steps
        self.tried.append((start.size, steps))
        return CompressedPrompt({}, 500, start.size, start.method, (), "", distilled=steps)

    def answers(self, found):
        kept = (
            self.asked if found.exact else min(self.asked, found.size // 12 + (3 if found.distilled else 0))
        )
        words = ["yes"] * kept + ["no"] * (self.asked - kept)
        return tuple(Answer(f"{i}?", "yes", word, "no", "yes", i) for i, word in enumerate(words))

    def fidelity(self, found):
        share = min(1.0, found.size / 100)
        return Fidelity({"compressed": 0.1, "none": 1.0}, {}, {"compressed": share, "none": 0.0})


@pytest.fixture
def few_count(monkeypatch):
    """Let five facts suffice to try smaller sizes."""
    monkeypatch.setattr(size_search, "_FACTS_TO_SHRINK", 5)


def test_the_closed_form_comes_first_then_distillation_then_a_larger_size(few_count):
    job = Job()
    outcome = size_search.search_size(job, goal(keep=0.9, distill=7))
    assert job.tried == [(64, 0), (128, 0)]
    assert outcome.met
    assert [attempt.kept for attempt in outcome.attempts] == [5, 10]
    closer = Job(asked=6)
    assert size_search.search_size(closer, goal(keep=1, distill=7)).prompt.distilled == 7
    assert closer.tried == [(64, 0), (64, 7), (32, 0)]


def test_by_default_it_is_distilled_for_as_long_as_the_text_needs():
    job = Job(asked=6)
    outcome = size_search.search_size(job, goal(keep=1, size=64))
    assert job.tried[:2] == [(64, 0), (64, 15)]
    assert (outcome.met, outcome.prompt.distilled) == (True, 15)
    never = Job(asked=6)
    assert not size_search.search_size(never, goal(keep=1, size=64, distill=0)).met
    assert never.tried == [(64, 0)]


def test_one_standard_error_is_granted():
    assert size_search.search_size(
        Job(asked=11), goal(keep=0.95, size=120, distill=0)
    ).met  # 10 of 11, where 10.5 +- .7 are wanted
    assert not size_search.search_size(Job(asked=11), goal(keep=0.95, size=119, distill=0)).met  # 9 of 11
    assert not size_search.search_size(Job(asked=11), goal(keep=1.0, size=120, distill=0)).met


def test_if_the_first_size_is_enough_smaller_ones_are_tried_until_one_is_not(few_count):
    job = Job(asked=5)
    outcome = size_search.search_size(job, goal(keep=0.6, distill=0))
    assert job.tried == [(64, 0), (32, 0), (16, 0)]
    assert (outcome.met, outcome.prompt.size) == (True, 32)
    small = Job(asked=5)
    assert size_search.search_size(small, goal(keep=0.1)).prompt.size == 16
    assert small.tried == [(64, 0), (32, 0), (16, 0)]


def test_a_size_that_loses_something_leads_to_no_smaller_one(few_count):
    job = Job(asked=8)
    assert size_search.search_size(job, goal(keep=0.5)).prompt.size == 64  # 5 of 8
    assert job.tried == [(64, 0)]


def test_a_smaller_size_is_not_trained(few_count):
    job = Job(asked=5)
    assert size_search.search_size(job, goal(keep=0.5, distill=7)).prompt.size == 32
    assert job.tried == [(64, 0), (32, 0), (16, 0)]


def test_a_size_that_is_not_enough_makes_way_for_a_larger_one():
    near = Job(asked=8)
    assert size_search.search_size(near, goal(keep=1.0, distill=0)).prompt.size == 128
    assert near.tried == [(64, 0), (128, 0)]
    larger = Job(asked=20)
    assert not size_search.search_size(larger, goal(keep=0.9, distill=7)).met
    assert larger.tried == [(64, 0), (128, 0)]


def test_training_that_loses_facts_is_not_returned():
    class Losing(Job):
        def answers(self, found):
            words = ["yes", "no"] if found.distilled else ["yes", "yes"]
            return tuple(Answer("?", "yes", word, "no", "yes", i) for i, word in enumerate(words))

    assert compress_by(Losing(), goal(keep=0, size=64, distill=3)).prompt.distilled == 0
    assert compress_by(Job(), goal(keep=0, size=64, distill=3)).prompt.distilled == 3


def test_what_is_enough_stays_when_the_time_is_over():
    outcome = size_search.search_size(Job(asked=5), goal(keep=0.4, seconds=1e-9))
    assert outcome.met
    assert [attempt.size for attempt in outcome.attempts] == [64]


def test_a_search_without_a_cap_ends_at_a_third_of_the_prompt_with_advice():
    outcome = size_search.search_size(Job(asked=100), goal(keep=1, distill=0))
    assert not outcome.met
    assert outcome.prompt.size == 128
    assert "--keep 0.1," in outcome.stopped


def test_a_cap_on_the_size_ends_the_search_with_the_best_and_the_reason():
    outcome = size_search.search_size(Job(), goal(keep=0.9, size=40, distill=0))
    assert not outcome.met
    assert outcome.prompt.size == 40
    assert outcome.stopped == "the size is limited to 40 tokens per head"
    assert [attempt.size for attempt in outcome.attempts] == [40]


def test_a_cap_on_the_time_ends_it_after_what_was_begun():
    outcome = size_search.search_size(Job(), goal(keep=0.9, seconds=1e-9, distill=0))
    assert not outcome.met
    assert len(outcome.attempts) == 1
    assert "seconds is over" in outcome.stopped


def test_where_nothing_can_be_asked_the_next_tokens_count():
    outcome = size_search.search_size(Job(asked=2), goal(keep=0.5, distill=0))
    assert outcome.attempts[-1].asked == 0
    assert outcome.prompt.size == 64
    assert outcome.attempts[0].share == pytest.approx(0.64)


def test_a_few_facts_count_but_do_not_lead_below_the_first_size():
    few = Job(asked=5)
    outcome = size_search.search_size(few, goal(keep=0.5))
    assert (outcome.met, outcome.prompt.size) == (True, 64)
    assert few.tried == [(64, 0)]


def test_sizes_end_at_a_third_of_the_prompt():
    assert _sizes(1085, None)[-1] == 256
    assert _sizes(1085, 1000)[-2:] == [256, 1000]
    assert _sizes(100, None) == [16, 32]
    assert _sizes(40, None) == [40]
    assert _sizes(100, None, least=20) == [32]
    assert _sizes(100, 50, least=64) == [50]
