"""Memory estimated before it is taken."""

import math
import subprocess
import sys

import pytest
import torch

from attangent import AttangentError, _memory, attention, diffusion, forecast, icl, kernels, stages
from attangent._core.memory import check_memory, free_memory, readable
from attangent.attention.features import Elu, Learned
from attangent.papers.p3_two_stage.facts.typed_facts import TypedFacts


def test_what_fits_passes_without_a_look(monkeypatch):
    monkeypatch.setattr(_memory, "free_memory", lambda: pytest.fail("looked"))
    check_memory("a matrix", rows=1000, columns=1000)


def test_the_numbers_and_the_way_out_are_named(monkeypatch):
    monkeypatch.setattr(_memory, "free_memory", lambda: 2.0**30)
    with pytest.raises(AttangentError, match=r"a state \(heads 4 x size 1,000,000,000\) would take 14.9 GiB"):
        check_memory("a state", 4, heads=4, size=10**9)
    check_memory("a state", heads=4, size=10**7)


def test_no_number_is_too_large_to_be_estimated():
    with pytest.raises(AttangentError, match="TiB"):
        check_memory("a cube", n=2**62, m=2**62, k=2**62)


def test_the_least_of_all_limits_counts(monkeypatch):
    for least in ("_of_machine", "_of_container", "_of_process"):
        for name in ("_of_machine", "_of_container", "_of_process"):
            monkeypatch.setattr(_memory, name, lambda size=1e9 if name == least else math.inf: size)
        assert free_memory() == 1e9


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
    "transformer": lambda: icl.InContextTransformer(HUGE, 2),
    "transformer layers": lambda: icl.InContextTransformer(3, 2, icl.TransformerConfig(layers=HUGE)),
    "ring": lambda: diffusion.GaussianMixture.ring(modes=HUGE),
    "times": lambda: diffusion.ForwardProcess().grid(HUGE),
    "copies": lambda: diffusion.noised_data(torch.ones(3, 2), diffusion.ForwardProcess(), copies=HUGE),
    "projections": lambda: diffusion.sliced_wasserstein(torch.ones(3, 2), torch.ones(3, 2), projections=HUGE),
    "prompts": lambda: stages.TwoStageData(d=4, L=3).sample(HUGE),
    "relu attention": lambda: stages.ReluAttention(HUGE),
    "state space": lambda: forecast.ResidualSSM(d=HUGE),
    "facts": lambda: TypedFacts(subjects=HUGE).corpus(),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_entries_that_are_asked_for_terabytes_say_which_number_it_was(name):
    with pytest.raises(AttangentError, match=r"would take .* make one of these numbers smaller"):
        ENTRIES[name]()
