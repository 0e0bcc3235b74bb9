"""A server over HTTP, of 2026-07-28 or with sessions, that answers as a row wants it to."""

import json
import socket
import threading

DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "hostile", "version": "1"},
    "ttlMs": 0,
    "cacheScope": "private",
}
INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "hostile", "version": "1"},
}
TOOL = {"name": "t", "inputSchema": {"type": "object"}}


class Exchange:
    """A request of the client, and the ways to answer it."""

    def __init__(self, stream, verb, headers, body):
        self.stream, self.verb, self.headers, self.body = stream, verb, headers, body
        self.message = json.loads(body) if body else {}

    def send(self, data):
        self.stream.sendall(data)

    def answer(self, status, body=b"", media="application/json", headers=()):
        lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", f"content-type: {media}", *headers]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def result_text(self, text):
        """Answers with a result that is JSON already."""
        number = json.dumps(self.message["id"])
        self.answer("200 OK", ('{"jsonrpc":"2.0","id":' + number + ',"result":' + text + "}").encode())

    def result(self, value):
        self.result_text(json.dumps(value))

    def done(self):
        self.result({"resultType": "complete", "content": [{"type": "text", "text": "done"}]})

    def begin_events(self):
        self.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")

    def chunk(self, data):
        self.send(b"%x\r\n" % len(data) + data + b"\r\n")

    def end_chunks(self):
        self.send(b"0\r\n\r\n")


class HostileServer:
    """`answers` has a function for each method, and may have one for the verb GET."""

    def __init__(self, answers):
        self.answers = {
            "server/discover": lambda exchange: exchange.result(DISCOVERED),
            "initialize": lambda exchange: exchange.result(INITIALIZED),
            "tools/list": lambda exchange: exchange.result(
                {"resultType": "complete", "tools": [TOOL], "ttlMs": 0, "cacheScope": "private"}
            ),
            "tools/call": lambda exchange: exchange.done(),
            "GET": lambda exchange: exchange.answer("405 Method Not Allowed"),
            **answers,
        }
        self.requests = []
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(64)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/mcp"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                stream, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(stream,), daemon=True).start()

    def _serve(self, stream):
        # The client may hang up at any time.
        try:
            with stream, stream.makefile("rb") as reader:
                while self._serve_one(stream, reader):
                    pass
        except OSError:
            pass

    def _serve_one(self, stream, reader):
        first = reader.readline().split()
        if len(first) < 3:
            return False
        headers = {}
        while True:
            line = reader.readline()
            if line in (b"\r\n", b""):
                break
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        body = reader.read(int(headers.get("content-length", 0)))
        exchange = Exchange(stream, first[0].decode(), headers, body)
        self.requests.append(exchange)
        name = exchange.message.get("method") if exchange.verb == "POST" else exchange.verb
        answer = self.answers.get(name)
        if answer is None:
            exchange.answer("202 Accepted" if "id" not in exchange.message else "404 Not Found")
            return True
        return answer(exchange) is not False
