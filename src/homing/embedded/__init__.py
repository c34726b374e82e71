"""PostgreSQL and Valkey without Docker: servers from wheels, or from this machine, in a folder of yours."""

from homing.embedded.lifecycle import stop_with_parent
from homing.embedded.postgres import EmbeddedPostgres, fast_test_settings
from homing.embedded.servers import Servers, open_servers
from homing.embedded.valkey import EmbeddedValkey

__all__ = ["EmbeddedPostgres", "EmbeddedValkey", "Servers", "fast_test_settings", "open_servers", "stop_with_parent"]
