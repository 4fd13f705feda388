"""Limits of bytes and of silence on one connection, without a server."""

import asyncio
import time
from collections import Counter

import pytest
import uvicorn
from uvicorn.server import ServerState

from transbeam.serving.server.connections.connection_limits import ConnectionLimits
from transbeam.serving.server.http_server.http1_protocol import LimitedProtocol

LIMITS = ConnectionLimits(
    line_bytes=100,
    head_bytes=300,
    headers=6,
    head_seconds=5.0,
    idle_seconds=10.0,
    unread_seconds=20.0,
)
BODY_SECONDS = 7.0


class Transport(asyncio.Transport):
    """Keeps what is written; a test takes it from there, or does not."""

    def __init__(self):
        super().__init__()
        self.sent = b""
        self.unsent = 0
        self.closing = self.aborted = self.paused = self.ended = False

    def write(self, data):
        self.sent += data

    def get_write_buffer_size(self):
        return self.unsent

    def close(self):
        self.closing = True

    def abort(self):
        self.closing = self.aborted = True

    def is_closing(self):
        return self.closing

    def can_write_eof(self):
        return True

    def write_eof(self):
        self.ended = True

    def pause_reading(self):
        self.paused = True

    def resume_reading(self):
        self.paused = False


async def application(scope, receive, send):
    """Answers with what it got of the request; `/held` when it is let."""
    body, more = b"", scope["path"] != "/unread"
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            scope["state"]["gone"].append(scope["path"])
            return
        body += message["body"]
        more = message["more_body"]
    if scope["path"] == "/held":
        await scope["state"]["let"].wait()
    names = b",".join(name for name, _ in scope["headers"])
    answer = scope["path"].encode() + b"|" + names + b"|" + body
    length = str(len(answer)).encode()
    start = {"type": "http.response.start", "status": 200}
    await send({**start, "headers": [(b"content-length", length)]})
    await send({"type": "http.response.body", "body": answer})


class Connection:
    def __init__(self):
        self.refused = Counter()
        self.state = {"gone": [], "let": asyncio.Event()}
        config = uvicorn.Config(application, log_config=None, lifespan="off", ws="none")
        self.protocol = LimitedProtocol(
            config,
            ServerState(),
            self.state,
            limits=LIMITS,
            body_seconds=BODY_SECONDS,
            refused=lambda reason: self.refused.update([reason]),
        )
        self.transport = Transport()
        self.protocol.connection_made(self.transport)
        self.began = time.monotonic()

    async def says(self, data):
        """Returns the new bytes of the response."""
        self.transport.sent = b""
        self.protocol.data_received(data)
        for _ in range(20):
            await asyncio.sleep(0)
        return self.transport.sent

    def look(self, seconds):
        self.protocol.look(self.began + seconds)


def connected(test):
    """Runs a test of a connection on a loop of its own."""

    def run(*arguments, **named):
        async def scene():
            await test(Connection(), *arguments, **named)

        asyncio.run(scene())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def status(answer):
    return int(answer.split()[1]) if answer else None


