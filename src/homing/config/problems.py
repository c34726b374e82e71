"""What is wrong with a set of settings, in words: each variable, its value without secrets, and the remedy."""

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from homing.config.sources import Found, Layer, variable_of
from homing.config.urls import mask


def explain(error: ValidationError, found: Layer) -> str:
    """One line for one problem; a heading and a line for each of several."""
    lines = list(dict.fromkeys(_line(problem, found) for problem in error.errors(include_url=False)))
    if len(lines) == 1:
        return lines[0]
    return "\n".join([f"{len(lines)} settings cannot be used:", *(f"  {line}" for line in lines)])


def _line(problem: ErrorDetails, found: Layer) -> str:
    reason = _reason(problem)
    path, value = _locate(problem, found)
    if value is None:
        return reason
    name = variable_of(path)
    place = "" if value.source == name else f" ({value.source})"
    return f"{name}={mask(str(value.value))}{place}: {reason}"


def _locate(problem: ErrorDetails, found: Layer) -> tuple[str, Found | None]:
    """The setting a problem is about: the longest known beginning of its location."""
    parts = [str(part) for part in problem["loc"]]
    for end in range(len(parts), 0, -1):
        path = ".".join(parts[:end])
        if path in found:
            return path, found[path]
    return "", None


def _reason(problem: ErrorDetails) -> str:
    context = problem.get("ctx", {})
    if problem["type"] == "value_error":
        return str(context["error"])
    if problem["type"] == "literal_error":
        return f"it must be one of {context['expected']}"
    text = problem["msg"]
    return text[:1].lower() + text[1:]
