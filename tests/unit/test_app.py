"""The app object: what may be declared, and what is found wrong before anything runs."""

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from homing import Event, Homing, Provider, RateLimit
from homing.app import Queue
from homing.config.settings import Settings
from homing.durations import seconds
from homing.errors import ConfigurationError, RegistrationError


class Paid(Event, topic="app.paid", unrouted=True):
    amount: int = 1


async def first(event: Paid) -> None:
    """A handler."""


async def second(event: Paid) -> None:
    """Another one."""


def add(
    queue: Queue, name: str, *, other: bool = False, consumer: str | None = None, aliases: tuple[str, ...] = ()
) -> None:
    """Register one of the two functions."""
    register = queue.handler(name, on=Paid, at_least_once=True, consumer=consumer, aliases=aliases)
    register(second if other else first)


def test_declaring_reads_no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """An app is declared at import: settings are read when something runs, and are kept then."""
    monkeypatch.setenv("HOMING_LAESE", "a misspelt one")
    app = Homing("test")
    app.queue("mail")
    with pytest.raises(ConfigurationError, match="HOMING_LAESE"):
        _ = app.settings
    monkeypatch.delenv("HOMING_LAESE")
    assert app.settings is app.settings


def test_given_settings_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests and commands bring their own settings."""
    monkeypatch.setenv("HOMING_LEASE", "nonsense")
    settings = Settings(lease=seconds(40))
    assert Homing("test", settings=settings).settings is settings
    app = Homing("test")
    app.use(settings)
    assert app.settings is settings


@pytest.mark.parametrize("name", ["", "a:b", "1", "a b"])
def test_an_app_or_queue_with_a_bad_name_is_refused(name: str) -> None:
    """The name is the prefix of every key."""
    with pytest.raises(RegistrationError, match="app name"):
        Homing(name)
    with pytest.raises(RegistrationError, match="queue name"):
        Homing("test").queue(name)


def test_a_queue_is_declared_once() -> None:
    """Two declarations of one queue would each hold half of its options."""
    app = Homing("test")
    app.queue("mail")
    with pytest.raises(RegistrationError, match="queue 'mail' is declared twice: declare it once and import it"):
        app.queue("mail")


def test_a_refused_queue_is_not_declared() -> None:
    """After a refusal the name is still free."""
    app = Homing("test")
    with pytest.raises(RegistrationError, match="queue 'mail' has concurrency=0: at least 1, or leave it out"):
        app.queue("mail", concurrency=0)
    assert app.queue("mail", concurrency=1, limit=RateLimit(4, per=seconds(1))).concurrency == 1


def test_there_is_one_lifespan() -> None:
    """Resources come from one place, so that they close in one order."""
    app = Homing("test")

    async def resources(provide: Provider) -> AsyncIterator[None]:
        yield

    assert app.lifespan(resources) is resources
    with pytest.raises(RegistrationError, match="app 'test' has two lifespans: provide everything from one"):
        app.lifespan(resources)


async def test_the_lifespan_provides_and_closes() -> None:
    """What stands behind the yield runs when the resources are no longer needed."""
    app = Homing("test")
    closed: list[str] = []

    @app.lifespan
    async def resources(provide: Provider) -> AsyncIterator[None]:
        provide("a resource")
        yield
        closed.append("closed")

    assert app.open_resources is not None
    provider = Provider()
    async with app.open_resources(provider):
        assert provider.get(str) == "a resource"
        assert closed == []
    assert closed == ["closed"]


def test_two_handlers_of_one_consumer_are_refused() -> None:
    """A delivery is settled under one name by one function; the message names both places."""
    app = Homing("test")
    queue = app.queue("mail")
    add(queue, "send")
    with pytest.raises(
        RegistrationError, match=r"two handlers are called 'mail\.send': first \(.*\) and second \("
    ) as error:
        add(queue, "send", other=True)
    assert f"{__file__}:{second.__code__.co_firstlineno}" in str(error.value)


def test_two_queues_may_have_handlers_of_one_name() -> None:
    """The consumer is queue and name together, unless it is pinned."""
    app = Homing("test")
    add(app.queue("mail"), "send")
    add(app.queue("sms"), "send", other=True)
    assert [handler.consumer for handler in app.handlers] == ["mail.send", "sms.send"]
    with pytest.raises(RegistrationError, match=r"two handlers are called 'mail\.send'"):
        add(app.queue("push"), "send", other=True, consumer="mail.send")


def test_one_job_name_has_one_handler() -> None:
    """Another consumer name does not make a second handler of the same job possible."""
    app = Homing("test")
    queue = app.queue("mail")
    add(queue, "send")
    with pytest.raises(
        RegistrationError, match=r"queue 'mail' has two handlers of job 'send': first \(.*\) and second"
    ):
        add(queue, "send", other=True, consumer="mail.other")


@pytest.mark.parametrize(
    ("consumer", "aliases"),
    [(None, ("mail.send",)), (None, ("mail.old",)), ("mail.old", ())],
    ids=["name", "alias", "as alias"],
)
def test_an_alias_is_a_name_like_any_other(consumer: str | None, aliases: tuple[str, ...]) -> None:
    """An old delivery must have one handler: aliases collide with names and with aliases, in both directions."""
    app = Homing("test")
    queue = app.queue("mail")
    add(queue, "send", aliases=("mail.old",))
    with pytest.raises(RegistrationError, match=r"two handlers are called 'mail\.(send|old)'"):
        add(queue, "other", other=True, consumer=consumer, aliases=aliases)


def test_handlers_and_queues_are_listed_by_name() -> None:
    """What is shown does not depend on the order of imports."""
    app = Homing("test")
    for name in ("b", "a"):
        queue = app.queue(name)
        add(queue, "send", other=name == "a")
    assert [queue.name for queue in app.queues] == ["a", "b"]
    assert [handler.consumer for handler in app.handlers] == ["a.send", "b.send"]
    assert repr(app) == "<Homing 'test' queues=['a', 'b'] handlers=2>"


# ── Modules ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose modules can be imported during the test."""
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def test_an_included_module_that_is_missing_is_named(modules: Path) -> None:
    """A typo in `include` would otherwise be a worker without handlers."""
    (modules / "app_pack").mkdir()
    for missing in ("app_nowhere", "app_pack.handlers", "app_nowhere.deep.handlers"):
        with pytest.raises(ConfigurationError, match=f"app 'test' includes '{missing}', which is not there"):
            Homing("test", include=[missing]).load()


