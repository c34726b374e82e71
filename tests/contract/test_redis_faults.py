"""The Redis engine on bad days: lost replies, silence, restarts, a full server, the wrong server."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis import Redis

from homing.embedded import EmbeddedValkey, stop_with_parent
from homing.errors import ConfigurationError, ServerUnavailable, UnsuitableServer
from homing.ids import JobId
from homing.queue.job import ClaimedJob, JobTrace
from homing.queue.port import Accepted, Engine, Held, Refused
from homing.queue.redis import RedisEngine
from homing.queue.redis.scripts import Script, load_scripts
from tests.contract.conftest import KEEP, QUEUE, Subject, ask, job
from tests.contract.proxy import Command, Fault, TcpProxy
from tests.waiting import until

SCRIPTS = load_scripts()


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    """A server of one test's own, to be stopped and misconfigured."""
    with EmbeddedValkey(tmp_path_factory.mktemp("own")) as server:
        stop_with_parent(server)
        yield server


@asynccontextmanager
async def opened(url: str, *, silence_seconds: float = 5.0, allow_lossy: bool = False) -> AsyncIterator[Subject]:
    """An engine on a URL."""
    engine = RedisEngine(url, silence_seconds=silence_seconds, allow_lossy=allow_lossy)
    try:
        await engine.open()
        yield Subject(engine, url)
    finally:
        await engine.close()


@asynccontextmanager
async def through_proxy(
    server: EmbeddedValkey, *, silence_seconds: float = 5.0
) -> AsyncIterator[tuple[Subject, TcpProxy]]:
    """An engine that reaches a flushed server through a proxy, its scripts known to the server already."""
    with Redis.from_url(server.url()) as client:
        client.flushall()
        for script in (SCRIPTS.add_standard, SCRIPTS.move_to_active, SCRIPTS.move_to_finished, SCRIPTS.move_stalled):
            client.script_load(script.text)
    async with TcpProxy(server.port) as proxy:
        url = server.url().replace(f":{server.port}/", f":{proxy.port}/")
        async with opened(url, silence_seconds=silence_seconds) as subject:
            yield subject, proxy


def calls_of(script: Script) -> Callable[[Command], bool]:
    """Chooses calls of a script."""
    return lambda command: command[:2] == [b"EVALSHA", script.sha.encode()]


async def test_a_claim_whose_request_was_lost_is_repeated(disposable_server: EmbeddedValkey) -> None:
    """The call says that the server was unavailable; the next one connects again and gets the job."""
    async with through_proxy(disposable_server) as (subject, proxy):
        await subject.add("a")
        proxy.fault_at(calls_of(SCRIPTS.move_to_active), Fault.CUT_BEFORE)
        with pytest.raises(ServerUnavailable):
            await subject.engine.claim(QUEUE, ask())
        assert (await subject.claim()).starts == 1


async def test_a_claim_whose_reply_was_lost_is_rescued(disposable_server: EmbeddedValkey) -> None:
    """A job that was leased to nobody who knows comes back when the lease ends."""
    async with through_proxy(disposable_server) as (subject, proxy):
        await subject.add("a")
        proxy.fault_at(calls_of(SCRIPTS.move_to_active), Fault.CUT_AFTER)
        with pytest.raises(ServerUnavailable):
            await subject.engine.claim(QUEUE, ask(lease_seconds=0.05))
        assert await until(lambda: subject.engine.rescue(QUEUE, 0.01)) == ["a"]
        assert (await subject.claim()).stalls == 1


async def test_a_finish_whose_request_was_lost_is_repeated(disposable_server: EmbeddedValkey) -> None:
    """Repeating it finishes the job."""
    async with through_proxy(disposable_server) as (subject, proxy):
        await subject.add("a")
        claimed = await subject.claim()
        proxy.fault_at(calls_of(SCRIPTS.move_to_finished), Fault.CUT_BEFORE)
        with pytest.raises(ServerUnavailable):
            await subject.engine.complete(claimed, "1", mark="done", keep=KEEP, claim_next=None)
        again = await subject.engine.complete(claimed, "1", mark="done", keep=KEEP, claim_next=None)
        assert again.held is Held.HELD


async def test_a_finish_whose_reply_was_lost_took_effect(disposable_server: EmbeddedValkey) -> None:
    """Repeating it is told that the lease is missing; the job is finished with its mark."""
    async with through_proxy(disposable_server) as (subject, proxy):
        await subject.add("a")
        claimed = await subject.claim()
        proxy.fault_at(calls_of(SCRIPTS.move_to_finished), Fault.CUT_AFTER)
        with pytest.raises(ServerUnavailable):
            await subject.engine.complete(claimed, "1", mark="done", keep=KEEP, claim_next=None)
        again = await subject.engine.complete(claimed, "1", mark="done", keep=KEEP, claim_next=None)
        assert again.held is Held.MISSING
        assert await subject.engine.inspect(QUEUE, [JobId("a")]) == [
            JobTrace(exists=True, name="send", finished=True, mark="done")
        ]


