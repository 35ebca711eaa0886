import pytest
import torch
from transformers import get_scheduler

from attangent import AttangentError
from attangent.kernels.modules import Optimiser
from attangent.kernels.modules.optimiser import OptimiserState

START = torch.tensor([1.0, -2.0, 0.5])
SETTINGS = [
    Optimiser(6, kind="sgd", decay="none"),
    Optimiser(6, kind="sgd", momentum=0.9, weight_decay=0.1),
    Optimiser(6, kind="adam", weight_decay=0.1, decay="cosine"),
    Optimiser(6, kind="adamw", weight_decay=0.3, warmup=0.3, clip=0.5),
]


def in_torch(settings: Optimiser, rate: float):
    theta = START.clone().requires_grad_()
    options = {"lr": rate, "weight_decay": settings.weight_decay}
    if settings.kind == "sgd":
        optimiser = torch.optim.SGD([theta], momentum=settings.momentum, **options)
    else:
        kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
        optimiser = kinds[settings.kind]([theta], betas=settings.betas, **options)
    names = {"none": "constant_with_warmup", "linear": "linear", "cosine": "cosine"}
    warm = -(-settings.warmup * settings.steps // 1)
    schedule = get_scheduler(names[settings.decay], optimiser, int(warm), settings.steps)
    return theta, optimiser, schedule


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: f"{s.kind}-{s.decay}")
def test_steps_are_those_of_torch(settings):
    """On a loss with a gradient of its own at each place, at two rates side by side."""
    rates = (0.1, 0.02)
    state = OptimiserState(settings, START, torch.tensor(rates)[:, None])
    for _ in range(settings.steps):
        state.step(torch.cos(3 * state.theta) + state.theta)
    for row, rate in zip(state.theta, rates, strict=True):
        theta, optimiser, schedule = in_torch(settings, rate)
        for _ in range(settings.steps):
            optimiser.zero_grad()
            (torch.sin(3 * theta) / 3 + theta.square() / 2).sum().backward()
            if settings.clip is not None:
                torch.nn.utils.clip_grad_norm_([theta], settings.clip)
            optimiser.step()
            schedule.step()
        assert torch.allclose(row, theta.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "bad", [{"steps": 0}, {"kind": "lion"}, {"decay": "fast"}, {"clip": -1.0}, {"betas": (0.9, 1.0)}]
)
def test_bad_settings(bad):
    with pytest.raises(AttangentError):
        Optimiser(**{"steps": 5, **bad})
