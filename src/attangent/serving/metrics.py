"""Counters of the server in Prometheus' text format."""

import threading
from collections import Counter
from collections.abc import Mapping

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Counts of requests and tokens, and a histogram of the time to the first token."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._tokens: Counter[str] = Counter()
        self._first: list[int] = [0] * (len(_SECONDS) + 1)
        self._first_sum = 0.0

    def count_request(self, route: str, status: int) -> None:
        """Count a finished request."""
        with self._lock:
            self._requests[route, status] += 1

    def count_answer(self, prompt: int, completion: int, first_token_seconds: float) -> None:
        """Count a finished answer."""
        with self._lock:
            self._tokens["prompt"] += prompt
            self._tokens["completion"] += completion
            self._first_sum += first_token_seconds
            self._first[sum(first_token_seconds > bound for bound in _SECONDS)] += 1

    def text(self, gauges: Mapping[str, float]) -> str:
        """Return all counters, and gauges by name."""
        with self._lock:
            lines = ["# TYPE attangent_requests_total counter"]
            lines += [
                f'attangent_requests_total{{route="{route}",status="{status}"}} {count}'
                for (route, status), count in sorted(self._requests.items())
            ]
            lines.append("# TYPE attangent_tokens_total counter")
            lines += [
                f'attangent_tokens_total{{kind="{kind}"}} {self._tokens[kind]}'
                for kind in ("prompt", "completion")
            ]
            lines += self._histogram()
        for name, value in gauges.items():
            lines += [f"# TYPE attangent_{name} gauge", f"attangent_{name} {value:g}"]
        return "\n".join(lines) + "\n"

    def _histogram(self) -> list[str]:
        name = "attangent_first_token_seconds"
        lines = [f"# TYPE {name} histogram"]
        total = 0
        for bound, count in zip((*map(str, _SECONDS), "+Inf"), self._first, strict=True):
            total += count
            lines.append(f'{name}_bucket{{le="{bound}"}} {total}')
        return [*lines, f"{name}_sum {self._first_sum:.6f}", f"{name}_count {total}"]
