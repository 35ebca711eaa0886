"""The benchmark of engines asks the same questions in three ways and counts what is answered."""

import pytest

from attangent.compression.prompt import read_prompt
from attangent.serving.exports.engine_prefix import EnginePrefix, Marker
from benchmarks.suites.serving.engines import Tenant, alternating, bodies_of, requests_of, row, run_child
from tests.compression.cases import ChatLetters

PREFIX = EnginePrefix("needles-0", Marker([1, 2, 3], []), (), "m", 90)


def test_the_ways_differ_only_in_what_comes_before_the_question():
    tenant = Tenant("needles-0", "needles")
    ways = requests_of(ChatLetters(), tenant, PREFIX)
    ids = read_prompt(ChatLetters(), tenant.content())[0].tolist()
    for full, compressed, bare in zip(*(ways[name] for name in ("full", "compressed", "none")), strict=True):
        assert full[: len(ids)] == ids
        assert compressed[:3] == [1, 2, 3]
        assert full[len(ids) :] == compressed[3:] == bare


def test_tenants_share_no_first_token_block():
    one, other = (Tenant(f"{number}-needles", "needles").content()[0]["content"] for number in "ab")
    assert one[0] != other[0]
    assert one[1:] == other[1:]


def test_requests_of_tenants_alternate():
    assert alternating([{"full": [[1], [2]]}, {"full": [[3], [4]]}]) == {"full": [[1], [3], [2], [4]]}


def test_a_row_counts_right_answers_and_orders_waits():
    result = {
        "texts": ["it is 12.", "it is 7."],
        "tokens": 10,
        "first_token": [0.3, 0.1],
        "seconds": 4.0,
        "processor_seconds": 2.0,
        "peak_bytes": 5.0,
    }
    figures = row("full", result, ["12", "8"])
    assert (figures["right"], figures["asked"], figures["tokens_per_second"]) == (1, 2, 2.5)
    assert figures["first_token_median"] == pytest.approx(0.2)


def test_chats_ask_the_same_of_prompt_prefix_and_base():
    tenant = Tenant("needles-0", "needles")
    ways = bodies_of(tenant, "base", 2)
    assert [body["model"] for body in ways["compressed"]] == ["needles-0", "needles-0"]
    assert ways["full"][1]["messages"] == [*tenant.content(), *ways["none"][1]["messages"]]
    assert ways["compressed"][1]["messages"] == ways["none"][1]["messages"]


def test_without_vllm_the_variable_is_named(monkeypatch):
    monkeypatch.delenv("ATTANGENT_VLLM_PYTHON", raising=False)
    with pytest.raises(SystemExit, match="ATTANGENT_VLLM_PYTHON"):
        run_child({})
