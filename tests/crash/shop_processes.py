"""The shop's processes for crash tests: started for one test, ended by their own pid."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from shop.config import ShopSettings

ROOT = Path(__file__).parents[2]
IN_A_HURRY = {"HOMING_LEASE": "2s", "HOMING_BEAT": "500ms", "HOMING_RESCUE": "500ms", "HOMING_LOG_FORMAT": "json"}
HOMING = str(Path(sys.executable).with_name("homing"))


def environment_of(settings: ShopSettings, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a process with these settings, and none of the developer's."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SHOP_", "HOMING_"))},
        "HOMING_HTTP_ADDRESS": "off",
        "DATABASE_URL": settings.database_url,
        "SHOP_GATEWAY_URL": settings.gateway_url,
        "SHOP_CARRIER_URL": settings.carrier_url,
        "SHOP_CARRIER_API_KEY": settings.carrier_api_key.get_secret_value(),
        "SHOP_SMTP_HOST": settings.smtp_host,
        "SHOP_SMTP_PORT": str(settings.smtp_port),
        "SHOP_REQUEST_TIMEOUT": str(settings.request_timeout),
        "SHOP_CHECKOUT_BUSY": str(settings.checkout_busy),
        "SHOP_CHECKOUT_EXPIRY": str(settings.checkout_expiry),
        **(more or {}),
    }


@contextmanager
def running(command: list[str], environment: Mapping[str, str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a process inside the block; whatever is left of it afterwards is killed."""
    with (
        log.open("ab") as output,
        subprocess.Popen(
            command, cwd=ROOT, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output, stderr=output
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


@dataclass(frozen=True)
class Workers:
    """Starts workers (relay included) on a test's servers; they end with the test."""

    environment: Mapping[str, str]
    log: Path
    stack: ExitStack

    def start(self, **changes: str) -> "subprocess.Popen[bytes]":
        """Start one, with some variables changed."""
        return self.stack.enter_context(running([HOMING, "worker"], {**self.environment, **changes}, self.log))
