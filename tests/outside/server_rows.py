"""Rows against servers over HTTP without sessions, or about the number of sessions, tasks, threads and connections."""

import select
import socket
import struct
import time

from peer import ATTACKER, OTHER, TASKS, Closed, HttpServer, Session, get, initialize, message
from peer import modern_call, modern_params, modern_post, post
from table import row


def everything(programs, **options):
    return HttpServer(programs.path("everything"), **options)


def descending(count):
    """An object with members in descending order."""
    return "{" + ",".join(f'"{number:07}":0' for number in range(count, 0, -1)) + "}"


def honest(server, checks, limit=10.0, tool="test_simple_text"):
    """A call of a client at another address."""
    begin = time.monotonic()
    try:
        status = server.call(tool, {"name": "Ada", "message": "hello"}).status
    except (OSError, Closed) as error:
        status = type(error).__name__
    checks.equals("another client: status", status, 200)
    checks.at_most("another client: seconds", time.monotonic() - begin, limit)


ELICITATION = {"elicitation": {}}
# A tool that takes more arguments than it knows, and whose result has a state that is bound to all of them.
ASKING = "confirm_delete"


@row("S1", "`tools/call` (two tools) and `prompts/get` with 200,000 members in descending order, 2.4 MB each")
def digest_of_members(programs, checks):
    with everything(programs) as server:
        members = descending(200_000)
        prompt = modern_params(f'"name":"test_simple_prompt","arguments":{members}')
        requests = [
            modern_post(modern_call("test_simple_text", members), name="test_simple_text"),
            modern_post(modern_call(ASKING, '{"filename":"x",' + members[1:], ELICITATION), name=ASKING),
            modern_post(message(1, "prompts/get", prompt), method="prompts/get", name="test_simple_prompt"),
        ]
        for request, wanted in zip(requests, (b"content", b"requestState", b"jsonrpc")):
            with server.connect() as connection:
                checks.is_true("answered", wanted in connection.ask(request).body)
        honest(server, checks)
        checks.at_most("seconds of processors", server.seconds(), 5.0)


@row("S2", "`tools/call` (two tools) with 115 nested arrays around a text of 15 MB")
def digest_of_arrays(programs, checks):
    with everything(programs) as server:
        arguments = '{"name":"Ada","filename":"x","x":' + "[" * 115 + '"' + "x" * 15_000_000 + '"' + "]" * 115 + "}"
        for tool, wanted in (("greet", b"Hello, Ada"), (ASKING, b"requestState")):
            with server.connect() as connection:
                answer = connection.ask(modern_post(modern_call(tool, arguments, ELICITATION), name=tool))
            checks.is_true("answered", wanted in answer.body)
        checks.at_most("MiB", server.peak(), 150)
        checks.at_most("seconds of processors", server.seconds(), 5.0)


@row("S4", "1,024 calls with an answer of 3 MiB that is not read")
def unread_answers(programs, checks):
    request = modern_post(modern_call("greet", {"name": "x" * (3 << 20)}), name="greet")
    with everything(programs) as server:
        before = server.sockets()
        held = write_all(server, request, 1024, 20)
        honest(server, checks, tool="greet")
        checks.note("connections held", len(held))
        checks.at_most("MiB", server.peak(), 1536)
        # A connection ends 30 seconds after the system has taken the last byte of it, and the system may enlarge its
        # buffers once more in that time.
        deadline = time.monotonic() + 120
        while server.sockets() > before and time.monotonic() < deadline:
            time.sleep(0.2)
        checks.at_most("sockets in the end", server.sockets(), before)
        honest(server, checks, tool="greet")


def write_all(server, request, count, seconds):
    """Writes a request on many connections, as far as the server reads it, and reads nothing."""
    view = memoryview(request)
    rest = {}
    for _ in range(count):
        try:
            connection = server.connect(window=4096, limit=10)
        except OSError:
            break
        connection.socket.setblocking(False)
        rest[connection] = view
    held = dict(rest)
    deadline = time.monotonic() + seconds
    while rest and time.monotonic() < deadline:
        sockets = {connection.socket: connection for connection in rest}
        writable = select_writable(sockets)
        for connection in writable:
            try:
                sent = connection.socket.send(rest[connection][: 1 << 18])
                rest[connection] = rest[connection][sent:]
                if not rest[connection]:
                    del rest[connection]
            except BlockingIOError:
                pass
            except OSError:
                del rest[connection], held[connection]
    return list(held)


