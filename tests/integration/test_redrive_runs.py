"""What a redriven delivery runs with: its event's payload, another producer's, or one that a person edited."""

import json
from uuid import uuid4

import pytest

from homing import Event, Homing, Job, PermanentError
from homing.config.settings import Settings
from homing.deadletters.editing import edit_payload
from homing.deadletters.letters import letter_history, show_letter
from homing.deadletters.redrive import Redrive
from homing.errors import Refused
from homing.ids import JobId
from homing.ledger.actions import Person
from homing.queue.job import NewJob
from tests.system import System, quick, running
from tests.waiting import until

ALICE = Person("alice@desk", "the address was wrong")


class Sent(Event, topic="runs.sent", version=2, unrouted=True):
    """Version 1 had no country."""

    city: str
    country: str


@Sent.upcast(from_version=1)
def add_country(payload: dict[str, object]) -> dict[str, object]:
    return payload | {"country": "vn"}


class Mail:
    """What the handlers saw, and which city they refuse."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, int]] = []
        self.refused = {"Hanoy"}

    def app(self) -> Homing:
        """Two consumers of one event."""
        app = Homing("test")

        @app.queue("mail").handler("send", on=Sent, at_least_once=True)
        async def send(event: Sent, job: Job) -> None:
            self._take("send", event, job)

        @app.queue("copy").handler("send", on=Sent, at_least_once=True)
        async def copy(event: Sent, job: Job) -> None:
            self._take("copy", event, job)

        return app

    def _take(self, who: str, event: Sent, job: Job) -> None:
        self.seen.append((who, event.city, event.country, job.generation))
        if event.city in self.refused:
            raise PermanentError(f"no such city: {event.city}")


async def letter_of(system: System, consumer: str) -> int:
    """The open letter of a consumer."""

    async def found() -> int | None:
        value: int | None = await system.sql.fetchval(
            "SELECT id FROM homing.dead_letters WHERE consumer = $1 AND closed_at IS NULL", consumer
        )
        return value

    letter = await until(found, 30, f"{consumer} has an open letter")
    assert letter is not None
    return letter


async def test_an_edited_payload_is_one_delivery_s_own(settings: Settings) -> None:
    """Only the edited delivery runs with it; the other consumer's redrive gets the original, which event and letter still have."""
    mail = Mail()
    app = mail.app()
    async with running(app, quick(settings)) as system:
        await system.record(Sent(city="Hanoy", country="vn"))
        edited, original = [await letter_of(system, consumer) for consumer in ("mail.send", "copy.send")]
        mail.refused.clear()
        edit = edit_payload('{"city": "Hanoi", "country": "vn"}', "mail.send", app.handlers)
        await Redrive(system.ledger).redrive(edited, ALICE, edit=edit)
        await Redrive(system.ledger).redrive(original, ALICE)
        await system.settled(30)
        assert sorted(mail.seen[2:]) == [("copy", "Hanoy", "vn", 2), ("send", "Hanoi", "vn", 2)]
        row = await show_letter(system.ledger, edited)
        assert json.loads(row["payload"]) == json.loads(row["data"])["payload"] == {"city": "Hanoy", "country": "vn"}
        assert json.loads(row["edited"]) == {"payload": {"city": "Hanoi", "country": "vn"}, "version": 2}
        assert [death["id"] for death in await letter_history(system.ledger, row)] == [edited]
        subject = await system.sql.fetchval(
            "SELECT subject->'payload' FROM homing.operator_actions ORDER BY id LIMIT 1"
        )
        assert json.loads(subject) == {"city": "Hanoi", "country": "vn"}


async def test_a_job_of_another_producer_runs_again_with_what_it_carried(settings: Settings) -> None:
    """Its letter knows that no retry could help and how often it started; redriven, it is a delivery like any other, and an edit fits it too."""
    mail = Mail()
    app = mail.app()
    async with running(app, quick(settings)) as system:
        data = {"eventId": str(uuid4()), "traceId": "t9", "payload": {"city": "Hanoy"}}
        job = NewJob(id=JobId("order-17"), name="send", data=json.dumps(data), timestamp_ms=1_767_225_600_000)
        await system.engine.add("mail", [job])
        first = await letter_of(system, "mail.send")
        row = await show_letter(system.ledger, first)
        error = json.loads(row["error"])
        assert (error["reason"], error["starts"], row["attempts_made"]) == ("permanent", 1, 1)
        await Redrive(system.ledger).redrive(first, ALICE)
        second = await letter_of(system, "mail.send")
        edit = edit_payload('{"city": "Hue", "country": "vn"}', "mail.send", app.handlers)
        await Redrive(system.ledger).redrive(second, ALICE, edit=edit)
        await system.settled(30)
        assert mail.seen == [("send", "Hanoy", "vn", 1), ("send", "Hanoy", "vn", 2), ("send", "Hue", "vn", 3)]
        history = await letter_history(system.ledger, await show_letter(system.ledger, second))
        assert [(death["id"], death["generation"], death["closed_as"]) for death in history] == [
            (first, 1, "redriven"),
            (second, 2, "redriven"),
        ]


@pytest.mark.parametrize(
    ("text", "consumer", "expected"),
    [
        ("{", "mail.send", "the payload is no JSON"),
        ("[1]", "mail.send", "is a JSON list: it must be an object"),
        ('{"city": "Hue"}', "mail.send", "does not fit Sent of runs.sent: .*country"),
        ('{"city": "Hue", "country": "vn", "zip": "1"}', "mail.send", "does not fit Sent of runs.sent: .*zip"),
        ('{"city": "\\u0000", "country": "vn"}', "mail.send", "cannot travel: .*NUL"),
        ('{"city": "Hue", "country": "vn"}', "mail.forward", "no handler of this app consumes 'mail.forward'"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(text: str, consumer: str, expected: str) -> None:
    """A payload must be one of the event's class, whole and without surprises; unknown consumers cannot be checked."""
    with pytest.raises(Refused, match=f"(?s){expected}"):
        edit_payload(text, consumer, Mail().app().handlers)
