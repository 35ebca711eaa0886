import pytest
import torch

from benchmarks import bench_adapters
from benchmarks.bench_adapters import BENCHMARKS


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(bench_adapters, "BATCH", 2)
    monkeypatch.setattr(bench_adapters, "NEW_TOKENS", 2)
    monkeypatch.setattr(bench_adapters, "VOCABULARY", 64)
    monkeypatch.setattr(bench_adapters, "LAYERS", 1)


@pytest.mark.parametrize("benchmark_", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_every_contestant_does_the_work(benchmark_):
    size = {"L": 4} if "L" in benchmark_.sizes[0] else {"B": 2}
    answers = [contestant.build(size)() for contestant in benchmark_.contestants]
    assert len({answer.shape for answer in answers}) == 1
    assert all(torch.isfinite(answer.float()).all() for answer in answers)


def test_lora_and_the_default_prefix_train_numbers_of_the_same_order():
    counts = {}
    batch = bench_adapters.batch_of(4)
    for name, adapt in (("lora", bench_adapters.with_lora), ("ntk", bench_adapters.with_prefix("learned"))):
        model = adapt(bench_adapters.encoder(0.0), batch)
        counts[name] = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert 0.5 < counts["ntk"] / counts["lora"] < 2
