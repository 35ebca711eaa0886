"""Settings of the server, checked on creation."""

import ipaddress
from dataclasses import dataclass

from attangent._core.checks import check_between, check_positive, check_size
from attangent._core.errors import AttangentError

_LOCAL = ("localhost", "127.0.0.1", "::1")
_SHORTEST_KEY = 8


@dataclass(frozen=True)
class ServeSettings:
    """Address and limits of the server.

    Attributes:
        host: Address to bind to; others than this machine's own need a key.
        port: Port; 0 takes a free one.
        api_key: Key that requests must send; None lets everyone on this machine in.
        most_rows: Maximum number of answers that are written together.
        most_waiting: Maximum number of answers that wait.
        most_bytes: Maximum size of a request.
        request_seconds: Maximum time of an answer.
        body_seconds: Maximum time in which a request must arrive.
        send_seconds: Maximum time in which a client must take a part of its answer.
        reuse_bytes: Memory for keys and values of recent prompts.

    Raises:
        AttangentError: If a value is out of range, or another host lacks a key.

    Example:
        >>> ServeSettings(host="0.0.0.0")
        Traceback (most recent call last):
        attangent._core.errors.AttangentError: the host 0.0.0.0 can be reached from other machines: ...
    """

    host: str = "127.0.0.1"
    port: int = 8000
    api_key: str | None = None
    most_rows: int = 32
    most_waiting: int = 256
    most_bytes: int = 4 << 20
    request_seconds: float = 600.0
    body_seconds: float = 30.0
    send_seconds: float = 60.0
    reuse_bytes: int = 1 << 28

    def __post_init__(self) -> None:
        check_between("port", self.port, 0, 65_535)
        for name in ("most_rows", "most_waiting", "most_bytes"):
            check_size(name, getattr(self, name))
        for name in ("request_seconds", "body_seconds", "send_seconds"):
            check_positive(name, getattr(self, name))
        check_size("reuse_bytes", self.reuse_bytes, least=0)
        if self.api_key is not None and (len(self.api_key) < _SHORTEST_KEY or not self.api_key.isascii()):
            raise AttangentError(f"the API key must have at least {_SHORTEST_KEY} ASCII characters")
        if self.api_key is None and not self.is_local:
            raise AttangentError(
                f"the host {self.host} can be reached from other machines: set ATTANGENT_API_KEY to a secret "
                "key, or use 127.0.0.1"
            )

    @property
    def is_local(self) -> bool:
        """Return whether only this machine can reach the host."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def allows_host(self, name: str) -> bool:
        """Return whether a Host header may have this name.

        On a local address any other name means that a foreign page has its own name resolve to this machine.
        """
        return not self.is_local or name in (*_LOCAL, self.host)
