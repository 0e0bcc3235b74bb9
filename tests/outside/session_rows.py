"""Rows about sessions over HTTP: streams that are not read, break, and are resumed."""

import json
import time

from peer import OTHER, Closed, HttpServer, Session, get, initialize, message, post
from table import row

# The least buffer that the kernel gives, so that little of what is not read leaves the server.
WINDOW = 4096


def everything(programs):
    return HttpServer(programs.path("everything"))


def call(number, tool, arguments, has_token=True):
    params = {"name": tool, "arguments": arguments}
    if has_token:
        params["_meta"] = {"progressToken": number}
    return message(number, "tools/call", params)


def large(number, size):
    """A call that reports progress, so on an event stream, and whose result is as large as its argument."""
    return call(number, "slow_compute", {"seconds": 0.1, "label": "x" * size})


def first_id(connection):
    """Reads the head of an event stream and its first event, and returns its id."""
    status, headers = connection.head()
    if status != 200:
        raise Closed(f"status {status}")
    return next(connection.events(headers))[0]


def read_to_end(connection):
    """Reads an event stream to its end, or until it breaks. Returns pairs of id and data."""
    events = []
    status, headers = connection.head()
    if status != 200:
        return status, events
    try:
        events.extend(connection.events(headers))
    except (Closed, TimeoutError, OSError):
        pass
    return status, events


def steps_of(events):
    """The numbers of the progress notifications in events, and whether a result is there."""
    numbers, has_result = [], False
    for _, data in events:
        if data:
            found = json.loads(data)
            if found.get("method") == "notifications/progress":
                numbers.append(int(found["params"]["progress"]))
            has_result |= "result" in found
    return numbers, has_result


@row("A2", "6 streams of 8 MiB that are not read; then `ping` and an unknown method in the same session")
def requests_behind_unread(programs, checks):
    with everything(programs) as server:
        session = Session(server)
        unread = [session.begin(large(number, 8 << 20), WINDOW) for number in range(1, 7)]
        for connection in unread:
            connection.head()
        for number, method, wanted in ((20, "ping", b'"result"'), (21, "no/such/method", b"-32601")):
            begin = time.monotonic()
            answer = session.ask(message(number, method))
            checks.equals(f"{method}: status", answer.status, 200)
            checks.is_true(f"{method}: answered", wanted in answer.body)
            checks.at_most("seconds", time.monotonic() - begin, 30)


@row("A3", "a stream with an answer of 15 MiB, resumed 64 times with `Last-Event-ID` and never read")
def resumed_and_unread(programs, checks):
    with everything(programs) as server:
        session = Session(server)
        first = session.begin(large(1, 15 << 20), WINDOW)
        last = first_id(first)
        before = server.resident()
        resumed = [session.listen(last, WINDOW) for _ in range(64)]
        statuses = [connection.head()[0] for connection in resumed]
        time.sleep(1)
        checks.note("resumed", statuses.count(200))
        checks.at_most("MiB more", server.peak() - before, 100)
        # The last one that was accepted has the answer.
        checks.is_true("the session answers", b"result" in session.ask(message(2, "ping")).body)


@row("A10", "a stream of 8 MiB that is not read, resumed with `Last-Event-ID` on another connection")
def resumed_after_loss(programs, checks):
    with everything(programs) as server:
        session = Session(server)
        lost = session.begin(large(1, 8 << 20), WINDOW)
        last = first_id(lost)
        time.sleep(1)
        begin = time.monotonic()
        resumed = session.listen(last)
        status, events = read_to_end(resumed)
        checks.equals("status", status, 200)
        checks.is_true("the whole answer", any(len(data) > 8 << 20 for _, data in events))
        checks.is_true("ping is answered", b"result" in session.ask(message(2, "ping")).body)
        checks.at_most("seconds", time.monotonic() - begin, 15)


@row("A11", "2,000 calls whose stream is hung up on and that are cancelled; then each stream is resumed")
def cancelled_and_lost(programs, checks):
    with everything(programs) as server:
        session = Session(server)
        lasts = []
        for start in range(0, 2000, 100):
            numbers = range(start, start + 100)
            arguments = {"seconds": 10, "label": "x"}
            calling = [session.begin(call(number, "slow_compute", arguments)) for number in numbers]
            for number, connection in zip(numbers, calling):
                lasts.append(first_id(connection))
                connection.close()
                session.ask(message(None, "notifications/cancelled", {"requestId": number}))
        open_streams = 0
        for last in lasts[::100]:
            with session.listen(last) as resumed:
                status, headers = resumed.head()
                if status == 200:
                    resumed.socket.settimeout(2)
                    try:
                        list(resumed.events(headers))
                    except (TimeoutError, OSError):
                        open_streams += 1
        checks.equals("streams that stay open, of 20", open_streams, 0)
        checks.is_true("ping is answered", b"result" in session.ask(message(9999, "ping")).body)