def request(path=b"/", *headers, host=b"Host: x"):
    lines = [b"GET " + path + b" HTTP/1.1", *([host] if host else []), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"


HEAD_OF = {  # a request that is at a limit with `room` bytes or headers
    "path": lambda room: request(b"/" + b"a" * (room - 1)),
    "header": lambda room: request(b"/", b"X: " + b"a" * (room - 3)),
    "all": lambda room: request(
        b"/", *[b"X: " + b"a" * 87] * 3, b"Y: " + b"a" * (room - 1 - 7 - 3 * 90 - 3)
    ),
    "number": lambda room: request(b"/", *[b"X: a"] * (room - 1)),
}
MOST = {"path": 100, "header": 100, "all": 300, "number": 6}
CODES = {"path": 414, "header": 431, "all": 431, "number": 431}
REASONS = {
    "path": "line_bytes",
    "header": "line_bytes",
    "all": "head_bytes",
    "number": "headers",
}


@pytest.mark.parametrize("kind", HEAD_OF)
@pytest.mark.parametrize("piece", [1, 7, 10_000])
def test_a_head_at_a_limit_and_one_beyond_it(kind, piece):
    async def send(data):
        connection = Connection()
        answer = b""
        for start in range(0, len(data), piece):
            answer += await connection.says(data[start : start + piece])
        return connection, answer

    async def scene():
        connection, answer = await send(HEAD_OF[kind](MOST[kind]))
        assert status(answer) == 200
        assert not connection.refused
        connection, answer = await send(HEAD_OF[kind](MOST[kind] + 1))
        assert status(answer) == CODES[kind]
        assert b"\r\nconnection: close\r\n" in answer
        assert b'"error": "' in answer
        assert connection.refused == {REASONS[kind]: 1}
        assert connection.transport.ended

    asyncio.run(scene())


ENDLESS = {
    "path": (b"GET /", b"a", 414),
    "header": (b"GET / HTTP/1.1\r\nX: ", b"a", 431),
    "header's name": (b"GET / HTTP/1.1\r\n", b"a", 431),
    "blanks": (b"GET / HTTP/1.1\r\nX:", b" ", 431),
    "empty lines": (b"", b"\r\n", 431),
    "headers": (b"GET / HTTP/1.1\r\n", b"a:\r\n", 431),
    "chunk extension": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        b"a",
        431,
    ),
    "trailer": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
        b"a",
        431,
    ),
    "trailers": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        b"a: b\r\n",
        431,
    ),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_what_has_no_end_is_refused_and_then_passed_over(kind):
    begin, more, code = ENDLESS[kind]

    async def scene():
        connection = Connection()
        answer, sent = await connection.says(begin), 0
        while not answer and sent < 2**20:
            answer = await connection.says(more * 1000)
            sent += len(more) * 1000
        assert status(answer) == code
        assert sent <= 2**16
        assert await connection.says(more * 1000) == b""
        assert sum(connection.refused.values()) == 1

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (request(host=b""), 400),
        (request(b"/", b"Host: y"), 400),
        (request(b"/", b"Host: x"), 400),
        (request(host=b"Host: a b"), 400),
        (request(host=b"Host: a/b"), 400),
        (request(host=b"Host:"), 200),
        (request(host=b"Host: [::1]:8501"), 200),
        (b"GET / HTTP/1.0\r\n\r\n", 200),
        (b"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        (request(b"/", b"Content-Length: 0", b"Content-Length: 0"), 400),
        (request(b"/", b"Content-Length: 0, 0"), 400),
        (request(b"/", b"Content-Length: +1"), 400),
        (request(b"/", b"Content-Length: 0", b"Transfer-Encoding: chunked"), 400),
        (request(b"/", b"Transfer-Encoding: chunked", b"Content-Length: 0"), 400),
        (request(b"/", b"Transfer-Encoding: gzip, chunked"), 501),
        (request(b"/", b"Transfer-Encoding: chunked, identity"), 400),
        (request(b"/", *[b"Transfer-Encoding: chunked"] * 2), 400),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nHost: x\n\n", 400),
        (request(b"/", b"X : y"), 400),
        (request(b"/", b"X: a\r\n folded"), 400),
        (request(b"/", b"X: \x00"), 400),
        (b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00 a TLS greeting", 400),
    ],
)
def test_what_two_servers_could_read_differently(data, code):
    @connected
    async def scene(connection):
        answer = await connection.says(data)
        assert status(answer) == code
        assert bool(connection.refused) is (code != 200)

    scene()


@connected
async def test_a_trailer_is_no_header(connection):
    head = request(b"/", b"Transfer-Encoding: chunked").replace(b"GET", b"POST")
    answer = await connection.says(head + b"1\r\na\r\n0\r\nAuthorization: x\r\n\r\n")
    assert answer.endswith(b"/|host,transfer-encoding|a")
    assert not connection.refused


UPGRADE = [b"Connection: Upgrade", b"Upgrade: h2c"]


@connected
async def test_what_is_behind_a_request_to_upgrade_is_the_next_one(connection):
    answer = await connection.says(request(b"/a", *UPGRADE) + request(b"/b"))
    assert b"/a|host,connection,upgrade|" in answer
    assert answer.endswith(b"/b|host|")


@connected
async def test_the_body_of_a_request_to_upgrade_is_not_the_next_one(connection):
    hidden = request(b"/hidden")
    length = b"Content-Length: %d" % len(hidden)
    answer = await connection.says(request(b"/a", *UPGRADE, length) + hidden)
    assert status(answer) == 400
    assert b"Upgrade is not spoken here" in answer
    assert b"hidden" not in answer


