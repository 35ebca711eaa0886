import pytest
import torch

from benchmarks.suites.attention import bench_adapters
from benchmarks.suites.attention.bench_adapters import BENCHMARKS


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(bench_adapters, "BATCH", 2)
    monkeypatch.setattr(bench_adapters, "NEW_TOKENS", 2)
    monkeypatch.setattr(bench_adapters, "VOCABULARY", 64)
    monkeypatch.setattr(bench_adapters, "LAYERS", 1)


TRAINING = [benchmark for benchmark in BENCHMARKS if "L" in benchmark.sizes[0]]
DECODING = [
    contestant
    for benchmark in BENCHMARKS
    if "B" in benchmark.sizes[0]
    for contestant in benchmark.contestants
]


@pytest.mark.parametrize("benchmark_", TRAINING, ids=lambda benchmark: benchmark.name)
def test_every_contestant_takes_a_training_step(benchmark_):
    answers = [contestant.build({"L": 4})() for contestant in benchmark_.contestants]
    assert len({answer.shape for answer in answers}) == 1
    assert all(torch.isfinite(answer.float()).all() for answer in answers)


@pytest.mark.parametrize("contestant", DECODING, ids=lambda contestant: contestant.name)
def test_decoding_takes_a_token_a_lap(contestant):
    laps = list(contestant.build({"B": 2})())
    assert contestant.in_laps
    assert [lap.shape for lap in laps] == [(2, 1), (2, 1)]


def test_decoding_finds_the_tokens_of_generate():
    found = list(
        bench_adapters.decoding(bench_adapters.small_llama, bench_adapters.prefixed("learned"))({"B": 2})()
    )
    model = bench_adapters.prefixed("learned")(bench_adapters.decoder(bench_adapters.small_llama()))
    ids = bench_adapters.draw_ids(2, 32)
    made = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=2,
        min_new_tokens=2,
        do_sample=False,
        pad_token_id=0,
    )
    assert torch.equal(torch.cat(found, dim=1), made[:, 32:])


def test_lora_and_the_default_prefix_train_numbers_of_the_same_order():
    counts = {}
    batch = bench_adapters.batch_of(4)
    for name, adapt in (("lora", bench_adapters.with_lora), ("ntk", bench_adapters.with_prefix("learned"))):
        model = adapt(bench_adapters.encoder(0.0), batch)
        counts[name] = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert 0.5 < counts["ntk"] / counts["lora"] < 2
