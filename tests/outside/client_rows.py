"""Rows against clients: a server that is hostile, and what its client takes and does."""

import json
import os
import pathlib
import socket
import sys
import tempfile
import time

from hostile_server import HostileServer
from process import Client
from table import row

KIB = 1 << 10


def client(programs, url, version="2026-07-28"):
    """A client that lists the tools of a server, and calls one."""
    context = {"toolCalls": [{"name": "t", "arguments": {}}]}
    environment = {
        **os.environ,
        "MCP_CONFORMANCE_CONTEXT": json.dumps(context),
        "MCP_CONFORMANCE_PROTOCOL_VERSION": version,
    }
    return Client([programs.path("conformance-client"), url], environment)


def is_ended(checks, running, limit=60):
    """Waits for a client. It may have failed, but it has to have ended, and not by a signal."""
    status = running.wait(limit)
    checks.one_of("exit status", "none" if status is None else status, [0, 1])


def listed(schema):
    """A `tools/list` with one tool of this schema."""
    tools = '[{"name":"t","inputSchema":' + schema + "}]"
    text = '{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":' + tools + "}"
    return {"tools/list": lambda exchange: exchange.result_text(text)}, len(text)


def schema(size, member):
    """A schema with a property of a long name, and many below it."""
    name, members = "a" * (size // 2), []
    count = 0
    while count < size // 2:
        members.append(member(len(members)))
        count += len(members[-1]) + 1
    below = ",".join(members)
    return '{"type":"object","properties":{"' + name + '":{"type":"object","properties":{' + below + "}}}}"


@row("A1", "`tools/list` of 529 KiB: a long name with annotated properties below it")
def annotated_schema(programs, checks):
    annotated = schema(529 * KIB, lambda number: f'"{number}":{{"type":"string","x-mcp-header":"{number}"}}')
    play_list(programs, checks, annotated)


@row("A1", "`tools/list` of 8 MiB: a long name with properties below it, without annotations")
def plain_schema(programs, checks):
    play_list(programs, checks, schema(8 << 20, lambda number: f'"{number}":{{}}'), 250)


def play_list(programs, checks, text, mebibytes=100):
    answers, size = listed(text)
    with HostileServer(answers) as server, client(programs, server.url) as running:
        is_ended(checks, running)
        checks.note("KiB", size // KIB)
        checks.at_most("MiB", running.last_peak, mebibytes)
        checks.at_most("seconds of processors", running.last_seconds, 5.0)


@row("A1", "`tools/list` with as many pages of 8 MiB as the client requests")
def endless_pages(programs, checks):
    pages = []

    def page(exchange):
        pages.append(None)
        tool = {"name": f"t{len(pages)}", "description": "x" * (8 << 20), "inputSchema": {"type": "object"}}
        cursor = f"c{len(pages)}"
        exchange.result(
            {"resultType": "complete", "tools": [tool], "nextCursor": cursor, "ttlMs": 0, "cacheScope": "private"}
        )

    with HostileServer({"tools/list": page}) as server, client(programs, server.url) as running:
        is_ended(checks, running)
        checks.at_most("pages", len(pages), 16)
        checks.at_most("MiB", running.last_peak, 250)


@row("A4", "a result of 1.3 MiB with `inputRequests` that are as many as fit")
def input_requests(programs, checks):
    def ask(exchange):
        asked = ",".join(f'"{number:07}":{{"method":"roots/list"}}' for number in range(39_000))
        exchange.result_text('{"resultType":"input_required","requestState":"s","inputRequests":{' + asked + "}}")

    with HostileServer({"tools/call": ask}) as server, client(programs, server.url) as running:
        is_ended(checks, running)
        calls = [exchange for exchange in server.requests if exchange.message.get("method") == "tools/call"]
        checks.equals("calls", len(calls), 1)
        checks.at_most("seconds of processors", running.last_seconds, 2.0)
        checks.at_most("MiB", running.last_peak, 100)


@row(
    "A8",
    "an event stream whose id has 15 MiB, then 2,000 chunks of one byte, then its end; and one with a short id",
)
def event_id(programs, checks):
    for size, least, most in ((10, 10, 10), (15 << 20, 0, 4 * KIB)):

        def stream(exchange):
            exchange.begin_events()
            # The client may refuse this at any point.
            try:
                exchange.chunk(b"id: " + b"z" * size + b"\nretry: 10\ndata:\n\n")
                for _ in range(2000):
                    exchange.chunk(b":")
                exchange.end_chunks()
            except OSError:
                pass
            return False

        with HostileServer({"tools/call": stream}) as server, client(programs, server.url, "2025-11-25") as running:
            is_ended(checks, running, 90)
            sent = max(len(exchange.headers.get("last-event-id", "")) for exchange in server.requests)
            checks.at_least("Last-Event-ID", sent, least)
            checks.at_most("bytes", sent, most)
            checks.at_most("seconds of processors", running.last_seconds, 5.0)
            checks.at_most("MiB", running.last_peak, 150)


@row("A15", "progress for the first round of a call, again and again while the second round is in flight")
def progress_of_the_first_round(programs, checks):
    begun = []

    def rounds(exchange):
        meta = exchange.message["params"]["_meta"]
        begun.append((time.monotonic(), meta.get("progressToken")))
        if len(begun) == 1:
            form = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
            params = {"message": "Really?", "requestedSchema": form}
            asked = {"q": {"method": "elicitation/create", "params": params}}
            return exchange.result({"resultType": "input_required", "requestState": "s", "inputRequests": asked})
        exchange.begin_events()
        progress = 0
        try:
            while time.monotonic() - begun[1][0] < 110:
                progress += 1
                params = {"progressToken": begun[0][1], "progress": progress}
                told = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
                exchange.chunk(b"data: " + json.dumps(told).encode() + b"\n\n")
                time.sleep(5)
        except OSError:
            pass
        return False

    with HostileServer({"tools/call": rounds}) as server, client(programs, server.url) as running:
        is_ended(checks, running, 120)
        checks.equals("rounds", len(begun), 2)
        checks.is_true("tokens differ", len({token for _, token in begun}) == 2)
        # The timeout of a call without progress is 60 seconds.
        checks.at_most("seconds after the second round", time.monotonic() - begun[-1][0], 80)


@row("—", "responses with endless headers, and with an endless body")
def endless_responses(programs, checks):
    for what, head in (
        ("headers", b"HTTP/1.1 200 OK\r\n"),
        ("body", b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99999999999\r\n\r\n["),
    ):
        sent = []

        def endless(exchange):
            try:
                exchange.send(head)
                for number in range(64 << 4):
                    piece = b"x-%d: " % number + b"x" * (64 * KIB) + b"\r\n"
                    exchange.send(piece)
                    sent.append(len(piece))
            except OSError:
                pass
            return False

        with HostileServer({"tools/call": endless}) as server, client(programs, server.url) as running:
            is_ended(checks, running, 90)
            checks.at_most(f"MiB of the {what} taken", sum(sent) / (1 << 20), 40)
            checks.at_most("MiB", running.last_peak, 100)


@row("S13", "a server as a child process, of a client with secrets in its environment")
def environment_of_children(programs, checks):
    with tempfile.TemporaryDirectory() as folder:
        found = pathlib.Path(folder) / "environment"
        script = f"import os; open({str(found)!r}, 'w').write('\\n'.join(os.environ))"
        environment = {**os.environ, "AWS_SECRET_ACCESS_KEY": "s3cr3t", "GITHUB_TOKEN": "s3cr3t"}
        with Client([programs.path("tour"), sys.executable, "-c", script], environment) as running:
            is_ended(checks, running)
        names = set(found.read_text(encoding="utf-8").split("\n"))
    # Python sets LC_CTYPE itself, where no locale is set.
    passed = names - {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LC_CTYPE"}
    checks.equals("others than the six that are passed", ", ".join(sorted(passed)) or "none", "none")


@row("S14", "a URL with a secret in its query: no server, and a server that refuses")
def secret_in_the_url(programs, checks):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{unused.getsockname()[1]}/mcp"
        with client(programs, closed + "?key=s3cr3t") as running:
            is_ended(checks, running)
            checks.equals("no server: secrets printed", running.texts().count("s3cr3t"), 0)
            checks.at_least("lines", len(running.texts().splitlines()), 1)
    for status in ("500 Internal Server Error", "401 Unauthorized", "307 Temporary Redirect"):
        elsewhere = ["location: http://127.0.0.2:1/mcp"]
        refuse = {"server/discover": lambda exchange: exchange.answer(status, headers=elsewhere)}
        with HostileServer(refuse) as server, client(programs, server.url + "?key=s3cr3t") as running:
            is_ended(checks, running)
            checks.equals(f"{status[:3]}: secrets printed", running.texts().count("s3cr3t"), 0)