@row("A12", "2025-03-26: a call with a stream and one without, cancelled by a notification in a batch")
def cancelled_in_batch(programs, checks):
    with everything(programs) as server:
        session = Session(server, version="2025-03-26")
        with_stream = session.begin(call(1, "slow_compute", {"seconds": 60, "label": "x"}))
        first_id(with_stream)
        without = session.begin(call(2, "test_slow", {"ms": 600_000}, has_token=False))
        # The request arrives before its cancellation.
        session.ask(message(3, "ping"))
        time.sleep(0.5)
        cancelled = [message(None, "notifications/cancelled", {"requestId": number}) for number in (1, 2)]
        checks.equals("status of the batch", session.ask("[" + ",".join(cancelled) + "]").status, 202)
        for what, connection in (("stream", with_stream), ("no stream", without)):
            begin = time.monotonic()
            connection.socket.settimeout(30)
            try:
                # The head of the stream was read before.
                chunks = {"transfer-encoding": "chunked"}
                rest = connection.response().body if what == "no stream" else b"".join(connection.pieces(chunks))
                checks.is_true(f"{what}: no result", b"result" not in rest)
            except Closed:
                pass
            except TimeoutError:
                checks.is_true(f"{what}: the exchange ends", False)
            checks.at_most("seconds to the end", time.monotonic() - begin, 5.0)


@row("A14", "a stream of 10 messages of which the replay buffer has lost the first, resumed from the start")
def gap_in_replay(programs, checks):
    with everything(programs) as server:
        session = Session(server)
        calling = session.begin(call(1, "slow_compute", {"seconds": 4, "label": "x"}))
        last = first_id(calling)
        calling.close()
        time.sleep(2)
        # Larger than the replay buffer, so that all before it is forgotten.
        read_to_end(session.begin(large(2, 2 << 20)))
        time.sleep(3)
        resumed = session.listen(last)
        resumed.socket.settimeout(10)
        status, headers = resumed.head()
        text = b"".join(resumed.pieces(headers)).decode()
        steps = [step for step in range(1, 11) if f"step {step} of 10" in text]
        checks.note("status", status)
        checks.note("steps", steps)
        # The stream may be refused. If it goes on behind the gap, a comment says how many messages are lost.
        gap = 10 - len(steps)
        announced = f": {gap} messages are not kept any more" in text
        checks.is_true("refused or announced", status >= 400 or (gap > 0 and announced))
        # Without a loss the stream is resumed.
        calling = session.begin(call(3, "slow_compute", {"seconds": 1, "label": "x"}))
        last = first_id(calling)
        calling.close()
        time.sleep(2)
        _, events = read_to_end(session.listen(last))
        numbers, has_result = steps_of(events)
        checks.equals("resumed without a loss: steps", len(numbers), 10)
        checks.is_true("result", has_result)


@row("A16", "16,384 sessions that are never used after `initialize`")
def abandoned_sessions(programs, checks):
    with everything(programs) as server:
        with server.connect() as connection:
            request = post(initialize())
            statuses = [connection.ask(request).status for _ in range(16_400)]
        checks.equals("begun", statuses.count(200), 16_400)
        checks.at_most("MiB", server.peak(), 150)


@row("S4", "2024-11-05: 24,000 `tools/list` in sessions of HTTP+SSE whose streams are not read, in each of 3 sessions")
def unread_old_stream(programs, checks):
    with everything(programs) as server:
        held, statuses = [], []
        for _ in range(3):
            stream = server.connect(window=WINDOW)
            held.append(stream)
            stream.send(get(path="/sse"))
            _, headers = stream.head()
            path = next(stream.events(headers))[1].decode()
            with server.connect(limit=2) as connection:
                connection.ask(post(initialize("2024-11-05"), path=path))
                connection.ask(post(message(None, "notifications/initialized"), path=path))
                # A request for which there is no room waits, and so do those behind it on this connection.
                try:
                    for start in range(0, 24_000, 400):
                        numbers = range(start, start + 400)
                        connection.send(b"".join(post(message(number, "tools/list"), path=path) for number in numbers))
                        statuses += [connection.response().status for _ in numbers]
                except (Closed, TimeoutError, OSError):
                    pass
        checks.note("accepted", statuses.count(202))
        # The outbox of a session has 64 MiB, and its buffer grows by doubling.
        checks.at_most("MiB", server.peak(), 400)
        begin = time.monotonic()
        with server.connect(OTHER) as connection:
            checks.equals("another client: initialize", connection.ask(post(initialize())).status, 200)
        checks.at_most("seconds", time.monotonic() - begin, 1.0)


@row("S9", "2025-11-25: 128 tasks that end at once, with 8 MiB of `_meta` each, in two sessions")
def ended_tasks(programs, checks):
    params = {"name": "slow_compute", "arguments": {"seconds": 0, "label": "x"}, "task": {"ttl": 3_600_000}}
    params["_meta"] = {"x": "x" * (8 << 20)}
    with everything(programs) as server:
        begun = 0
        for _ in range(2):
            session = Session(server)
            begun += sum(b"taskId" in session.ask(message(number, "tools/call", params)).body for number in range(64))
        checks.equals("tasks begun", begun, 128)
        checks.at_most("MiB", server.peak(), 250)
