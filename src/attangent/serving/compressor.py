"""Compress prefixes one after the other in a separate process, which the server watches."""

import json
import logging
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from attangent.serving.prefix_store import PrefixStore, StoredPrefix

_log = logging.getLogger("attangent.serving")
_LONGEST_ERROR = 2000


class Compressor:
    """A thread that starts one compressing process at a time.

    A process that is killed with the server resumes when the server starts again.

    Args:
        store: The prefixes.
        model: The base model: a folder or a Hub id.
        on_ready: Called with every prefix that is ready.
    """

    command = (sys.executable, "-m", "attangent.serving.compressing")

    def __init__(self, store: PrefixStore, model: str, on_ready: Callable[[StoredPrefix], None]):
        self.store = store
        self.model = model
        self.on_ready = on_ready
        self._jobs: queue.Queue[str | None] = queue.Queue()
        self._process: subprocess.Popen[str] | None = None
        self._current: str | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="attangent-compressor", daemon=True)

    def start(self) -> None:
        """Start the thread with everything that was not finished before."""
        for prefix in self.store.all():
            if prefix.status == "waiting":
                self._jobs.put(prefix.id)
        self._thread.start()

    def add(self, prefix: StoredPrefix) -> None:
        """Compress a prefix after those that are waiting."""
        self._jobs.put(prefix.id)

    def cancel(self, id: str) -> None:
        """End the compression of a prefix that is being deleted."""
        process = self._process
        if self._current == id and process is not None:
            process.kill()

    def stop(self) -> None:
        """End the thread and its process; the next start resumes."""
        self._stopping = True
        process = self._process
        if process is not None:
            process.kill()
        self._jobs.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while (id := self._jobs.get()) is not None and not self._stopping:
            try:
                self._compress(id)
            except Exception as error:
                _log.exception("a compression failed")
                self.store.finish(id, f"the compression failed: {error}"[:_LONGEST_ERROR])

    def _compress(self, id: str) -> None:
        prefix = next((each for each in self.store.all() if each.id == id), None)
        if prefix is None:
            return
        self._current = id
        self.store.update(id, status="compressing", stage="loading the model")
        try:
            error = self._watch(id)
        finally:
            self._process = None
            self._current = None
        if self._stopping:
            return
        if error is None:
            self.on_ready(self.store.get(id))  # first, so that whoever reads "ready" can use it
        self.store.finish(id, error)

    def _watch(self, id: str) -> str | None:
        """Run the process of a compression; return why it failed, or None."""
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        outcome: dict[str, Any] = {}
        with subprocess.Popen(self.command, **pipes) as process:
            self._process = process
            assert process.stdin is not None
            assert process.stdout is not None
            # The process ends when this pipe closes, so that it does not outlive the server.
            process.stdin.write(
                json.dumps({"model": self.model, "folder": str(self.store.folder / id)}) + "\n"
            )
            process.stdin.flush()
            for line in process.stdout:
                outcome = json.loads(line)
                self._note(id, outcome)
        if outcome.get("ready"):
            return None
        return outcome.get("error") or f"the compressing process ended with code {process.returncode}"

    def _note(self, id: str, news: dict[str, Any]) -> None:
        if "stage" in news:
            self.store.update(id, stage=news["stage"], done=news["done"], total=news["total"])
        elif "size" in news:
            self.store.add_point(id, news["size"], news["kept"], news["asked"])
