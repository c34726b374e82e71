"""What users may import, name by name, and what importing costs."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import homing

SURFACE = {
    "homing": {
        "FOREVER",
        "Child",
        "Children",
        "Deduplicate",
        "Event",
        "Flow",
        "FlowError",
        "Homing",
        "Job",
        "Keep",
        "Key",
        "PermanentError",
        "Provider",
        "Queue",
        "RateLimit",
        "Retry",
        "RetryLater",
        "SyncFlow",
        "Throttled",
        "Tick",
        "Transaction",
        "Unauthorized",
        "backoff",
        "once",
        "record",
    },
    "homing.app": {
        "DEFAULTS",
        "FOREVER",
        "Child",
        "Children",
        "Flow",
        "Guarantee",
        "Handler",
        "Homing",
        "Job",
        "Keep",
        "Options",
        "Parameter",
        "Policy",
        "Provider",
        "Queue",
        "RateLimit",
        "Retry",
        "SyncFlow",
        "Tick",
        "Transaction",
        "check_resources",
    },
    "homing.client": {
        "ANSWER_SECONDS",
        "Client",
        "Clients",
        "Data",
        "Deduplicate",
        "DirectEngine",
        "EnqueueOptions",
        "EventStream",
        "EventsMissed",
        "Handle",
        "JobCounts",
        "JobPage",
        "JobPolicy",
        "JobState",
        "ListedJob",
        "LogPage",
        "QueueEvent",
        "QueueTerms",
        "ShownJob",
        "Terms",
        "make_engine",
        "make_job",
        "read_options",
    },
    "homing.config": {"Retention", "SettingLine", "Settings", "load_settings"},
    "homing.dashboard": {"Access", "Dashboard", "Identity", "Role", "SignOn", "Users", "add_user"},
    "homing.deadletters": {
        "Campaign",
        "CampaignRunner",
        "Campaigns",
        "DeadLetters",
        "Death",
        "Edit",
        "ErrorReport",
        "Filter",
        "Kind",
        "Redrive",
        "Refusal",
        "Terms",
        "edit_payload",
        "group_letters",
        "group_newest_letters",
        "letter_histograms",
        "letter_history",
        "list_letters",
        "report_error",
        "report_text",
        "show_letter",
    },
    "homing.embedded": {
        "EmbeddedPostgres",
        "EmbeddedValkey",
        "Servers",
        "fast_test_settings",
        "open_servers",
        "stop_with_parent",
    },
    "homing.events": {
        "MAX_PAYLOAD_BYTES",
        "Envelope",
        "Event",
        "EventType",
        "aggregate_id",
        "check_json",
        "dump_json",
        "encode_payload",
        "foreign_id",
        "known_events",
        "seal",
        "unseal",
    },
    "homing.ledger": {"Asked", "Asking", "Decision", "Finding", "Ledger", "Row", "dead_mark", "decide", "find"},
    "homing.outbox": {"expect_ledger", "expected_ledger", "once", "record"},
    "homing.queue.redis": {"RedisEngine", "RedisUrl", "parse_url"},
    "homing.relay": {
        "Dispatcher",
        "Families",
        "Listener",
        "QueueWatch",
        "Relay",
        "Sweep",
        "Unroutable",
        "push_settings",
        "register",
    },
    "homing.schema": {"LedgerIdentity", "check_schema", "grants", "migrate", "script", "statements"},
    "homing.worker": {"Worker"},
}

MODULES_FOR_USERS = {
    "homing.asgi": {"TraceMiddleware"},
    "homing.backoff": {"Backoff", "capped", "exponential", "fixed"},
    "homing.durations": {"days", "hours", "milliseconds", "minutes", "seconds"},
    "homing.errors": {
        "AttemptTimeout",
        "ConfigurationError",
        "DuplicateDelivery",
        "EnqueueError",
        "FlowError",
        "HandlerEndedTransaction",
        "HomingError",
        "JobFailed",
        "JobGone",
        "MissingExtraError",
        "NewerPayloadError",
        "NotPermitted",
        "PayloadError",
        "PermanentError",
        "RecordError",
        "Refused",
        "RegistrationError",
        "ResultTimeout",
        "RetryLater",
        "SchemaError",
        "ServerUnavailable",
        "Throttled",
        "TransactionRequiredError",
        "Unauthorized",
        "UnknownId",
        "UnsuitableServer",
    },
    "homing.prune": {"prune"},
    "homing.http": {"error_from_response", "parse_retry_after"},
}

FOREIGN = {
    "redis",
    "hiredis",
    "bullmq",
    "msgpack",
    "sqlalchemy",
    "psycopg",
    "fastapi",
    "starlette",
    "httpx",
    "typer",
    "rich",
    "opentelemetry",
    "shop",
}
"""Packages that nobody pays for who does not use them."""

CHEAP = """
import sys, socket, threading, os
def refuse(*_, **__):
    raise AssertionError("a connection was made while importing")