def test_an_included_module_that_misses_something_else_says_what(modules: Path) -> None:
    """The module is there, what it needs is not: the error is that import's own."""
    (modules / "app_needy.py").write_text("import app_not_installed\n")
    with pytest.raises(ModuleNotFoundError, match="app_not_installed"):
        Homing("test", include=["app_needy"]).load()


def test_including_twice_is_importing_once(modules: Path) -> None:
    """Loading again registers nothing a second time."""
    (modules / "app_once.py").write_text(
        "from homing import Event, Homing\n"
        "class Seen(Event, topic='app.seen'):\n    number: int = 1\n"
        "app = Homing('test', include=['app_once', 'app_once'])\n"
        "@app.queue('mail').handler('send', on=Seen, at_least_once=True)\n"
        "async def send(event: Seen) -> None: ...\n"
    )
    app = Homing("starter", include=["app_once"])
    app.load()
    app.load()
    loaded = sys.modules["app_once"].app
    loaded.load()
    assert len(loaded.handlers) == 1
    loaded.check()


# ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────────────

EVENTS = """
from homing import Event, Homing
class Placed(Event, topic='{name}.placed'):
    number: int = 1
class Lost(Event, topic='{name}.lost'{extra}):
    number: int = 1
app = Homing('test'{include})
@app.queue('mail').handler('send', on=Placed, at_least_once=True)
async def send(event: Placed) -> None: ...
"""


def load(modules: Path, name: str, *, extra: str = "", include: bool = True, more: str = "") -> Homing:
    """An app of one module with two events, one of which nobody handles."""
    text = EVENTS.format(name=name, extra=extra, include=f", include=['{name}']" if include else "")
    (modules / f"{name}.py").write_text(text + more)
    starter = Homing("starter", include=[name])
    starter.load()
    app = sys.modules[name].app
    assert isinstance(app, Homing)
    app.load()
    return app


@pytest.mark.parametrize("include", [True, False], ids=["included", "beside a handler"])
def test_an_event_without_a_consumer_is_found(modules: Path, *, include: bool) -> None:
    """An event that nobody routes would be recorded and wait for ever: it is named, with both remedies."""
    name = f"app_events_{include}".lower()
    app = load(modules, name, include=include)
    expected = (
        f"nobody consumes '{name}.lost' ({name}.Lost): register a handler on it, or declare it with unrouted=True"
    )
    assert app.problems() == [expected]
    with pytest.raises(RegistrationError) as error:
        app.check()
    assert str(error.value) == expected


def test_an_event_that_says_so_needs_no_consumer(modules: Path) -> None:
    """`unrouted=True` is the answer for events of other applications."""
    app = load(modules, "app_unrouted", extra=", unrouted=True")
    assert app.problems() == []
    app.check()


def test_a_topic_of_two_classes_is_found(modules: Path) -> None:
    """Two classes of one topic would decode each other's payloads."""
    more = "class Again(Event, topic='app_double.placed'):\n    number: int = 1\n"
    app = load(modules, "app_double", extra=", unrouted=True", more=more)
    assert app.problems() == ["topic 'app_double.placed' is declared by Again and by Placed"]


def test_all_problems_are_told_at_once(modules: Path) -> None:
    """Whoever mends one need not start again to find the next."""
    more = "class Again(Event, topic='app_many.placed'):\n    number: int = 1\n"
    app = load(modules, "app_many", more=more)
    with pytest.raises(RegistrationError, match=r"nobody consumes 'app_many\.lost'.*; topic 'app_many\.placed'"):
        app.check()


def test_an_aggregate_that_is_no_field_is_refused() -> None:
    """A typo in `aggregate` is found where the class stands, with the fields there are."""
    with pytest.raises(
        RegistrationError, match="Sold names aggregate='order', which is no field of it: order_id, amount"
    ):

        class Sold(Event, topic="app.sold", aggregate="order"):
            order_id: int
            amount: int


def test_a_version_below_one_is_refused() -> None:
    """Versions are counted from 1."""
    with pytest.raises(RegistrationError, match="Sold has version=0: versions are counted from 1"):

        class Sold(Event, topic="app.sold", version=0):
            amount: int
