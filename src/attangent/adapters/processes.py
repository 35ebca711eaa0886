"""Several processes of one run: which is the first, and how they part."""

import atexit
import os
from functools import cache

import torch


def is_first_process() -> bool:
    """torchrun and accelerate number the processes in RANK."""
    return int(os.environ.get("RANK", "0")) == 0


@cache
def part_at_exit() -> None:
    """End the process group before the interpreter does.

    gloo's threads may still hold the last tensor when Python shuts down, and then abort the process
    (pytorch/pytorch#179291), upon which the launcher kills those that are still writing.
    The group lasts until the exit since further runs of the same processes use it again.
    """
    atexit.register(_part)


def _part() -> None:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
