"""`homing health`: is the process on this machine live, ready, and does work flow? For containers, whose probes run a command."""

import json
from enum import Enum
from http.client import HTTPConnection, HTTPException
from typing import Annotated, Any

import typer

from homing.cli.exits import Exit
from homing.cli.saying import show_json, show_text
from homing.cli.session import session_of
from homing.errors import ConfigurationError, ServerUnavailable
from homing.harmless import clean

ANSWER_SECONDS = 3.0
"""How long an answer may take: it is made from memory."""

EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - asked, not listened on
"""Where a server is asked that listens on every address."""


class Question(Enum):
    """What is asked: whether a restart would help, whether new work is taken, whether work flows."""

    LIVE = "live"
    READY = "ready"
    VERDICT = "verdict"


PATHS = {Question.LIVE: "/livez", Question.READY: "/readyz", Question.VERDICT: "/verdict"}


def health_verb(
    context: typer.Context,
    question: Annotated[Question, typer.Argument(help="live, ready or verdict.")] = Question.LIVE,
) -> None:
    """Ask the worker or relay on this machine how it does. It answers at HOMING_HTTP_ADDRESS; leaves with 0 when it is well, 1 when not, 4 when nobody answers."""
    session = session_of(context)
    good, document = ask(session.settings().http_address, PATHS[question])
    if session.json:
        show_json({"question": question.value, "good": good, **document})
    else:
        show_text(in_words(question, document, good=good))
    raise typer.Exit(Exit.DONE if good else Exit.FOUND_WRONG)


def ask(address: str, path: str) -> tuple[bool, dict[str, Any]]:
    """Whether it is well, and the document that says why; `ServerUnavailable` when nobody answers, or somebody else."""
    if address == "off":
        raise ConfigurationError(
            "HOMING_HTTP_ADDRESS is 'off': nothing answers; give the process an address, and this command the same"
        )
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    connection = HTTPConnection(EVERYWHERE.get(host, host), int(port), timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        document = json.loads(answer.read())
    except (OSError, HTTPException, ValueError) as error:
        reason = clean(str(error) or type(error).__name__)
        raise ServerUnavailable(f"no worker or relay answers at http://{address}{path}: {reason}") from error
    finally:
        connection.close()
    if answer.status not in (200, 503) or not isinstance(document, dict):
        raise ServerUnavailable(f"what answers at http://{address}{path} is no worker or relay of this version")
    return answer.status == 200, document


def in_words(question: Question, document: dict[str, Any], *, good: bool) -> str:
    """One line for people."""
    word = document.get("level", question.value if good else f"not {question.value}")
    reasons = [_reason(reason) for reason in document.get("reasons", ())]
    return clean(f"{word}: {'; '.join(reasons)}" if reasons else str(word))


def _reason(reason: Any) -> str:
    return f"{reason.get('text')}: {reason.get('remedy')}" if isinstance(reason, dict) else str(reason)