async def test_a_bulk_add_cut_in_the_middle_is_repeated_whole(disposable_server: EmbeddedValkey) -> None:
    """An interrupted add concludes nothing; all of it again adds each job once."""
    async with through_proxy(disposable_server) as (subject, proxy):
        proxy.fault_at(lambda command: b'"37"' in command, Fault.CUT_AFTER)
        jobs = [job(f"j{n}", data=f'"{n}"') for n in range(100)]
        with pytest.raises(ServerUnavailable):
            await subject.engine.add(QUEUE, jobs)
        assert await subject.engine.add(QUEUE, jobs) == [Accepted.ACCEPTED] * 100
        assert (await subject.engine.counts(QUEUE)).waiting == 100


async def test_a_server_that_falls_silent_is_given_up(disposable_server: EmbeddedValkey) -> None:
    """A call without an answer fails in bounded time, with all calls in flight, and the next one connects anew."""
    async with through_proxy(disposable_server, silence_seconds=0.2) as (subject, proxy):
        await subject.add("a")
        proxy.fault_at(lambda command: command[0] == b"LLEN", Fault.HANG)
        calls = (subject.engine.counts(QUEUE), subject.engine.observe(QUEUE))
        failed = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 30)
        assert [type(error) for error in failed] == [ServerUnavailable, ServerUnavailable]
        assert "did not answer within 0.2 s" in str(failed[0])
        assert (await subject.engine.counts(QUEUE)).waiting == 1


async def test_an_interrupt_works_though_the_server_is_silent(disposable_server: EmbeddedValkey) -> None:
    """A worker that shuts down is not held by a server that says nothing any more."""
    async with through_proxy(disposable_server) as (subject, proxy):
        proxy.fault_at(lambda command: command[0] == b"CLIENT" and command[1] == b"UNBLOCK", Fault.HANG)
        waiting = asyncio.create_task(subject.engine.wait([QUEUE], 600.0))
        await until(lambda: _was_sent(proxy, b"BZPOPMIN"))
        await subject.engine.interrupt()
        assert await asyncio.wait_for(waiting, 20) is None


async def test_a_server_that_never_answers_fails_the_start() -> None:
    """A port that accepts and says nothing does not hang the start."""
    silent = await asyncio.start_server(_read_and_say_nothing, "127.0.0.1", 0)
    async with silent:
        port = silent.sockets[0].getsockname()[1]
        with pytest.raises(ServerUnavailable, match=r"did not answer within 0\.2 s"):
            async with asyncio.timeout(30), opened(f"redis://127.0.0.1:{port}", silence_seconds=0.2):
                pass


