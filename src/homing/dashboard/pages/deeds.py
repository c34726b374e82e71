"""What is done to jobs: asked first, with how many there are and which, then done with a reason, and answered job by job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from starlette.exceptions import HTTPException
from starlette.responses import Response

from homing.dashboard import words
from homing.dashboard.pages.jobs import given, options
from homing.dashboard.visit import Visit, deed
from homing.deadletters import Redrive
from homing.deadletters.letters import show_letter
from homing.ids import DeliveryKey, JobId
from homing.operations import jobs
from homing.operations.cancel import cancel
from homing.operations.jobs import Choice, Deed, act_on_jobs, gather_ids
from homing.queue.browse import JobState

MOST = 10_000
"""Jobs that one deed takes."""

MOST_NAMED = 10
"""Jobs that a command on a page names one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A deed as a page offers it: its name, what it means, and the state of the jobs that a filter alone may choose."""

    button: str
    sentence: str
    state: JobState | None = None
    danger: bool = False


VERBS: Mapping[str, Verb] = {
    "retry": Verb(
        button="Retry",
        sentence="Failed jobs run again, with all their attempts. A dead delivery is opened again when its job starts; its letter is closed.",
        state=JobState.FAILED,
    ),
    "promote": Verb(
        button="Promote",
        sentence="Delayed jobs run now: those that were snoozed, and those that wait for their next attempt.",
        state=JobState.DELAYED,
    ),
    "cancel": Verb(
        button="Cancel",
        sentence="Deliveries are settled as cancelled, for good, and their jobs are taken out of the engine. A run that is under way may still do its work.",
        danger=True,
    ),
    "remove": Verb(
        button="Remove",
        sentence="Jobs that nobody runs leave the engine. Those of open deliveries come back with the next look: cancel ends one for good.",
        danger=True,
    ),
}


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one job: in words, whether that was what was asked for, and where to look on."""

    job_id: str
    answer: str
    is_done: bool
    link: str


async def do(visit: Visit) -> Response:
    """Ask first; do it when the form says so."""
    name = visit.part("deed")
    verb = VERBS.get(name)
    if verb is None:
        raise HTTPException(404)
    visit.person(None).require(name)
    queue = visit.form.text("queue", most=200)
    choice = read_filter(visit, verb) if visit.form.raw("all") else None
    ids = await gather(visit, choice)
    if visit.form.raw("confirmed") != "yes":
        return _ask(visit, name, verb, ids, choice=choice, queue=queue)
    told = await _act(visit, name, ids, queue=None if choice is not None else queue)
    if len(told) == 1 and told[0].is_done:
        return visit.go_to(told[0].link, f"{name}: {told[0].answer}")
    return visit.page("answers.html", verb=verb, told=told, back=_back(visit, choice, queue))


async def redrive(visit: Visit) -> Response:
    """Run the delivery of one dead letter again, as a new generation."""
    letter = visit.form.number("letter", most=2**63 - 1)
    if letter is None:
        raise HTTPException(400, "letter: say which")
    visit.person(None).require("redrive")
    row = await show_letter(visit.ledger, letter)
    if visit.form.raw("confirmed") == "yes":
        await Redrive(visit.ledger).redrive(letter, visit.reasoned())
        key = DeliveryKey(row["event_id"], row["consumer"], row["generation"] + 1)
        return visit.go_to(visit.job(key.job_id), f"letter {letter} is redriven: the sweep dispatches it in a moment")
    return visit.page(
        "confirm.html",
        title="Redrive it?",
        count="1 delivery",
        sentence="The delivery is opened again as a new generation, with all its attempts; the letter is closed. The sweep dispatches it.",
        button="Redrive",
        danger=False,
        action=visit.url("/redrive"),
        fields=[("letter", str(letter)), ("confirmed", "yes")],
        back=visit.job(row["job_id"], row["queue"]),
        subjects=[row["job_id"]],
        command_line=visit.command("redrive", "--id", letter),
    )


def read_filter(visit: Visit, verb: Verb) -> Choice:
    """All jobs that fit the filter of the list they were seen in; a deed on failed jobs takes no others."""
    state = verb.state or visit.form.choice("state", JobState)
    queue, name = visit.form.text("queue", most=200), visit.form.text("name", most=200)
    if state is None:
        raise HTTPException(400, "state: say which jobs of them, such as failed ones")
    return Choice(queue=queue, state=state, name=name)


async def gather(visit: Visit, choice: Choice | None) -> list[JobId]:
    """The ids: those that were selected, or those that fit now."""
    if choice is not None:
        return await gather_ids(visit.ledger, visit.engine, choice, MOST)
    ids = list(dict.fromkeys(JobId(value) for value in visit.form.all("id")))
    if len(ids) > MOST or any(len(each) > 1000 for each in ids):
        raise HTTPException(400, f"id: up to {MOST:,} ids, each of up to 1,000 characters")
    if not ids:
        raise HTTPException(400, "nothing is selected: mark some rows, or take all that fit the filter")
    return ids


def _ask(
    visit: Visit, name: str, verb: Verb, ids: Sequence[JobId], *, choice: Choice | None, queue: str | None
) -> Response:
    filters = {} if choice is None else {"all": "yes", **given(choice)}
    chosen = [("id", str(each)) for each in ids] if choice is None else []
    place = [("queue", queue)] if queue and choice is None else []
    return visit.page(
        "confirm.html",
        title=f"{verb.button} {words.count_of(len(ids), 'job')}?",
        count=f"{words.count_of(len(ids), 'job')}{' or more' if len(ids) == MOST else ''}",
        sentence=verb.sentence,
        button=verb.button,
        danger=verb.danger,
        action=visit.url(f"/do/{name}"),
        fields=[("confirmed", "yes"), *filters.items(), *chosen, *place],
        back=_back(visit, choice, queue),
        subjects=list(ids),
        command_line=visit.command("jobs", name, *_words(name, ids, choice)),
    )


def _words(name: str, ids: Sequence[JobId], choice: Choice | None) -> Sequence[str]:
    """The jobs as the command takes them; `-` for more than a line holds, and where a verb knows no filter: it reads ids from its input."""
    if choice is None or name == "cancel":
        return ids if choice is None and len(ids) <= MOST_NAMED else ["-"]
    return options(choice if name == "remove" else replace(choice, state=None))


async def _act(visit: Visit, name: str, ids: Sequence[JobId], *, queue: str | None) -> list[Told]:
    person = visit.reasoned()
    if name == "cancel":
        answers = await cancel(visit.ledger, visit.engine, ids, person)
        return [
            Told(
                each.job_id,
                each.answer.value if each.outcome is None else f"{each.answer.value}: {each.outcome}",
                each.answer.is_cancelled,
                visit.job(each.job_id),
            )
            for each in answers
        ]
    acted = await act_on_jobs(visit.ledger, visit.engine, Deed(name), ids, person=person, queue=queue)
    gone = (jobs.Answer.REMOVED,)
    return [
        Told(
            each.job_id,
            each.answer.value,
            each.answer.is_done,
            visit.url("/jobs", queue=each.queue) if each.answer in gone else visit.job(each.job_id, each.queue),
        )
        for each in acted
    ]


def _back(visit: Visit, choice: Choice | None, queue: str | None) -> str:
    return visit.url("/jobs", **({"queue": queue} if choice is None else given(choice)))


ROUTES = (deed("/do/{deed}", do), deed("/redrive", redrive))
