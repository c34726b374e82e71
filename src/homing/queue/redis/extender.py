"""Renews leases from another thread, over a connection of its own that the event loop never touches."""

from collections.abc import Callable, Sequence
from typing import Any

from homing.errors import ConfigurationError, MissingExtraError, ServerUnavailable
from homing.queue.job import Lease
from homing.queue.port import Held
from homing.queue.redis.encoding import milliseconds
from homing.queue.redis.keys import QueueKeys
from homing.queue.redis.scripts import Script
from homing.queue.redis.url import RedisUrl

try:
    import redis
    from redis.backoff import NoBackoff
    from redis.exceptions import AuthenticationError, NoScriptError, RedisError
    from redis.retry import Retry
except ModuleNotFoundError as error:
    raise MissingExtraError("the Redis engine", "redis") from error


class RedisExtender:
    """One pipeline renews all leases; connects on first use and again after an error.

    `socket_timeout_seconds` bounds every step: the caller must hear of a silent server well within a lease.
    """

    def __init__(
        self, url: RedisUrl, keys_of: Callable[[str], QueueKeys], script: Script, *, socket_timeout_seconds: float
    ) -> None:
        self._label = url.label
        self._keys_of = keys_of
        self._script = script
        self._client = _client(url, socket_timeout_seconds)

    def extend(self, leases: Sequence[Lease], lease_seconds: float) -> list[Held]:
        """Renew each lease; a lease that is not ours is told apart by what the server holds instead."""
        try:
            renewed = self._renew(leases, lease_seconds)
            lost = [lease for lease, answer in zip(leases, renewed, strict=True) if answer != 1]
            verdicts = iter(self._what_became_of(lost))
        except AuthenticationError as error:
            raise ConfigurationError(f"{self._label} refuses the user or password of the URL: correct them") from error
        except (RedisError, OSError) as error:
            raise ServerUnavailable(f"{self._label} did not renew {len(leases)} lease(s): {error}") from error
        return [Held.HELD if answer == 1 else next(verdicts) for answer in renewed]

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _renew(self, leases: Sequence[Lease], lease_seconds: float) -> list[Any]:
        answers = self._send(leases, lease_seconds)
        if any(isinstance(answer, NoScriptError) for answer in answers):
            self._client.script_load(self._script.text)
            answers = self._send(leases, lease_seconds)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def _send(self, leases: Sequence[Lease], lease_seconds: float) -> list[Any]:
        duration = max(1, milliseconds(lease_seconds))
        pipeline = self._client.pipeline(transaction=False)
        for lease in leases:
            keys = self._keys_of(lease.queue).extend_lock(lease.job_id)
            pipeline.evalsha(self._script.sha, len(keys), *keys, lease.token, duration, lease.job_id)
        return list(pipeline.execute(raise_on_error=False))

    def _what_became_of(self, leases: Sequence[Lease]) -> list[Held]:
        if not leases:
            return []
        pipeline = self._client.pipeline(transaction=False)
        for lease in leases:
            keys = self._keys_of(lease.queue)
            pipeline.get(keys.lock(lease.job_id))
            pipeline.hexists(keys.part(lease.job_id), "finishedOn")
        answers = list(pipeline.execute())
        # Another token holds it, or nobody does and the job has ended: nothing is left for this run to change.
        return [
            Held.TAKEN if holder is not None or is_finished else Held.MISSING
            for holder, is_finished in zip(answers[::2], answers[1::2], strict=True)
        ]


def _client(url: RedisUrl, socket_timeout_seconds: float) -> "redis.Redis":
    terms: dict[str, Any] = {
        "db": url.db,
        "username": url.user,
        "password": url.password,
        "socket_timeout": socket_timeout_seconds,
        "socket_connect_timeout": socket_timeout_seconds,
        "retry": Retry(NoBackoff(), 0),  # the caller has a heartbeat of its own; hidden retries would outlive a lease
        "client_name": "homing-leases",
        "max_connections": 1,
        "protocol": 2,
    }
    if url.path is not None:
        return redis.Redis(unix_socket_path=url.path, **terms)
    if url.tls:
        terms |= {"ssl": True, "ssl_ca_certs": url.ca_file, "ssl_check_hostname": url.verify_tls}
        terms["ssl_cert_reqs"] = "required" if url.verify_tls else "none"
    return redis.Redis(host=url.host, port=url.port, **terms)