def select_writable(sockets):
    poll = select.poll()
    by_number = {number.fileno(): connection for number, connection in sockets.items()}
    for number in by_number:
        poll.register(number, select.POLLOUT)
    return [by_number[number] for number, _ in poll.poll(100)]


def has_ended(connection):
    """Whether the other side has ended a connection, without reading from it."""
    poll = select.poll()
    poll.register(connection.socket, select.POLLRDHUP)
    return bool(poll.poll(0))


@row("S4", "2,048 streams with GET of one client, in sessions of 8 streams")
def streams(programs, checks):
    with everything(programs) as server:
        held = []
        try:
            for number in range(2048):
                if number % 8 == 0:
                    session = Session(server)
                stream = session.listen()
                stream.head()
                held.append(stream)
        except (OSError, Closed):
            pass
        # Of 2,048 connections on a runtime, and 512 on threads, seven eighths.
        most = 448 if programs.adapter == "blocking" else 1792
        checks.at_most("streams held", len(held), most)
        checks.at_least("and", len(held), most - 64)
        honest(server, checks)
        with server.connect(OTHER) as connection:
            checks.equals("another client: initialize", connection.ask(post(initialize())).status, 200)


@row("S5, A16", "16,384 sessions of one client, each of them used after the handshake")
def sessions(programs, checks):
    with everything(programs) as server:
        with server.connect() as connection:
            for number in range(16_384):
                begun = connection.ask(post(initialize()))
                if begun.status != 200:
                    break
                headers = [f"mcp-session-id: {begun.headers['mcp-session-id']}"]
                connection.ask(post(message(None, "notifications/initialized"), headers))
                connection.ask(post(message(1, "ping"), headers))
            checks.note("sessions begun", number + 1)
            for who, source in (("the same client", ATTACKER), ("another client", OTHER)):
                with server.connect(source) as new:
                    checks.equals(f"{who}: initialize", new.ask(post(initialize())).status, 200)
        checks.at_most("MiB", server.peak(), 150)


@row("S9", "1,024 tasks of one client that run for a minute")
def tasks(programs, checks):
    with everything(programs) as server:
        call = modern_call("test_task", {"label": "x", "ms": 60_000}, TASKS)
        begun = 0
        with server.connect() as connection:
            for _ in range(1024):
                begun += b"taskId" in connection.ask(modern_post(call, name="test_task")).body
        checks.at_most("tasks begun", begun, 256)
        answer = server.call("test_task", {"label": "x", "ms": 10}, capabilities=TASKS)
        checks.is_true("another client begins a task", b"taskId" in answer.body)


@row("S10", "1,024 tasks of four clients that sleep")
def sleeping_tasks(programs, checks):
    with everything(programs) as server:
        before = server.threads()
        begun = 0
        for last in range(1, 5):
            with server.connect(f"127.0.0.{last}") as connection:
                call = modern_call("slow_compute", {"label": "x", "seconds": 60}, TASKS)
                for _ in range(256):
                    begun += b"taskId" in connection.ask(modern_post(call, name="slow_compute")).body
        checks.at_least("tasks begun", begun, 800)
        checks.at_most("threads more", server.threads() - before, 40)


@row("S11", "1,024 functions of one client that wait on their threads")
def functions(programs, checks):
    with everything(programs) as server:
        held = []
        try:
            for number in range(1024):
                if number % 31 == 0:
                    session = Session(server, capabilities={"elicitation": {}})
                params = {"name": "test_input_required_result_elicitation", "arguments": {}}
                held.append(session.begin(message(number, "tools/call", params)))
        except (OSError, Closed):
            pass
        checks.note("calls in flight", len(held))
        time.sleep(1)
        honest(server, checks, tool="greet")
        checks.at_most("threads", server.threads(), 1000)


@row("S15", "2,000 connections that are reset as soon as they are accepted")
def resets(programs, checks):
    with everything(programs) as server:
        for _ in range(2000):
            connection = server.connect()
            at_once = struct.pack("ii", 1, 0)
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            connection.close()
        honest(server, checks)
        checks.is_true("the server runs", server.is_running())


@row("S16", "100 silent connections to a server that may have 64 descriptors")
def descriptors(programs, checks):
    with everything(programs, descriptors=64) as server:
        held = [server.connect() for _ in range(100)]
        time.sleep(1)
        before = server.seconds()
        time.sleep(2)
        checks.at_most("seconds of processors in 2 s", server.seconds() - before, 0.2)
        honest(server, checks)
        for connection in held:
            connection.close()
        honest(server, checks)
        checks.is_true("the server runs", server.is_running())


