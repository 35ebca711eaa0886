"""The most memory a piece of work took."""

import math
from pathlib import Path

import torch

_RESET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


class PeakMemory:
    """Peak bytes between enter and exit: of the GPU where there is one, else of the process.

    A process's peak can be started anew on Linux only; elsewhere `bytes` is not a number.

    >>> with PeakMemory() as memory:
    ...     _ = torch.zeros(10)
    >>> memory.bytes > 0 or math.isnan(memory.bytes)
    True
    """

    bytes: float = math.nan

    def __enter__(self) -> "PeakMemory":
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        elif _RESET.exists():
            try:
                _RESET.write_text("5")
            except OSError:
                return self
        return self

    def __exit__(self, *_: object) -> None:
        if torch.cuda.is_available():
            self.bytes = float(torch.cuda.max_memory_allocated())
        elif _STATUS.exists():
            lines = _STATUS.read_text().splitlines()
            peak = next((line.split()[1] for line in lines if line.startswith("VmHWM")), None)
            self.bytes = math.nan if peak is None else float(peak) * 1024
