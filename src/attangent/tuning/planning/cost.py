"""What a real run would take: seconds and memory, from a few of its steps that change nothing."""

import statistics
import time
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from attangent.tuning.memory import PeakMemory
from attangent.tuning.planning.rollout import Course
from attangent.tuning.training import Collate

_STEPS = 3


@dataclass(frozen=True)
class Cost:
    """Seconds for one step, and the most memory the process takes, in megabytes."""

    seconds: float
    megabytes: float


def cost_of(adapted: Any, rows: Any, collate: Collate, course: Course) -> Cost:
    """Forward and backward on the first batches in training mode; no weight is changed."""
    taken = []
    adapted.train()
    with PeakMemory() as memory, torch.random.fork_rng(devices=[]):
        for places in course.batches[: _STEPS + 1]:
            began = time.perf_counter()
            batch = collate([rows[i] for i in places])
            labels = batch.pop("labels")
            logits = adapted(**batch).logits.float()
            values = logits.shape[-1] == 1
            loss = F.mse_loss(logits[:, 0], labels.float()) if values else F.cross_entropy(logits, labels)
            loss.backward()
            taken.append(time.perf_counter() - began)
    adapted.zero_grad(set_to_none=True)
    adapted.eval()
    return Cost(statistics.median(taken[1:] or taken), memory.bytes / 1e6)
