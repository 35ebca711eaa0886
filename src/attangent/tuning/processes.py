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
    """End a process group of gloo before the interpreter ends.

    Its threads may still hold the last tensor when Python shuts down, and then abort the process
    (pytorch/pytorch#179291), upon which the launcher kills those that are still writing. The group lasts
    until the exit since further runs of the same processes use it again. Other backends may wait for
    processes that failed, and are left alone.
    """
    atexit.register(_part)


def _part() -> None:
    group = torch.distributed
    if group.is_available() and group.is_initialized() and group.get_backend() == "gloo":
        group.destroy_process_group()