socket.socket.connect = socket.socket.connect_ex = refuse
threads, files = threading.active_count(), len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
import NAMES
heavy = sorted({name.partition(".")[0] for name in sys.modules} & {HEAVY})
opened = len(os.listdir("/proc/self/fd")) - files if os.path.isdir("/proc/self/fd") else 0
print(heavy, threading.active_count() - threads, opened)
"""


@pytest.mark.parametrize("package", SURFACE)
def test_a_package_exports_exactly_its_list(package: str) -> None:
    """Adding or removing a public name is a decision: it shows up here."""
    module = importlib.import_module(package)
    assert set(module.__all__) == SURFACE[package]
    assert len(module.__all__) == len(set(module.__all__))
    for name in module.__all__:
        assert hasattr(module, name), name


def test_type_checkers_see_what_programs_get() -> None:
    """The stub names the same things, from the same places."""
    stub = ast.parse(Path(homing.__file__).with_suffix(".pyi").read_text())
    imported = [
        (node.module, name.name) for node in stub.body if isinstance(node, ast.ImportFrom) for name in node.names
    ]
    assert {name: home for home, name in imported} == vars(homing)["_HOMES"]
    (listed,) = [ast.literal_eval(node.value) for node in stub.body if isinstance(node, ast.Assign)]
    assert listed == homing.__all__
    for home, name in imported:
        assert getattr(homing, name) is getattr(importlib.import_module(str(home)), name)
    with pytest.raises(AttributeError, match="module 'homing' has no attribute 'Hommage'"):
        getattr(homing, "Hommage")  # noqa: B009 - type checkers know better
    assert set(dir(homing)) >= set(homing.__all__)


@pytest.mark.parametrize("name", MODULES_FOR_USERS)
def test_modules_for_users_keep_their_names(name: str) -> None:
    """The modules that guides import from have at least these names."""
    module = importlib.import_module(name)
    assert {wanted for wanted in MODULES_FOR_USERS[name] if not hasattr(module, wanted)} == set()


def test_the_tree_of_errors_is_closed() -> None:
    """Every error of Homing has one root, is in the list, and has words."""
    errors = importlib.import_module("homing.errors")
    found = {
        name: value for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)
    }
    assert set(found) == MODULES_FOR_USERS["homing.errors"]
    assert all(issubclass(value, errors.HomingError) and value.__doc__ for value in found.values())


@pytest.mark.parametrize(
    ("names", "heavy"),
    [
        ("homing", FOREIGN | {"asyncio", "pydantic", "asyncpg", "prometheus_client"}),
        ("homing.app, homing.client, homing.outbox", FOREIGN),
        ("homing.cli.main, homing.cli.health", FOREIGN - {"typer"} | {"asyncpg", "prometheus_client"}),
    ],
    ids=["homing alone", "all of its names", "a probe"],
)
def test_importing_is_cheap(names: str, heavy: set[str]) -> None:
    """What is not used is not loaded: no client, no framework; and no connection, thread or file is opened."""
    code = CHEAP.replace("NAMES", names).replace("HEAVY", ", ".join(map(repr, sorted(heavy))))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[] 0 0"
    assert done.stderr == ""
