"""What a handler may look like: everything else is refused where it is declared, by file, line and remedy."""

import functools
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Annotated, Any

import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Event, Homing, Job, Transaction
from homing.app.handlers import Parameter, inspect_parameters, kind_of
from homing.errors import RegistrationError

HERE = __file__


class Paid(Event, topic="handlers.paid", unrouted=True):
    amount: int = 1


class Refunded(Event, topic="handlers.refunded", unrouted=True):
    amount: int = 1


class Fact(Event):
    amount: int = 1


class Mailer:
    """A resource."""


def register(function: Callable[..., Any], *, at_least_once: bool = True, on: type[Event] = Paid) -> Homing:
    """Register `function` on a fresh app."""
    app = Homing("test")
    app.queue("mail").handler("send", on=on, at_least_once=at_least_once)(function)
    return app


def refusal(function: Callable[..., Any], *, at_least_once: bool = True, on: type[Event] = Paid) -> str:
    """Why `function` is refused; nothing of it stays in the app."""
    app = Homing("test")
    with pytest.raises(RegistrationError) as error:
        app.queue("mail").handler("send", on=on, at_least_once=at_least_once)(function)
    assert app.handlers == ()
    return str(error.value)


def test_a_handler_is_described_by_its_declaration() -> None:
    """Consumer, topic, guarantee and parameters follow from the declaration alone, and the function stays callable."""

    async def send(event: Paid, job: Job, mail: Mailer, tx: Transaction[AsyncSession]) -> None:
        """Send."""

    (handler,) = register(send, at_least_once=False).handlers
    assert (handler.consumer, handler.topic, handler.guarantee) == ("mail.send", "handlers.paid", "once")
    assert handler.function is send
    assert handler.parameters == (
        Parameter("job", "job", Job),
        Parameter("mail", "resource", Mailer),
        Parameter("tx", "transaction", AsyncSession),
    )
    assert handler.transaction == handler.parameters[2]
    assert f"{HERE}:" in handler.location


def test_types_decide_and_names_do_not() -> None:
    """A transaction under another name is one; a resource called tx is none; other annotations are looked through."""

    async def send(event: Event, session: Transaction[AsyncSession], tx: Annotated[Mailer, "a remark"]) -> None:
        """Send."""

    (handler,) = register(send, at_least_once=False).handlers
    assert handler.parameters == (
        Parameter("session", "transaction", AsyncSession),
        Parameter("tx", "resource", Mailer),
    )


def test_parameters_behind_a_star_are_filled_too() -> None:
    """What is handed over by name may be keyword-only."""

    async def send(event: Paid, /, *, mail: Mailer) -> None:
        """Send."""

    (handler,) = register(send).handlers
    assert handler.parameters == (Parameter("mail", "resource", Mailer),)


async def _nothing() -> None: ...


async def _wrong_event(event: Refunded) -> None: ...


async def _no_event(mail: Mailer) -> None: ...


async def _untyped(event: Paid, mail) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001 - what is tested


async def _untyped_event(event) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001 - what is tested


async def _star(event: Paid, *rest: Mailer) -> None: ...


async def _double_star(event: Paid, **rest: Mailer) -> None: ...


async def _event_behind_star(*, event: Paid) -> None: ...


async def _before_slash(event: Paid, mail: Mailer, /) -> None: ...


async def _unknown_name(event: Paid, mail: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821 - what is tested


async def _unknown_attribute(event: Paid, mail: "functools.Nowhere") -> None: ...  # type: ignore[name-defined]  # what is tested


async def _no_session(event: Paid, tx: Transaction) -> None: ...  # type: ignore[type-arg]  # what is tested


async def _both(event: Paid, tx: Transaction[AsyncSession]) -> None: ...


async def _fine(event: Paid) -> None: ...


async def _generator(event: Paid) -> Any:
    yield


def _plain(event: Paid) -> None: ...


async def _coroutine(event: Paid) -> None: ...


def _with_mail(event: Paid, mail: Mailer) -> None: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_coroutine, "is `async def` and says cpu=True"),
        (_with_mail, "says cpu=True and takes 'mail': a child process has no transaction and no resources"),
        (lambda event: None, "has no type"),
    ],
    ids=["coroutine", "resource", "lambda"],
)
def test_what_a_child_process_cannot_run_is_refused(function: Callable[..., Any], words: str) -> None:
    """cpu=True takes a plain function at the top of a module, and only what travels."""
    with pytest.raises(RegistrationError, match=re.escape(words)):
        inspect_parameters(function, Paid, at_least_once=True, cpu=True)


def _plain_batch(events: Sequence[Paid]) -> None: ...


def test_a_child_process_takes_no_batch() -> None:
    """cpu=True and batch= exclude each other, in words."""
    with pytest.raises(
        RegistrationError, match="says cpu=True and batch=10: a child process takes one event at a time"
    ):
        inspect_parameters(_plain_batch, Paid, at_least_once=True, cpu=True, batch=10)


