"""Memory estimated before it is taken."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from attangent import AttangentError, attention, icl, kernels
from attangent._core import checks
from attangent._core.checks import (
    check_between,
    check_choice,
    check_memory,
    check_not_negative,
    check_positive,
    check_size,
    check_steps,
    free_memory,
    has_words,
    is_whole,
    readable,
)
from attangent.attention.features import Elu, Learned
from attangent.papers import p4_in_context, p5_forecasting
from attangent.papers.p2_softmax.networks import softmax_limit


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "3", None])
def test_sizes_are_whole_and_positive(value):
    with pytest.raises(AttangentError, match=r"m is .*, expected a whole number of at least 1"):
        check_size("m", value)


def test_a_size_may_have_another_least_value_and_come_from_numpy():
    assert check_size("d", np.int64(2), least=2) == 2
    assert type(check_size("d", np.int64(2))) is int
    with pytest.raises(AttangentError, match="d is 1, expected a whole number of at least 2"):
        check_size("d", 1, least=2)


@pytest.mark.parametrize("value", [0, -0.5, float("inf"), float("nan"), True, "1", None])
def test_rates_are_positive_numbers(value):
    with pytest.raises(AttangentError, match=r"rate is .*, expected a finite number above 0"):
        check_positive("rate", value)


def test_zero_is_allowed_where_it_makes_sense():
    assert check_not_negative("tau", 0) == 0.0
    assert check_positive("rate", np.float32(0.5)) == 0.5
    with pytest.raises(AttangentError, match="tau is -1, expected a finite number of at least 0"):
        check_not_negative("tau", -1)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), True, "a"])
def test_numbers_between(value):
    assert check_between("share", 1, 0.0, 1.0) == 1.0
    with pytest.raises(AttangentError, match=r"share is .*, expected a number from 0 to 1"):
        check_between("share", value, 0.0, 1.0)


def test_one_of_a_few():
    assert check_choice("tokens", "unit", ("unit", "gaussian")) == "unit"
    with pytest.raises(AttangentError, match="tokens is 'one', expected one of unit, gaussian"):
        check_choice("tokens", "one", ("unit", "gaussian"))


def test_numbers_that_no_machine_holds_are_refused():
    with pytest.raises(AttangentError, match="size is too large"):
        check_size("size", 10**400)
    for check in (check_positive, check_not_negative):
        with pytest.raises(AttangentError, match="expected a finite number"):
            check("x", 10**400)


def test_step_counts_end_where_no_machine_gets():
    assert check_steps("steps", 0) == 0
    assert check_steps("steps", 10**9) == 10**9
    for bad in (-1, 10**9 + 1, 1.5, "3", True):
        with pytest.raises(AttangentError, match="steps is"):
            check_steps("steps", bad)


@pytest.mark.parametrize(("value", "found"), [("a b", True), ("", False), (" \n", False), ("\udcff", False)])
def test_texts_with_words(value, found):
    assert has_words(value) is found
    assert not has_words(value.encode(errors="replace"))


@pytest.mark.parametrize(
    ("text", "found"), [("a", True), ("", True), ("\U0001f600", True), ("\ud800", False)]
)
def test_texts_in_whole_letters(text, found):
    assert is_whole(text) is found


def test_what_fits_passes_without_a_look(monkeypatch):
    monkeypatch.setattr(checks, "free_memory", lambda: pytest.fail("looked"))
    check_memory("a matrix", rows=1000, columns=1000)


def test_the_numbers_and_the_way_out_are_named(monkeypatch):
    monkeypatch.setattr(checks, "free_memory", lambda: 2.0**30)
    with pytest.raises(AttangentError, match=r"a state \(heads 4 x size 1,000,000,000\) would take 14.9 GiB"):
        check_memory("a state", 4, heads=4, size=10**9)
    check_memory("a state", heads=4, size=10**7)


def test_no_number_is_too_large_to_be_estimated():
    with pytest.raises(AttangentError, match="TiB"):
        check_memory("a cube", n=2**62, m=2**62, k=2**62)


@pytest.mark.parametrize(("limit", "used", "free"), [("9000", "2000", 7000), ("2000", "9000", 0)])
def test_the_limit_of_a_container_counts(monkeypatch, tmp_path, limit, used, free):
    monkeypatch.setattr(checks, "_CONTAINER", tmp_path)
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text(f"{used}\n")
    assert free_memory() == free


def test_a_container_without_a_limit_has_the_memory_of_the_machine(monkeypatch, tmp_path):
    monkeypatch.setattr(checks, "_CONTAINER", tmp_path)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=5000))
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory() == 5000


def test_a_limit_of_the_process_is_seen():
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**29, 2**29))\n"
        "from attangent._core.checks import free_memory; assert 0 < free_memory() < 2**29, free_memory()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(("size", "words"), [(5, "5 B"), (3.2e9, "2.98 GiB"), (2.0**52, "4.1e+03 TiB")])
def test_sizes_in_words(size, words):
    assert readable(size) == words


HUGE = 2**44
ENTRIES = {
    "unit_data": lambda: kernels.unit_data(HUGE, 3, 2, seed=0),
    "network": lambda: kernels.SoftmaxNetwork(3, 2, m=HUGE),
    "limit": lambda: softmax_limit(torch.ones(4, 3), sigma=1.0, d_out=HUGE),
    "state": lambda: attention.PrefixState.zero(Elu(4), heads=HUGE),
    "low rank": lambda: attention.PrefixState.low_rank(Elu(4), heads=2, rank=HUGE, seed=0),
    "learned features": lambda: Learned.draw(4, HUGE, seed=0),
    "dictionary": lambda: icl.Dictionary.random(K=HUGE, N=4, d=3, m=2, tau=0.1),
    "transformer": lambda: p4_in_context.InContextTransformer(HUGE, 2),
    "transformer layers": lambda: p4_in_context.InContextTransformer(
        3, 2, p4_in_context.TransformerConfig(layers=HUGE)
    ),
    "state space": lambda: p5_forecasting.ResidualSSM(d=HUGE),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_entries_that_are_asked_for_terabytes_say_which_number_it_was(name):
    with pytest.raises(AttangentError, match=r"would take .* make one of these numbers smaller"):
        ENTRIES[name]()
