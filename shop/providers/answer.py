"""Answers of the HTTP providers, and the one shape of their errors."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.responses import JSONResponse

from shop.providers.knobs import Aftermath

Body = TypeVar("Body", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Answer:
    """A status and a JSON body, with what the knobs decided to do to it on its way out."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)
    aftermath: Aftermath = field(default_factory=Aftermath)

    def response(self) -> JSONResponse:
        return JSONResponse(self.body, self.status, dict(self.headers))


class RefusedError(Exception):
    """The call ends here with an error answer, and had no effect."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"{answer.status} {answer.body}")
        self.answer = answer


def error_answer(
    status: int, code: str, message: str, *, kind: str = "invalid_request_error", param: str | None = None
) -> Answer:
    """Build `{"error": {type, code, message, param?}}`; `param` is the field at fault."""
    error = {"type": kind, "code": code, "message": message}
    return Answer(status, {"error": error if param is None else {**error, "param": param}})


def parse_body(model: type[Body], raw: bytes) -> Body:
    """Read the JSON of a call; `RefusedError` with 400 names the first field at fault."""
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        param = ".".join(str(part) for part in first["loc"])
        message = f"{param or 'body'}: {first['msg']} (got {first['input']!r:.80})"
        raise RefusedError(error_answer(400, "invalid_parameter", message, param=param or None)) from error
