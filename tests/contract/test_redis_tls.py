"""TLS to the server: whom it trusts, whom it does not, and a server that asks who we are."""

import asyncio
import secrets
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from homing.embedded import EmbeddedValkey
from homing.errors import ConfigurationError, ServerUnavailable
from homing.queue.redis import RedisEngine
from tests.contract.conftest import Subject


class Authority:
    """A certificate authority, its file, and the certificates that it signed."""

    def __init__(self, folder: Path) -> None:
        self.ca = trustme.CA()
        self.file = folder / "ca.pem"
        self.ca.cert_pem.write_to_path(str(self.file))
        self._folder = folder

    def server_context(self, host: str, *, asks: bool = False) -> ssl.SSLContext:
        """The terms of a server called `host`, which may ask for a certificate of this authority."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.ca.issue_cert(host).configure_cert(context)
        if asks:
            context.verify_mode = ssl.CERT_REQUIRED
            self.ca.configure_trust(context)
        return context

    def client_files(self) -> str:
        """The options of a URL that name a client's certificate and key."""
        issued = self.ca.issue_cert("worker@shop")
        cert, key = self._folder / "worker.pem", self._folder / "worker.key"
        issued.cert_chain_pems[0].write_to_path(str(cert))
        issued.private_key_pem.write_to_path(str(key))
        return f"ssl_certfile={cert}&ssl_keyfile={key}"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority of this test's own."""
    return Authority(tmp_path)


@asynccontextmanager
async def behind_tls(server: EmbeddedValkey, context: ssl.SSLContext) -> AsyncIterator[Callable[[str], str]]:
    """A TLS port in front of the server; gives what makes a URL of it, with options."""
    passing: set[asyncio.Task[None]] = set()
    front = await asyncio.start_server(
        lambda reader, writer: passing.add(asyncio.ensure_future(_pass(server.port, reader, writer))),
        "127.0.0.1",
        0,
        ssl=context,
    )
    password = server.url().partition("@")[0].rpartition(":")[2]
    port = front.sockets[0].getsockname()[1]
    async with front:
        yield lambda options: f"rediss://:{password}@localhost:{port}/0?{options}"
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)


async def _pass(port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass  # the other side has hung up: so do we
    finally:
        writer.close()


async def working(url: str) -> None:
    """Add a job over the URL and claim it."""
    engine, queue = RedisEngine(url), f"tls-{secrets.token_hex(4)}"
    try:
        await engine.open()
        subject = Subject(engine, url)
        await subject.add("over-tls", queue=queue)
        assert (await subject.claim(queue=queue)).lease.job_id == "over-tls"
    finally:
        await engine.close()


async def test_a_trusted_server_is_used(disposable_server: EmbeddedValkey, authority: Authority) -> None:
    """The authority is named in the URL; or trust is waived there."""
    async with behind_tls(disposable_server, authority.server_context("localhost")) as url:
        await working(url(f"ssl_ca_certs={authority.file}"))
        await working(url("ssl_cert_reqs=none"))


@pytest.mark.parametrize("host", ["localhost", "elsewhere.test"])
async def test_a_server_that_is_not_trusted_gets_no_password(
    disposable_server: EmbeddedValkey, authority: Authority, host: str
) -> None:
    """A certificate of an unknown authority, or of another host, is a mistake in the URL with its remedy."""
    options = "" if host == "localhost" else f"ssl_ca_certs={authority.file}"
    async with behind_tls(disposable_server, authority.server_context(host)) as url:
        with pytest.raises(ConfigurationError, match="is not trusted"):
            await working(url(options))


async def test_a_server_may_ask_who_we_are(disposable_server: EmbeddedValkey, authority: Authority) -> None:
    """With the certificate of the URL it lets us in, without one it hangs up."""
    trust = f"ssl_ca_certs={authority.file}"
    async with behind_tls(disposable_server, authority.server_context("localhost", asks=True)) as url:
        await working(url(f"{trust}&{authority.client_files()}"))
        with pytest.raises(ServerUnavailable):
            await working(url(trust))


async def test_a_file_that_is_no_certificate_is_a_mistake(authority: Authority, tmp_path: Path) -> None:
    """The file is named."""
    (tmp_path / "empty.pem").write_text("")
    with pytest.raises(ConfigurationError, match=r"cannot read the certificates.*empty\.pem"):
        await working(f"rediss://localhost:1?ssl_ca_certs={authority.file}&ssl_certfile={tmp_path / 'empty.pem'}")