async def test_a_connection_that_breaks_right_behind_the_greeting_is_made_again() -> None:
    """What breaks in the moment it was made is not taken for a living connection."""
    greeted = 0

    async def greet_and_babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal greeted
        greeted += 1
        for request, answer in (
            (b"SETNAME", "+OK"),
            (b"TIME", "*2\r\n$1\r\n1\r\n$1\r\n1"),
            (b"INFO", "$0\r\n\r\n+babble"),
        ):
            await reader.readuntil(request)
            writer.write(answer.encode() + b"\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(greet_and_babble, "127.0.0.1", 0)
    async with server:
        engine = RedisEngine(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        for _ in range(3):
            with pytest.raises(ServerUnavailable):
                await engine.counts(QUEUE)
        assert greeted == 3
        await engine.close()


async def test_a_unix_socket_is_a_way_in(disposable_server: EmbeddedValkey, tmp_path: Path) -> None:
    """A server behind a socket in the file system is reached, database and password included."""
    with Redis.from_url(disposable_server.url()) as client:
        client.flushall()
    async with TcpProxy(disposable_server.port) as proxy:
        server = await asyncio.start_unix_server(proxy.serve, tmp_path / "s")
        password = disposable_server.url().partition("redis://:")[2].partition("@")[0]
        async with server, opened(f"unix://:{password}@{tmp_path}/s?db=3") as subject:
            await subject.add("a")
            assert [b"SELECT", b"3"] in proxy.commands
            assert (await subject.claim()).lease.job_id == "a"


async def test_a_host_name_that_cannot_be_is_a_mistake() -> None:
    """A name that no resolver takes is not waited for."""
    with pytest.raises(ConfigurationError, match="no valid host name"):
        async with opened("redis://a..b:6379"):
            pass


async def test_a_port_of_something_else_is_a_mistake_in_the_url() -> None:
    """An HTTP server is no Redis, and the error says so."""
    http = await asyncio.start_server(_speak_http, "127.0.0.1", 0)
    async with http:
        port = http.sockets[0].getsockname()[1]
        with pytest.raises(ConfigurationError, match="no Redis or Valkey server"):
            async with opened(f"redis://127.0.0.1:{port}"):
                pass


async def test_a_port_without_a_server_is_unavailable(unused_tcp_port: int) -> None:
    """Nobody listening is an outage, not a mistake."""
    with pytest.raises(ServerUnavailable, match="cannot connect"):
        async with opened(f"redis://127.0.0.1:{unused_tcp_port}"):
            pass


async def test_a_wrong_password_is_a_mistake_and_stays_secret(disposable_server: EmbeddedValkey) -> None:
    """The error names the remedy and not the password; so does a missing one."""
    for secret in ("wrong-secret@", ":@"):
        url = f"redis://:{secret.replace(':', '')}127.0.0.1:{disposable_server.port}"
        with pytest.raises(ConfigurationError, match="password") as raised:
            async with opened(url):
                pass
        assert "wrong-secret" not in str(raised.value)


async def test_a_restart_is_one_outage(own_server: EmbeddedValkey, caplog: pytest.LogCaptureFixture) -> None:
    """Calls fail while the server is away, succeed after it is back, and the log has one line for each."""
    caplog.set_level(logging.INFO)
    async with opened(own_server.url()) as subject:
        await subject.add("a")
        claimed = await subject.claim()
        before = await subject.engine.observe(QUEUE)
        own_server.stop()
        for _ in range(3):
            with pytest.raises(ServerUnavailable):
                await subject.engine.counts(QUEUE)
        own_server.start()
        assert await until(lambda: _waiting_or_active(subject.engine))
        assert (await subject.engine.complete(claimed, "1", mark=None, keep=KEEP, claim_next=None)).held is Held.HELD
        assert await subject.engine.observe(QUEUE) != before
    told = [record.levelno for record in caplog.records if record.name == "homing.queue.redis.connection"]
    assert told == [logging.WARNING, logging.INFO]


async def test_a_sleeping_wait_hears_of_an_outage(own_server: EmbeddedValkey) -> None:
    """A server that dies ends the wait with its error; the next wait works when it is back."""
    async with opened(own_server.url()) as subject:
        waiting = asyncio.create_task(subject.engine.wait([QUEUE], 30.0))
        await until(lambda: _is_blocked(own_server))
        own_server.kill()
        with pytest.raises(ServerUnavailable):
            await asyncio.wait_for(waiting, 20)
        own_server.start()
        await until(lambda: _can_add(subject))
        assert await subject.engine.wait([QUEUE], 5.0) == QUEUE


async def test_scripts_are_sent_again_when_the_server_forgot_them(disposable_server: EmbeddedValkey) -> None:
    """After SCRIPT FLUSH every kind of call goes on as if nothing had happened."""
    async with through_proxy(disposable_server) as (subject, _):
        extender = subject.engine.extender()
        with Redis.from_url(disposable_server.url()) as client:
            client.script_flush()
            await subject.add(*(f"j{n}" for n in range(10)))
            client.script_flush()
            claimed = await subject.claim()
            client.script_flush()
            assert await asyncio.to_thread(extender.extend, [claimed.lease], 30.0) == [Held.HELD]
            client.script_flush()
            finished = await subject.engine.complete(claimed, "1", mark=None, keep=KEEP, claim_next=ask())
            assert isinstance(finished.next, ClaimedJob)
            client.script_flush()
            assert await subject.engine.release(finished.next) is Held.HELD
            client.script_flush()
            assert await subject.engine.remove(QUEUE, JobId("j9"))
        await asyncio.to_thread(extender.close)


async def test_a_full_server_refuses_adds_and_lets_running_jobs_finish(own_server: EmbeddedValkey) -> None:
    """Out of memory is an outage for adds, so that nothing is parked or dropped; what runs may still end."""
    async with opened(own_server.url()) as subject:
        await subject.add("a")
        claimed = await subject.claim()
        with Redis.from_url(own_server.url()) as client:
            client.config_set("maxmemory", "1mb")
            with pytest.raises(ServerUnavailable, match="maxmemory"):
                await subject.engine.add(QUEUE, [job("b")])
            finished = await subject.engine.complete(claimed, "1", mark="done", keep=KEEP, claim_next=None)
            assert finished.held is Held.HELD
            client.config_set("maxmemory", "0")
        await subject.add("b")


async def test_a_server_that_may_evict_jobs_is_refused(
    own_server: EmbeddedValkey, caplog: pytest.LogCaptureFixture
) -> None:
    """An eviction policy is named with its remedy; forcing it leaves a warning."""
    with Redis.from_url(own_server.url()) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("appendonly", "no")
    with pytest.raises(UnsuitableServer, match=r"allkeys-lru.*noeviction"):
        async with opened(own_server.url()):
            pass
    async with opened(own_server.url(), allow_lossy=True) as subject:
        await subject.add("a")
    assert "allkeys-lru" in caplog.text
    assert "append-only" in caplog.text


async def test_a_replica_is_unavailable_until_it_leads(own_server: EmbeddedValkey) -> None:
    """A read-only server refuses calls as an outage, at start and later, and is used once it was promoted."""
    with Redis.from_url(own_server.url()) as client:
        async with opened(own_server.url()) as subject:
            client.replicaof("127.0.0.1", "1")
            with pytest.raises(ServerUnavailable, match="read-only"):
                await subject.engine.add(QUEUE, [job("a")])
            with pytest.raises(ServerUnavailable, match="read-only replica"):
                async with opened(own_server.url()):
                    pass
            client.execute_command("REPLICAOF", "NO", "ONE")
            await subject.add("a")


async def test_one_bad_job_does_not_disturb_its_neighbours(disposable_server: EmbeddedValkey) -> None:
    """An error reply belongs to its own call: a key of the wrong type refuses that job alone."""
    async with through_proxy(disposable_server) as (subject, _):
        with Redis.from_url(disposable_server.url()) as client:
            client.rpush(f"bull:{QUEUE}:b", "not a hash")
        answers = await subject.engine.add(QUEUE, [job("a"), job("b"), job("c")])
        assert answers[0] == answers[2] == Accepted.ACCEPTED
        assert isinstance(answers[1], Refused)
        assert "WRONGTYPE" in answers[1].error


async def test_closing_fails_what_is_in_flight_and_what_comes_later(disposable_server: EmbeddedValkey) -> None:
    """Nothing hangs on a closed engine."""
    async with through_proxy(disposable_server) as (subject, proxy):
        proxy.fault_at(lambda command: command[0] == b"LLEN", Fault.HANG)
        call = asyncio.create_task(subject.engine.counts(QUEUE))
        await until(lambda: _was_sent(proxy, b"LLEN"))
        await subject.engine.close()
        with pytest.raises(ServerUnavailable, match="closed"):
            await call
        with pytest.raises(ServerUnavailable, match="closed"):
            await subject.engine.counts(QUEUE)


async def test_a_cancelled_call_takes_its_reply_with_it(disposable_server: EmbeddedValkey) -> None:
    """The reply to a call that nobody awaits any more is not taken for the next one's."""
    async with through_proxy(disposable_server) as (subject, _):
        await subject.add("a")
        identity = await subject.engine.observe(QUEUE)
        cancelled = asyncio.create_task(subject.engine.counts(QUEUE))
        kept = asyncio.create_task(subject.engine.observe(QUEUE))
        await asyncio.sleep(0)
        cancelled.cancel()
        assert await kept == identity
        assert cancelled.cancelled()


async def test_the_extender_reports_a_silent_server(disposable_server: EmbeddedValkey) -> None:
    """A renewal without an answer fails within two seconds instead of outliving the lease."""
    async with through_proxy(disposable_server) as (subject, proxy):
        await subject.add("a")
        claimed = await subject.claim()
        proxy.fault_at(calls_of(SCRIPTS.extend_lock), Fault.HANG)
        extender = subject.engine.extender()
        with pytest.raises(ServerUnavailable, match="did not answer within 2 s"):
            await asyncio.wait_for(asyncio.to_thread(extender.extend, [claimed.lease], 30.0), 30)
        assert await asyncio.to_thread(extender.extend, [claimed.lease], 30.0) == [Held.HELD]
        await asyncio.to_thread(extender.close)


async def _read_and_say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def _speak_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    await writer.drain()
    writer.close()


async def _was_sent(proxy: TcpProxy, name: bytes) -> bool:
    return any(command[0] == name for command in proxy.commands)


async def _waiting_or_active(engine: Engine) -> bool:
    try:
        return (await engine.counts(QUEUE)).active == 1
    except ServerUnavailable:
        return False


async def _can_add(subject: Subject) -> bool:
    try:
        await subject.add("a")
    except ServerUnavailable:
        return False
    return True


async def _is_blocked(server: EmbeddedValkey) -> bool:
    with Redis.from_url(server.url()) as client:
        return bool(client.info("clients")["blocked_clients"])
