"""The scheduler: one thread owns the networks, and texts join and leave their batches between steps."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from attangent._core.errors import AttangentError
from attangent.serving.generation import Generation
from attangent.serving.row_batch import CHUNK, RowBatch
from attangent.serving.slot_cache import PromptReuse

BASE = "base"
"""Name of the network that all prefixes share."""
_log = logging.getLogger("attangent.serving")


class BusyError(AttangentError):
    """Too many requests are waiting."""


class OutOfTimeError(AttangentError):
    """A request took longer than the server allows."""


class Scheduler:
    """Generates many texts at once.

    Texts are read in the order of their arrival, at most `CHUNK` tokens between two steps, so that a long
    prompt delays the running texts by a fraction of a second.

    Args:
        most_rows: Maximum number of texts that are written together.
        most_waiting: Maximum number of texts that wait for a row.
        reuse_bytes: Memory for keys and values of recent prompts.
    """

    def __init__(self, most_rows: int = 32, most_waiting: int = 256, reuse_bytes: int = 1 << 28):
        self.most_rows = most_rows
        self.most_waiting = most_waiting
        self.reuse_bytes = reuse_bytes
        self.batches: dict[str, RowBatch] = {}
        self.steps = 0
        self._waiting: deque[Generation] = deque()
        self._calls: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="attangent-scheduler", daemon=True)

    def add_network(self, name: str, network: Any, tokenizer: Any) -> None:
        """Serve a network under this name; call it before `start`."""
        self.batches[name] = RowBatch(network, tokenizer, PromptReuse(self.reuse_bytes))

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; unfinished texts fail."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def is_alive(self) -> bool:
        """Return whether the thread runs."""
        return self._thread.is_alive()

    @property
    def running(self) -> int:
        """Return the number of texts that are being read or written."""
        return sum(len(batch.generations) for batch in self.batches.values())

    @property
    def waiting(self) -> int:
        """Return the number of texts that wait for a row."""
        return len(self._waiting)

    @property
    def kv_bytes(self) -> int:
        """Return the memory of keys and values, those of recent prompts included."""
        batches = self.batches.values()
        return sum(batch.cache.number_of_bytes + batch.reuse.number_of_bytes for batch in batches)

    def submit(self, *generations: Generation) -> None:
        """Let texts wait for a row: all of them, or none if too many are waiting.

        Raises:
            BusyError: If too many are waiting, or the server is stopping.
        """
        with self._changed:
            if self._stopping or len(self._waiting) + len(generations) > self.most_waiting:
                raise BusyError(
                    f"{len(self._waiting)} answers are waiting, at most {self.most_waiting} may; retry later"
                )
            self._waiting.extend(generations)
            self._changed.notify()

    def call(self, function: Callable[[], Any]) -> "Future[Any]":
        """Run a function in the thread between two steps; only there networks may change."""
        future: Future[Any] = Future()
        with self._changed:
            self._calls.append((function, future))
            self._changed.notify()
        return future

    def uses(self, network: str, adapter: str) -> bool:
        """Return whether a text with this prefix is waiting or running."""
        texts = [*self._waiting, *self.batches[network].generations]
        return any((text.network, text.adapter) == (network, adapter) for text in texts)

    def _run(self) -> None:
        while self._wait_for_work():
            self._answer_calls()
            self._drop_ended()
            for batch in self.batches.values():
                self._attempt(batch, self._read)
                self._attempt(batch, self._step)
        self._fail_all(AttangentError("the server is shutting down"))

    def _wait_for_work(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._calls or self._waiting or self.running > 0)
            return not self._stopping

    def _answer_calls(self) -> None:
        for _ in range(len(self._calls)):
            function, future = self._calls.popleft()
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)
            for batch in self.batches.values():
                batch.forget_rows()

    def _drop_ended(self) -> None:
        """Drop the texts whose client has left, and fail those that are out of time."""
        now = time.monotonic()
        with self._changed:
            ended = [text for text in self._waiting if text.cancelled or text.deadline < now]
            for text in ended:
                self._waiting.remove(text)
        for batch in self.batches.values():
            late = [text for text in batch.generations if text.cancelled or text.deadline < now]
            for text in late:
                batch.drop(text)
            ended += late
        for text in ended:
            if not text.cancelled:
                text.fail(OutOfTimeError("the time limit of the server is over; ask for fewer tokens"))

    def _read(self, batch: RowBatch) -> None:
        """Read the next prompts, at most CHUNK tokens together."""
        left = CHUNK
        while left > 0:
            if not batch.is_reading and not self._begin(batch):
                return
            left -= batch.read_on()

    def _begin(self, batch: RowBatch) -> bool:
        with self._changed:
            waiting = (text for text in self._waiting if self.batches[text.network] is batch)
            text = next(waiting, None) if self.running < self.most_rows else None
            if text is None:
                return False
            self._waiting.remove(text)
        batch.begin(text)
        return True

    def _step(self, batch: RowBatch) -> None:
        if batch.running:
            batch.step()
            self.steps += 1

    def _attempt(self, batch: RowBatch, work: Callable[[RowBatch], None]) -> None:
        """Do some work; if it fails, the texts of this batch fail and the server lives on."""
        try:
            work(batch)
        except Exception as error:
            _log.exception("a step failed")
            for text in batch.clear():
                text.fail(error)

    def _fail_all(self, error: Exception) -> None:
        for batch in self.batches.values():
            for text in batch.clear():
                text.fail(error)
        while self._waiting:
            self._waiting.popleft().fail(error)
        while self._calls:
            self._calls.popleft()[1].set_exception(error)
