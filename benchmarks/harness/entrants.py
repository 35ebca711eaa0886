"""A contestant that is ready to be timed: in this process, or at the other end of a pipe."""

import itertools
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from benchmarks.harness.child import Unavailable, Work, timed
from benchmarks.harness.folders import ROOT


class Entrant(Protocol):
    """What the interleaved rounds ask of a contestant."""

    versions: Mapping[str, str]

    def seconds(self, repeats: int) -> float: ...
    def fastest(self, samples: Sequence[float]) -> float: ...
    def result(self) -> Any: ...
    def close(self) -> None: ...


class InProcess:
    """Work done in this process, timed by `clock`."""

    def __init__(self, work: Work, versions: Mapping[str, str], clock: Callable[[], float]):
        self.versions = versions
        self._work, self._clock = work, clock

    def seconds(self, repeats: int) -> float:
        return timed(self._work, repeats, self._clock)

    def fastest(self, samples: Sequence[float]) -> float:
        return min(samples)

    def result(self) -> Any:
        return self._work()

    def close(self) -> None:
        pass


class Lapped(InProcess):
    """Work that returns an iterator, whose steps are laps; its fastest call takes each lap at its fastest."""

    def __init__(self, work: Work, versions: Mapping[str, str], clock: Callable[[], float]):
        super().__init__(work, versions, clock)
        self._fastest: list[float] = []

    def start(self) -> Iterator[float]:
        """Seconds of each lap, which is run when it is asked for."""
        laps = self._work()
        for place in itertools.count():
            begin = self._clock()
            if next(laps, self) is self:
                return
            taken = self._clock() - begin
            if place == len(self._fastest):
                self._fastest.append(taken)
            self._fastest[place] = min(taken, self._fastest[place])
            yield taken

    def seconds(self, repeats: int) -> float:
        return sum(sum(self.start()) for _ in range(repeats))

    def fastest(self, samples: Sequence[float]) -> float:
        return sum(self._fastest)

    def result(self) -> Any:
        return list(self._work())


class Child:
    """Work done in a process of its own that speaks the language of `child.serve`; it stays up until closed.

    A process that cannot start, ends early or says so itself is Unavailable; an error in its work is raised.
    """

    def __init__(self, command: Sequence[str], threads: int, settings: Mapping[str, str] | None = None):
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                cwd=ROOT,
                env={**os.environ, **_environment(threads), **(settings or {})},
            )
        except OSError as error:
            self._errors.close()
            raise Unavailable(f"cannot start {command[0]}: {error.strerror}") from None
        try:
            self.versions: Mapping[str, str] = self._read("versions")
        except BaseException:
            self.close()
            raise

    def seconds(self, repeats: int) -> float:
        return self._ask(f"go {repeats}", "seconds")

    def fastest(self, samples: Sequence[float]) -> float:
        return min(samples)

    def result(self) -> Any:
        return self._ask("result", "result")

    def peak_bytes(self) -> int | None:
        return self._ask("peak", "peak_bytes")

    def close(self) -> None:
        try:
            self._process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._errors.close()

    def _ask(self, order: str, field: str) -> Any:
        try:
            print(order, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise Unavailable(self._obituary()) from None
        return self._read(field)

    def _read(self, field: str) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Unavailable(self._obituary())
        try:
            answer = json.loads(line)
        except json.JSONDecodeError:
            raise Unavailable(f"answered {line.strip()[:60]!r}, expected JSON") from None
        if "unavailable" in answer:
            raise Unavailable(answer["unavailable"])
        if "failed" in answer:
            raise RuntimeError(answer["failed"])
        return answer[field]

    def _obituary(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        return f"its process {how}" + (f": {said[-1]}" if said else "")


def _environment(threads: int) -> dict[str, str]:
    pools = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {"PYTHONPATH": path} | dict.fromkeys(pools, str(threads))
