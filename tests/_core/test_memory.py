"""Memory estimated before it is taken."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from attangent import AttangentError, attention, icl, kernels
from attangent._core import memory
from attangent._core.memory import check_memory, free_memory, readable
from attangent.attention.features import Elu, Learned
from attangent.papers import p4_in_context, p5_forecasting


def test_what_fits_passes_without_a_look(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: pytest.fail("looked"))
    check_memory("a matrix", rows=1000, columns=1000)


def test_the_numbers_and_the_way_out_are_named(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 2.0**30)
    with pytest.raises(AttangentError, match=r"a state \(heads 4 x size 1,000,000,000\) would take 14.9 GiB"):
        check_memory("a state", 4, heads=4, size=10**9)
    check_memory("a state", heads=4, size=10**7)


def test_no_number_is_too_large_to_be_estimated():
    with pytest.raises(AttangentError, match="TiB"):
        check_memory("a cube", n=2**62, m=2**62, k=2**62)


@pytest.mark.parametrize(("limit", "used", "free"), [("9000", "2000", 7000), ("2000", "9000", 0)])
def test_the_limit_of_a_container_counts(monkeypatch, tmp_path, limit, used, free):
    monkeypatch.setattr(memory, "_CONTAINER", tmp_path)
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text(f"{used}\n")
    assert free_memory() == free


def test_a_container_without_a_limit_has_the_memory_of_the_machine(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_CONTAINER", tmp_path)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=5000))
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory() == 5000


def test_a_limit_of_the_process_is_seen():
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**29, 2**29))\n"
        "from attangent._core.memory import free_memory; assert 0 < free_memory() < 2**29, free_memory()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(("size", "words"), [(5, "5 B"), (3.2e9, "2.98 GiB"), (2.0**52, "4.1e+03 TiB")])
def test_sizes_in_words(size, words):
    assert readable(size) == words


HUGE = 2**44
ENTRIES = {
    "unit_data": lambda: kernels.unit_data(HUGE, 3, 2, seed=0),
    "network": lambda: kernels.SoftmaxNetwork(3, 2, m=HUGE),
    "limit": lambda: kernels.softmax_limit(torch.ones(4, 3), sigma=1.0, d_out=HUGE),
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
