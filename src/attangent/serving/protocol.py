"""Requests of OpenAI's API, checked before any work is done, and errors in its format."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    field_validator,
    model_validator,
)

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
        """Return the body of the response, as OpenAI's API writes it."""
        kind = _ERROR_TYPES.get(
            self.status, "server_error" if self.status >= 500 else "invalid_request_error"
        )
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


class ClientGoneError(ApiError):
    """The client has closed the connection."""

    def __init__(self) -> None:
        super().__init__(499, "the client has closed the connection")


_ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
MOST_CHOICES = 16
MOST_STOPS = 4
_MOST_TEXT = 256
Text = Annotated[StrictStr, Field(max_length=_MOST_TEXT)]
# One error says enough: millions, which a body of some megabytes can hold, would take all memory.
Strings = Annotated[list[StrictStr], Field(fail_fast=True)]
Tokens = Annotated[list[StrictInt], Field(fail_fast=True)]


class Strict(BaseModel):
    """A JSON object whose fields are all known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ContentPart(Strict):
    """A part of a message; only text is supported."""

    type: Literal["text"]
    text: StrictStr


class ChatMessage(Strict):
    """A message of a chat."""

    role: Literal["system", "developer", "user", "assistant"]
    content: StrictStr | Annotated[list[ContentPart], Field(fail_fast=True)]
    name: None = None

    def plain(self) -> dict[str, str]:
        """Return the message with its text as content; a developer is a system."""
        text = self.content
        if not isinstance(text, str):
            text = "\n".join(part.text for part in text)
        return {"role": "system" if self.role == "developer" else self.role, "content": text}


class StreamOptions(Strict):
    """Options of a stream."""

    include_usage: StrictBool = False
    include_obfuscation: Literal[False] = False


class ResponseFormat(Strict):
    """The form of an answer; only text is supported."""

    type: Literal["text"]


class _Generating(Strict):
    """Parameters that chats and completions share; those of which only one value is supported come last."""

    model: Text
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False, strict=True)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False, strict=True)] | None = None
    n: Annotated[StrictInt, Field(ge=1, le=MOST_CHOICES)] | None = None
    stop: Text | Annotated[list[Text], Field(max_length=MOST_STOPS)] | None = None
    seed: Annotated[StrictInt, Field(ge=-(1 << 63), lt=1 << 63)] | None = None
    max_tokens: Annotated[StrictInt, Field(ge=1, le=1_000_000)] | None = None
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    user: Text | None = None
    frequency_penalty: Literal[0] | None = None
    presence_penalty: Literal[0] | None = None
    logit_bias: Annotated[dict[str, Any], Field(max_length=0)] | None = None

    @field_validator("frequency_penalty", "presence_penalty", mode="before")
    @classmethod
    def _whole_zero(cls, value: Any) -> Any:
        return 0 if value == 0 and not isinstance(value, bool) else value

    @property
    def stops(self) -> Sequence[str]:
        """Return the stop strings that are not empty."""
        stops = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return [stop for stop in stops if stop]

    @property
    def choices(self) -> int:
        """Return the number of answers."""
        return self.n or 1


class ChatRequest(_Generating):
    """The body of /v1/chat/completions."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=1000, fail_fast=True)]
    max_completion_tokens: Annotated[StrictInt, Field(ge=1, le=1_000_000)] | None = None
    logprobs: StrictBool | None = None
    top_logprobs: Annotated[StrictInt, Field(ge=0, le=20)] | None = None
    response_format: ResponseFormat | None = None
    tools: Annotated[list[Any], Field(max_length=0)] | None = None
    store: Literal[False] | None = None

    @model_validator(mode="after")
    def _check_logprobs(self) -> "ChatRequest":
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs: true")
        return self

    @property
    def most_tokens(self) -> int | None:
        """Return the limit of new tokens, if there is one."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def top(self) -> int | None:
        """Return the number of alternatives per token; None reports no probabilities."""
        return (self.top_logprobs or 0) if self.logprobs else None


class CompletionRequest(_Generating):
    """The body of /v1/completions."""

    prompt: StrictStr | Strings | Tokens | Annotated[list[Tokens], Field(fail_fast=True)]
    echo: Literal[False] | None = None
    best_of: Literal[1] | None = None
    suffix: None = None
    logprobs: None = None

    @property
    def prompts(self) -> Sequence[str | list[int]]:
        """Return every prompt, as text or tokens."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if self.prompt and all(isinstance(token, int) for token in self.prompt):
            return [self.prompt]  # pyright: ignore[reportReturnType]
        return self.prompt  # pyright: ignore[reportReturnType]


class PrefixRequest(Strict):
    """The body of POST /v1/prefixes."""

    text: StrictStr
    keep: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.95
    size: Annotated[StrictInt, Field(ge=4, le=65_536)] | None = None
    name: Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,47}$")] | None = None