@row("S18", "`GET /sse` of another site's page, and of none")
def old_stream_of_a_page(programs, checks):
    with everything(programs) as server:
        for who, headers, wanted in (
            ("cross-site", ["sec-fetch-site: cross-site"], 403),
            ("same-origin", ["sec-fetch-site: same-origin"], 200),
            ("no page", [], 200),
        ):
            with server.connect() as connection:
                connection.send(get(headers, path="/sse"))
                checks.equals(who, connection.head()[0], wanted)


@row("S18", "2,000 connections with a request each, without and with 400 idle ones")
def idle_connections(programs, checks):
    def cost(server):
        before = server.seconds()
        for _ in range(2000):
            with server.connect() as connection:
                connection.ask(get(path="/none"))
        return server.seconds() - before

    with everything(programs) as server:
        cost(server)
        alone = cost(server)
        held = [server.connect(OTHER) for _ in range(400)]
        beside = cost(server)
        checks.note("alone: seconds of processors", alone)
        checks.at_most("beside them", beside, round(1.5 * alone + 0.1, 1))
        checks.equals("idle", sum(not has_ended(connection) for connection in held), 400)


@row("A13", "an argument that is given twice, of which the header repeats the first")
def argument_twice(programs, checks):
    with everything(programs) as server:
        for region, arguments in (
            ("eu", '{"region":"eu","region":"us"}'),
            ("us", '{"region":"eu","region":"us"}'),
        ):
            headers = [f"mcp-param-region: {region}"]
            with server.connect() as connection:
                request = modern_call("test_header", arguments)
                answer = connection.ask(modern_post(request, name="test_header", headers=headers))
            checks.equals(f"header {region}: status", answer.status, 400)
        with server.connect() as connection:
            request = modern_call("test_header", '{"region":"eu"}')
            answer = connection.ask(modern_post(request, name="test_header", headers=["mcp-param-region: eu"]))
        checks.equals("given once: status", answer.status, 200)


@row("A17", "150 calls of 15 MiB at once, each for a minute")
def requests_in_flight(programs, checks):
    with everything(programs) as server:
        arguments = '{"ms":60000,"unused":"' + "x" * (15 << 20) + '"}'
        request = modern_post(modern_call("test_slow", arguments), name="test_slow")
        refused, held = 0, []
        for _ in range(150):
            connection = server.connect()
            held.append(connection)
            try:
                connection.send(request)
                connection.socket.settimeout(1 if not refused else 0.2)
                refused += connection.response().status == 503
            except TimeoutError:
                pass
            except (OSError, Closed):
                refused += 1
        checks.at_least("refused", refused, 150 - 256 // 15)
        checks.at_most("MiB", server.peak(), 1024)
        honest(server, checks)


SLOW = "64 silent connections, 64 with half a head, one with endless headers, 64 with half a body"


@row("—", SLOW)
def slow_requests(programs, checks):
    with everything(programs) as server:
        play_slow(server, checks)


@row("S17", SLOW + ", against axum", adapters=["tokio"])
def slow_requests_to_axum(programs, checks):
    with HttpServer(programs.path("axum"), arguments=["127.0.0.1:0"]) as server:
        play_slow(server, checks, "echo")


def play_slow(server, checks, tool="test_simple_text"):
    held = [server.connect() for _ in range(192)]
    for connection in held[64:128]:
        connection.send(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\nx: ")
    for connection in held[128:]:
        head, _, _ = post("{" + " " * 99).partition(b"{")
        connection.send(head + b"{")
    with server.connect() as endless:
        sent = 0
        try:
            endless.send(b"GET /mcp HTTP/1.1\r\nhost: localhost\r\n")
            while sent < 64 << 20:
                line = b"x-%d: " % sent + b"x" * 4096 + b"\r\n"
                endless.send(line)
                sent += len(line)
            status = "none"
        except OSError:
            status = "closed"
        checks.equals("endless headers", status, "closed")
        checks.at_most("MiB of headers", sent / (1 << 20), 8)
    honest(server, checks, tool=tool)
    begin = time.monotonic()
    ended = sum(connection.is_closed(max(0.1, begin + 45 - time.monotonic())) for connection in held)
    checks.equals("ended within 45 seconds", ended, 192)
    checks.at_most("MiB", server.peak(), 60)
