"""What the web process and the domain may know: checked in a fresh interpreter, and in the source."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "shop"

_NO_CONNECTIONS = """
import asyncio, socket, sys
def refuse(*arguments, **_):
    raise AssertionError(f"a connection at import: {arguments}")
socket.socket.connect = socket.socket.connect_ex = socket.create_connection = refuse
asyncio.BaseEventLoop.create_connection = refuse
import shop.api
print("\\n".join(sys.modules))
"""


def test_importing_the_api_imports_no_handler_and_no_redis_and_opens_nothing() -> None:
    """The web process records events; it never loads a handler, the workers' app or a Redis client, and connects to nobody."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", _NO_CONNECTIONS],
        cwd=ROOT,
        env={"PATH": "", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    modules = ran.stdout.split()
    roots = {module.partition(".")[0] for module in modules}
    assert not {"redis", "hiredis", "bullmq", "msgpack"} & roots
    assert not [module for module in modules if module.startswith("shop.") and module.endswith(".handlers")]
    assert not {"shop.jobs", "homing.worker", "homing.relay", "homing.queue.redis"} & set(modules)
    assert "shop.orders.service" in modules


def _homing_imports(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] == "homing":
                yield from (f"{module}.{name.name}" for name in node.names)
            case ast.Import():
                yield from (name.name for name in node.names if name.name.partition(".")[0] == "homing")


_ERRORS = {"homing.PermanentError", "homing.RetryLater", "homing.Throttled", "homing.Unauthorized"}
_HTTP_ERRORS = {"homing.http.TransientHTTPError"}


@pytest.mark.parametrize(
    ("pattern", "allowed"),
    [
        ("*/order.py", {"homing.Event"}),
        ("events.py", {"homing.Event"}),
        ("money.py", set()),
        ("*/points.py", set()),
        ("*/port.py", set()),
        ("*/service.py", _ERRORS | _HTTP_ERRORS),
        ("*/repository.py", {"homing.record"}),
        ("*/checkouts.py", set()),
        (
            "*/handlers.py",
            {
                "homing.Transaction",
                "homing.Job",
                "homing.Flow",
                "homing.Child",
                "homing.Tick",
                "homing.durations.seconds",
            },
        ),
    ],
)
def test_each_kind_of_module_knows_as_much_of_homing_as_it_must(pattern: str, allowed: set[str]) -> None:
    """The domain knows events, services errors by meaning, repositories `record`, handlers the app; nothing else."""
    sources = list(SHOP.glob(pattern))
    assert sources
    assert {found for source in sources for found in _homing_imports(source)} <= allowed


def test_modules_meet_at_their_ports() -> None:
    """A module of the shop imports of another one only its port (and the wish, from which a checkout gets its id)."""
    modules = {"orders", "inventory", "payments", "notifications", "shipping", "loyalty"}
    for module in sorted(modules):
        for source in (SHOP / module).glob("*.py"):
            for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("shop."):
                    other, _, rest = node.module.removeprefix("shop.").partition(".")
                    assert other == module or other not in modules or rest == "port", f"{source}: {node.module}"
