"""Errors in OpenAI's format."""

from typing import Any

from attangent._core.errors import AttangentError


class ApiError(AttangentError):
    """An error with an HTTP status.

    Args:
        status: The status.
        message: What is wrong, what was expected and what to do.
        param: The parameter that is wrong.
        code: A short name of the error.
    """

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None):
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code

    def as_json(self) -> dict[str, Any]:
        """Return the body of the response."""
        return error_body(self.status, str(self), self.param, self.code)


def error_body(
    status: int, message: str, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """Return an error as OpenAI's API writes it."""
    kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
    kinds |= {429: "rate_limit_error"}
    kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
