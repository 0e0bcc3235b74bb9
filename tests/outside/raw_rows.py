"""Rows against servers on raw TCP sockets."""

import json
import time

from peer import ATTACKER, OTHER, Connection, initialize, message
from process import Program
from table import row


class RawServer(Program):
    """An example that serves raw TCP sockets, on a free port."""

    def __init__(self, programs):
        super().__init__([programs.path("everything"), "--tcp", "127.0.0.1:0"])
        host, _, port = self.first_error().removeprefix("at tcp://").partition(":")
        self.address = (host, int(port))

    def connect(self, source=ATTACKER):
        return Connection(self.address, source)


def tools(server, source=OTHER):
    """The names of the tools, as an honest client sees them, and the seconds that it took."""
    begin = time.monotonic()
    with server.connect(source) as connection:
        connection.send(initialize().encode() + b"\n")
        connection.reader.readline()
        lines = [message(None, "notifications/initialized"), message(1, "tools/list")]
        connection.send("".join(line + "\n" for line in lines).encode())
        line = connection.reader.readline()
        # Nothing comes if the connection was closed.
        names = [tool["name"] for tool in json.loads(line)["result"]["tools"]] if line else []
    return names, time.monotonic() - begin


@row("S3", "a `POST` as a browser sends it for a page, with lines of JSON-RPC that call a tool as its body")
def request_of_a_page(programs, checks):
    change = {"name": "test_trigger_tool_change", "arguments": {}}
    lines = [initialize(), message(None, "notifications/initialized"), message(1, "tools/call", change)]
    body = "".join(line + "\n" for line in lines).encode()
    with RawServer(programs) as server:
        head = [
            "POST / HTTP/1.1",
            f"Host: localhost:{server.address[1]}",
            "User-Agent: Mozilla/5.0",
            "Origin: https://evil.example",
            "Sec-Fetch-Site: cross-site",
            "Sec-Fetch-Mode: no-cors",
            "Content-Type: text/plain;charset=UTF-8",
            f"Content-Length: {len(body)}",
        ]
        with server.connect() as connection:
            connection.send("\r\n".join(head).encode() + b"\r\n\r\n" + body)
            checks.is_true("hung up within 5 s", connection.is_closed(5))
        names, _ = tools(server)
        checks.is_true("tools are listed", "greet" in names)
        checks.is_true("the tool did not run", "test_dynamic_tool" not in names)
        # The same lines do run if they are sent without the head.
        with server.connect() as connection:
            connection.send(body)
            while b'"id":1' not in connection.reader.readline():
                pass
        checks.is_true("it runs without the head", "test_dynamic_tool" in tools(server)[0])


@row("S6", "70 connections that say nothing, and 70 with the beginning of a message")
def silent_connections(programs, checks):
    with RawServer(programs) as server:
        held = [server.connect() for _ in range(140)]
        for connection in held[70:]:
            try:
                connection.send(b'{"jsonrpc":')
            except OSError:
                pass
        names, seconds = tools(server)
        checks.is_true("another client is served", "greet" in names)
        checks.at_most("seconds", seconds, 10)
        end = time.monotonic() + 45
        ended = sum(connection.is_closed(max(0.1, end - time.monotonic())) for connection in held)
        checks.equals("ended within 45 seconds", ended, 140)
        # Their places are free soon after they have ended.
        begin, names = time.monotonic(), []
        while "greet" not in names and time.monotonic() - begin < 20:
            try:
                names, _ = tools(server, ATTACKER)
            except OSError:
                time.sleep(0.05)
        checks.is_true("the same client is served", "greet" in names)
        checks.at_most("seconds until then", time.monotonic() - begin, 10)