def test_a_function_inside_a_function_cannot_be_found_by_a_child() -> None:
    """A child process finds the function by its name."""

    def inner(event: Paid) -> None: ...

    with pytest.raises(RegistrationError, match="a child process cannot find it"):
        inspect_parameters(inner, Paid, at_least_once=True, cpu=True)


def test_the_kind_follows_from_the_function() -> None:
    """An async def runs on the loop, a def in a thread, cpu=True in a child."""
    assert (kind_of(_coroutine, cpu=False), kind_of(_plain, cpu=False), kind_of(_plain, cpu=True)) == (
        "async",
        "thread",
        "process",
    )


class Caller:
    """An object that can be called."""

    async def __call__(self, event: Paid) -> None: ...

    async def method(self, event: Paid) -> None: ...


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (_nothing, "takes no parameter: the first one is the event"),
        (_wrong_event, "first parameter 'event' is Refunded: annotate it as Paid"),
        (_no_event, "first parameter 'mail' is Mailer: annotate it as Paid"),
        (_untyped, "parameter 'mail' has no type, and types decide what it gets"),
        (_untyped_event, "parameter 'event' has no type"),
        (_star, "takes *rest: name each resource with its type instead"),
        (_double_star, "takes *rest: name each resource with its type instead"),
        (_event_behind_star, "'event' stands behind a *, but the event comes first"),
        (_before_slash, "'mail' stands before a /, but is given by its name"),
        (_unknown_name, "name 'Nowhere' is not defined; annotations of handlers must be resolvable where they stand"),
        (_unknown_attribute, "annotations of handlers must be resolvable where they stand"),
        (_no_session, "say which session, as in Transaction[AsyncSession]"),
        (_generator, "is a generator: a handler does its work and returns"),
        (_both, "says at_least_once=True: its effect is once, drop the latter"),
        (Caller.method, "parameter 'self' has no type"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_function_that_cannot_be_a_handler_names_itself_and_the_remedy(
    function: Callable[..., Any], text: str
) -> None:
    """Each wrong signature is found at its declaration, with the place where it stands."""
    message = refusal(function)
    assert text in message
    assert f"{function.__qualname__} ({HERE}:{function.__code__.co_firstlineno})" in message


@pytest.mark.parametrize("function", [functools.partial(_fine), Caller(), print], ids=["partial", "object", "builtin"])
def test_what_is_no_function_is_refused(function: Callable[..., Any]) -> None:
    """Partials and callable objects have no place in a file that a message could name, and are told what to do."""
    assert "not a function: wrap it in a `def`" in refusal(function)


def test_a_bound_method_is_a_handler() -> None:
    """A method whose object is known takes the event first."""
    (handler,) = register(Caller().method).handlers
    assert handler.parameters == ()


def test_neither_transaction_nor_at_least_once_is_refused() -> None:
    """A handler that says nothing about its guarantee would lose it silently."""
    message = refusal(_fine, at_least_once=False)
    assert "_fine" in message
    assert "say at_least_once=True, or take the transaction" in message


def test_two_transactions_are_refused() -> None:
    """Only one transaction can commit together with the delivery."""

    async def send(event: Paid, one: Transaction[AsyncSession], two: Transaction[AsyncSession]) -> None:
        """Send."""

    assert "takes 2 transactions (one, two): one settles" in refusal(send, at_least_once=False)


def test_an_event_without_a_topic_is_refused() -> None:
    """A handler needs something to be routed by."""

    async def send(event: Fact) -> None:
        """Send."""

    assert 'Fact has no topic; declare it with topic="…"' in refusal(send, on=Fact)


def test_a_timeout_of_nothing_is_refused_with_the_handler() -> None:
    """Times are checked where a handler is declared."""
    queue = Homing("test").queue("mail")
    with pytest.raises(RegistrationError, match=r"timeout=0:00:00: must be greater than zero"):
        queue.handler("send", on=Paid, at_least_once=True, timeout=timedelta(0))(_fine)


@pytest.mark.parametrize("what", ["handler", "alias", "consumer"])
@pytest.mark.parametrize("name", [" ", "a b", "a:b", "17", "é", "a" * 201, "-a"])
def test_bad_names_are_refused_by_name(name: str, what: str) -> None:
    """Names become part of keys and job ids: what cannot is refused, for handlers, consumers and aliases alike."""
    queue = Homing("test").queue("mail")
    with pytest.raises(RegistrationError) as error:
        queue.handler(
            name if what == "handler" else "send",
            on=Paid,
            at_least_once=True,
            consumer=name if what == "consumer" else None,
            aliases=[name] if what == "alias" else [],
        )(_fine)
    assert f"{what} name {name!r}: use letters, digits" in str(error.value)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"message_id": "total"}, "Paid has no such field, only amount"),
        ({"on_duplicate": "ignore"}, "it is 'skip' or 'raise'"),
    ],
)
def test_what_says_nothing_of_copies_is_refused(option: dict[str, Any], words: str) -> None:
    """A message is named by a field that the event has, and duplicates are skipped or raised."""
    handler: Any = Homing("test").queue("mail").handler
    with pytest.raises(RegistrationError, match=re.escape(words)):
        handler("send", on=Paid, at_least_once=True, **option)(_fine)
