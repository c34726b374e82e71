"""Why data does not fit: by field, without its values. Errors are logged and kept; payloads are nobody's business there."""

from pydantic import ValidationError

MOST_PROBLEMS = 5


def describe_misfit(error: ValidationError) -> str:
    """What is wrong with each field, one after the other; of many the first ones and their number."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    told = [f"{_place(problem['loc'])}: {problem['msg']}" for problem in problems[:MOST_PROBLEMS]]
    more = len(problems) - MOST_PROBLEMS
    return "; ".join([*told, f"and {more} more"] if more > 0 else told)


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part)[:80] for part in location) or "it"
