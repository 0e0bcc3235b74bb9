"""A peer in plain sockets: requests as bytes, responses as they come, and the messages of MCP."""

import json
import socket

from process import LONG, Program

ATTACKER = "127.0.0.1"
OTHER = "127.0.0.2"

MODERN = "2026-07-28"
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


class Closed(Exception):
    """The connection was closed where more had to come."""


class Response:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def text(self):
        return self.body.decode(errors="replace")


class Connection:
    """A connection over TCP. `window` bounds what the kernel keeps of bytes that are not read."""

    def __init__(self, address, source=ATTACKER, window=None, limit=LONG):
        self.socket = socket.socket()
        if window:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        self.socket.bind((source, 0))
        self.socket.settimeout(limit)
        self.socket.connect(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.reader.close()
        self.socket.close()

    def send(self, request):
        self.socket.sendall(request)

    def head(self):
        """Reads a status and headers. Names of headers are in lower case."""
        first = self.reader.readline()
        if not first:
            raise Closed("no response")
        headers = {}
        while True:
            line = self.reader.readline()
            if not line:
                raise Closed("half a head")
            if line == b"\r\n":
                return int(first.split()[1]), headers
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()

    def pieces(self, headers):
        """Reads a body piece by piece."""
        if "transfer-encoding" not in headers:
            length = int(headers.get("content-length", 0))
            body = self.reader.read(length)
            if len(body) < length:
                raise Closed("half a body")
            yield body
            return
        while True:
            line = self.reader.readline()
            if not line:
                raise Closed("half a body")
            size = int(line, 16)
            piece = self.reader.read(size + 2)
            if len(piece) < size + 2:
                raise Closed("half a chunk")
            if size == 0:
                return
            yield piece[:-2]

    def events(self, headers):
        """Reads server-sent events, as pairs of id and data."""
        rest = b""
        for piece in self.pieces(headers):
            rest += piece
            while b"\n\n" in rest:
                event, _, rest = rest.partition(b"\n\n")
                fields = {}
                for line in event.split(b"\n"):
                    name, _, value = line.partition(b":")
                    fields[name.decode()] = value.strip()
                yield fields.get("id", b"").decode(), fields.get("data", b"")

    def response(self):
        status, headers = self.head()
        return Response(status, headers, b"".join(self.pieces(headers)))

    def ask(self, request):
        self.send(request)
        return self.response()

    def is_closed(self, limit):
        """Whether the other side closes within a time. What comes before that is thrown away."""
        self.socket.settimeout(limit)
        try:
            while self.socket.recv(1 << 16):
                pass
            return True
        except TimeoutError:
            return False
        except OSError:
            return True


def post(body, headers=(), path="/mcp"):
    body = body if isinstance(body, bytes) else body.encode()
    lines = [
        f"POST {path} HTTP/1.1",
        "host: localhost",
        "content-type: application/json",
        "accept: application/json, text/event-stream",
        f"content-length: {len(body)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def get(headers=(), path="/mcp", accept="text/event-stream"):
    lines = [f"GET {path} HTTP/1.1", "host: localhost", f"accept: {accept}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def message(number, method, params=None):
    """A request; `params` may be JSON that is written already. Without a number it is a notification."""
    parts = ['"jsonrpc":"2.0"']
    if number is not None:
        parts.append(f'"id":{json.dumps(number)}')
    parts.append(f'"method":{json.dumps(method)}')
    if params is not None:
        parts.append('"params":' + (params if isinstance(params, str) else json.dumps(params)))
    return "{" + ",".join(parts) + "}"


def modern_params(members, capabilities=None):
    """The params of 2026-07-28. `members` is the JSON of further members, without braces."""
    meta = json.dumps({VERSION: MODERN, CAPABILITIES: capabilities or {}})
    return "{" + members + ("," if members else "") + f'"_meta":{meta}' + "}"


def modern_call(tool, arguments, capabilities=None, number=1):
    """A `tools/call` of 2026-07-28; `arguments` may be JSON that is written already."""
    arguments = arguments if isinstance(arguments, str) else json.dumps(arguments)
    params = modern_params(f'"name":{json.dumps(tool)},"arguments":{arguments}', capabilities)
    return message(number, "tools/call", params)


def modern_post(text, method="tools/call", name=None, headers=()):
    all_headers = [f"mcp-protocol-version: {MODERN}", f"mcp-method: {method}", *headers]
    if name:
        all_headers.append(f"mcp-name: {name}")
    return post(text, all_headers)


def initialize(version="2025-11-25", capabilities=None, number=0):
    info = {"name": "outside", "version": "1"}
    params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": info}
    return message(number, "initialize", params)


class HttpServer(Program):
    """An example of a server, over HTTP, on a free port."""

    def __init__(self, program, descriptors=None, arguments=("--http", "127.0.0.1:0")):
        super().__init__([program, *arguments], descriptors=descriptors)
        line = self.first_error()
        host, _, port = line.removeprefix("at http://").removesuffix("/mcp").partition(":")
        if not line.startswith("at http://"):
            raise RuntimeError(f"no address: {line}")
        self.address = (host, int(port))

    def connect(self, source=ATTACKER, window=None, limit=LONG):
        return Connection(self.address, source, window, limit)

    def call(self, tool, arguments, source=OTHER, capabilities=None):
        """Calls a tool in 2026-07-28, on a connection of its own."""
        with self.connect(source) as connection:
            request = modern_call(tool, arguments, capabilities)
            return connection.ask(modern_post(request, name=tool))


class Session:
    """A session over HTTP. `connection` carries the requests that wait for nothing else."""

    def __init__(self, server, source=ATTACKER, version="2025-11-25", capabilities=None):
        self.server, self.source, self.version = server, source, version
        self.connection = server.connect(source)
        begun = self.connection.ask(post(initialize(version, capabilities)))
        if begun.status != 200:
            raise Closed(f"no session: {begun.status}")
        self.id = begun.headers["mcp-session-id"]
        self.ask(message(None, "notifications/initialized"))

    def headers(self):
        return [f"mcp-session-id: {self.id}", f"mcp-protocol-version: {self.version}"]

    def ask(self, text):
        return self.connection.ask(post(text, self.headers()))

    def begin(self, text, window=None):
        """Sends a request on a connection of its own, and reads nothing."""
        connection = self.server.connect(self.source, window)
        connection.send(post(text, self.headers()))
        return connection

    def listen(self, last=None, window=None):
        """Opens a stream, or resumes one behind an event."""
        connection = self.server.connect(self.source, window)
        resumed = [f"last-event-id: {last}"] if last else []
        connection.send(get(self.headers() + resumed))
        return connection