@connected
async def test_many_requests_at_once_are_answered_in_turn(connection):
    paths = [b"/%d" % number for number in range(2000)]
    await connection.says(b"".join(map(request, paths)))
    answer = None
    while answer != connection.transport.sent:
        answer = connection.transport.sent
        for _ in range(50):
            await asyncio.sleep(0)
    assert [a.split(b"|")[0] for a in answer.split(b"\r\n\r\n")[1:]] == paths
    assert not connection.transport.paused


@connected
async def test_while_one_is_answered_the_others_wait_unread(connection):
    assert await connection.says(request(b"/held")) == b""
    await connection.says(request(b"/next") * 2000)
    assert len(connection.protocol.pipeline) < 60
    assert connection.transport.paused
    connection.state["let"].set()
    for _ in range(200):
        await asyncio.sleep(0)
    assert connection.transport.sent.count(b"/next|host|") > 0


@connected
async def test_a_bad_request_does_not_answer_for_the_one_before_it(connection):
    assert await connection.says(request(b"/held") + request(host=b"")) == b""
    connection.state["let"].set()
    answer = await connection.says(b"ignored")
    first, second = answer.index(b"/held|host|"), answer.index(b" 400 ")
    assert status(answer) == 200
    assert first < second


@connected
async def test_a_body_that_breaks_ends_the_work_for_it(connection):
    head = request(b"/", b"Transfer-Encoding: chunked").replace(b"GET", b"POST")
    assert await connection.says(head + b"1\r\na\r\n") == b""
    assert status(await connection.says(b"no size\r\n")) == 400
    assert connection.state["gone"] == ["/"]


@connected
async def test_who_says_nothing_is_hung_up_on(connection):
    connection.look(LIMITS.head_seconds - 0.1)
    assert not connection.transport.closing
    connection.look(LIMITS.head_seconds + 0.1)
    assert connection.transport.closing
    assert connection.transport.sent == b""
    assert connection.refused == {"head_seconds": 1}


@connected
async def test_a_head_in_drops_is_not_waited_for(connection):
    await connection.says(b"GET / HTTP/1.1\r\nHo")
    connection.look(LIMITS.head_seconds + 0.1)
    assert status(connection.transport.sent) == 408
    assert connection.refused == {"head_seconds": 1}
    connection.look(time.monotonic() - connection.began + 1.2)
    assert connection.transport.aborted


@connected
async def test_a_connection_that_is_kept_without_a_request(connection):
    assert status(await connection.says(request())) == 200
    connection.look(LIMITS.idle_seconds - 0.1)
    assert not connection.transport.closing
    connection.look(LIMITS.idle_seconds + 0.1)
    assert connection.transport.closing
    assert not connection.refused


@pytest.mark.parametrize("drop", [b"\r\n", b"G"])
def test_a_drop_between_two_requests_begins_the_next(drop):
    @connected
    async def scene(connection):
        assert status(await connection.says(request())) == 200
        assert await connection.says(drop) == b""
        connection.look(LIMITS.head_seconds + 0.1)
        assert connection.refused == {"head_seconds": 1}

    scene()


@connected
async def test_the_rest_of_a_body_that_nobody_reads(connection):
    head = request(b"/unread", b"Content-Length: 100")
    assert status(await connection.says(head + b"a")) == 200
    await connection.says(b"a")
    connection.look(BODY_SECONDS - 0.1)
    assert not connection.transport.closing
    connection.look(BODY_SECONDS + 0.1)
    assert connection.transport.closing
    assert connection.refused == {"body_seconds": 1}


@connected
async def test_who_is_being_answered_is_not_hung_up_on(connection):
    assert await connection.says(request(b"/held")) == b""
    connection.look(1000.0)
    assert not connection.transport.closing


@connected
async def test_an_answer_that_nobody_reads_is_given_up(connection):
    await connection.says(request())
    connection.transport.unsent = 100
    connection.look(1.0)
    connection.look(20.9)
    assert not connection.transport.aborted
    connection.look(21.1)
    assert connection.transport.aborted
    assert connection.refused == {"unread_seconds": 1}


@connected
async def test_an_answer_that_is_read_slowly_is_not(connection):
    assert await connection.says(request(b"/held")) == b""
    for second in range(0, 200, 10):
        connection.transport.unsent = 1000 - second
        connection.look(float(second))
    assert not connection.transport.aborted


@connected
async def test_who_reads_nothing_is_given_up_when_closing_too(connection):
    await connection.says(request())
    connection.transport.unsent = 100
    connection.transport.close()
    connection.look(1.0)
    connection.look(30.0)
    assert connection.transport.aborted
