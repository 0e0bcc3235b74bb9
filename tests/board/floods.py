"""Floods of the board: peers that send too much, too large or invalid messages, or do not read. After each of them the
board still responds, and at the end its heap and its stack have never been full.

python3 floods.py IMAGE [REPORT [ROW...]]: writes the figures of the memory to REPORT. A ROW is the name of a function.
Exit status: 0 all rows hold, 1 one does not, 2 a row does not exist.
"""

import json
import pathlib
import queue
import random
import sys
import threading
import time

from emulator import Emulator, Image

# The limits in src/budget.rs.
FRAME, DEPTH, REQUESTS, BATCH = 2048, 16, 4, 2

# Longer than a row takes on a busy machine, in seconds. The emulator delivers some kilobytes in a second.
LONG = 180

PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS = -32700, -32600, -32602


class Failed(Exception):
    """A row does not hold."""


def check(holds, why):
    if not holds:
        raise Failed(why)


class Peer:
    """The other end of the serial line."""

    def __init__(self, emulator):
        self.emulator = emulator
        self.lines = []
        self.news = threading.Condition()
        self.may_read = threading.Event()
        self.may_read.set()
        self.number = 0
        self.has_ended = False
        self.outgoing = queue.Queue()
        for work in (self._read, self._write):
            threading.Thread(target=work, daemon=True).start()

    def _read(self):
        rest = b""
        while data := self.emulator.process.stdout.read(256):
            *lines, rest = (rest + data).split(b"\n")
            with self.news:
                self.lines += [decode(line) for line in lines if line]
                self.news.notify_all()
            self.may_read.wait()
        with self.news:
            self.has_ended = True
            self.news.notify_all()

    def _write(self):
        while True:
            try:
                self.emulator.write(self.outgoing.get())
            except (BrokenPipeError, ValueError):
                # The emulator has ended.
                return

    def send_bytes(self, data):
        """Sends bytes from another thread, since the board may hold them back."""
        self.outgoing.put(data)

    def send(self, *messages):
        self.send_bytes(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def wait(self, condition, why):
        """Waits until a condition on the lines holds, and returns its value."""
        end = time.monotonic() + LONG
        with self.news:
            while not (found := condition(self.lines)):
                check(not self.has_ended, f"the board has crashed: {self.last_words()}")
                check(self.news.wait(end - time.monotonic()), why)
            return found

    def response(self, number):
        """Waits for the response to a request."""

        def find(lines):
            return next((line for line in lines if isinstance(line, dict) and line.get("id") == number), None)

        return self.wait(find, f"no response to {number}")

    def responses(self, numbers):
        """Waits for one response to each of some requests, and returns them in the order of the requests."""
        wanted = set(numbers)
        found = self.wait(
            lambda lines: [line for line in lines if line.get("id") in wanted]
            if wanted <= {line.get("id") for line in lines}
            else None,
            f"not all of {len(wanted)} requests have a response",
        )
        check(len(found) == len(wanted), f"{len(found)} responses to {len(wanted)} requests")
        by_number = {line["id"]: line for line in found}
        return [by_number[number] for number in numbers]

    def last_words(self):
        """What the board has printed that is no message: the text of a panic."""
        return " ".join(line["text"] for line in self.lines if isinstance(line, dict) and "text" in line)

    def next(self):
        self.number += 1
        return self.number

    def forget(self):
        with self.news:
            self.lines.clear()

    def is_alive(self):
        """Begins a session, as a client does that was started again, and calls the tool."""
        number = self.begin("2025-11-25")
        self.send(call(self.next(), "still here"))
        check(text(self.response(self.number)) == "still here", "the tool does not work any more")
        return number

    def begin(self, version):
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "flood", "version": "1"}}
        number = self.next()
        self.send(request(number, "initialize", params))
        check("result" in self.response(number), "no session can be opened")
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return number


def decode(line):
    """A line of the board as a value."""
    try:
        return json.loads(line)
    except ValueError:
        return {"text": line.decode(errors="replace")}


def request(number, method, params=None):
    return {"jsonrpc": "2.0", "id": number, "method": method, **({"params": params} if params is not None else {})}


def call(number, message, millis=None, token=None):
    arguments = {"message": message, **({"ms": millis} if millis is not None else {})}
    meta = {"_meta": {"progressToken": token}} if token is not None else {}
    return request(number, "tools/call", {"name": "echo", "arguments": arguments, **meta})


def modern(number, method, params=None):
    prefix = "io.modelcontextprotocol/"
    meta = {
        prefix + "protocolVersion": "2026-07-28",
        prefix + "clientInfo": {"name": "flood", "version": "1"},
        prefix + "clientCapabilities": {},
    }
    return request(number, method, {**(params or {}), "_meta": meta})


def text(response):
    return response.get("result", {}).get("content", [{}])[0].get("text")


def code(response):
    return response.get("error", {}).get("code")


ROWS = []


def row(title):
    def register(play):
        ROWS.append((title, play))
        return play

    return register


@row("a request of 130 KB, more than the heap has, and a line without an end")
def long_line(peer):
    peer.send(call(number := peer.next(), "x" * 130_000))
    check(code(peer.response(number)) == INVALID_REQUEST, "the request is not refused")
    peer.send_bytes(b"x" * 20_000)
    peer.send_bytes(b"\n")


@row("20 requests of 4 KB each")
def large_requests(peer):
    peer.send(*(call(peer.next(), "x" * 2 * FRAME) for _ in range(20)))
    peer.send(request(last := peer.next(), "ping"))
    peer.response(last)
    refused = [line for line in peer.lines if code(line) is not None]
    check(len(refused) == 20, f"{len(refused)} of 20 were refused")


@row("20 calls with the largest message that fits, whose responses are as large")
def large_calls(peer):
    message = "y" * (FRAME - 200)
    numbers = [peer.next() for _ in range(20)]
    peer.send(*(call(number, message) for number in numbers))
    check(all(text(answer) == message for answer in peer.responses(numbers)), "a message was changed")


@row("16 calls of half a second with 1 KB each, 4 times as many as may be in flight")
def waiting_calls(peer):
    numbers = [peer.next() for _ in range(4 * REQUESTS)]
    message = "z" * (FRAME // 2)
    peer.send(*(call(number, message, 500, token=number) for number in numbers))
    check(all(text(answer) == message for answer in peer.responses(numbers)), "a message was changed")
    progress = sum(line.get("method") == "notifications/progress" for line in peer.lines)
    check(progress > 0, "no progress was reported")


@row("150 calls of a minute, with ids of 1,000 characters: together more than the heap has")
def endless_calls(peer):
    names = [f"{number:04}" + "i" * 996 for number in range(150)]
    peer.send(*(call(name, "never", 60_000) for name in names))
    # Reading pauses, since there is no room. Without any response it goes on after a time, and refuses what it reads.
    peer.wait(lambda lines: len(lines) >= 150 - REQUESTS, "the calls are neither held back nor refused")
    check(all(code(line) is not None for line in peer.lines), "a call has a response before its time")


@row("300 pings at once")
def pings(peer):
    numbers = [peer.next() for _ in range(300)]
    peer.send(*(request(number, "ping") for number in numbers))
    check(all("result" in answer for answer in peer.responses(numbers)), "a ping was refused")


@row("300 pings of a peer that begins to read after five seconds; the emulator and the pipe take some of the output")
def unread_pings(peer):
    peer.may_read.clear()
    numbers = [peer.next() for _ in range(300)]
    peer.send(*(request(number, "ping") for number in numbers))
    time.sleep(5)
    peer.may_read.set()
    check(all("result" in answer for answer in peer.responses(numbers)), "a ping was refused")


@row("100 calls that are cancelled at once, with ids of 1,000 characters")
def cancellations(peer):
    for number in range(100):
        name = f"{number:04}" + "i" * 996
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": name}}
        peer.send(call(name, "never", 60_000), cancelled)
    peer.send(call(last := peer.next(), "after"))
    check(text(peer.response(last)) == "after", "the calls still have their places")
    check(not any(text(line) == "never" for line in peer.lines), "a cancelled call has a response")


@row("arguments, params and messages that are nested 1,000 times")
def nested(peer):
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        deep = opening * 300 + "1" + closing * 300
        peer.send_bytes(f'{{"jsonrpc":"2.0","id":0,"method":"x","params":{deep}}}\n{deep}\n'.encode())
        peer.send_bytes(b"[" * 1000 + b"\n")
        allowed = opening * (DEPTH - 3) + "1" + closing * (DEPTH - 3)
        number = peer.next()
        arguments = f'{{"message":"deep","other":{allowed}}}'
        params = f'{{"name":"echo","arguments":{arguments}}}'
        peer.send_bytes(f'{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{params}}}\n'.encode())
        check(text(peer.response(number)) == "deep", "what is allowed was refused")
    refused = [line for line in peer.lines if code(line) is not None]
    check(len(refused) == 6, f"{len(refused)} of 6 were refused")


@row("500 lines that are no messages")
def noise(peer):
    lines = [b"{", b"7", b"{}", b'"a"', b"nothing", b'{"jsonrpc":"2.0","id":{},"method":7}']
    peer.send_bytes(b"\n".join(lines[number % len(lines)] for number in range(500)) + b"\n")


@row("30 KB of random bytes")
def random_bytes(peer):
    peer.send_bytes(random.Random(1).randbytes(30_000) + b"\n")


@row("30 KB of random changes to a call")
def random_changes(peer):
    source, sent = random.Random(2), bytearray()
    while len(sent) < 30_000:
        line = bytearray(json.dumps(call(0, "hello", 10, token=1)).encode())
        for _ in range(source.randrange(1, 4)):
            line[source.randrange(len(line))] = source.randrange(256)
        sent += line + b"\n"
    peer.send_bytes(sent)


@row("batches: two members, three, and 200 of each (2025-03-26)")
def batches(peer):
    peer.begin("2025-03-26")

    def batch(size):
        numbers = [peer.next() for _ in range(size)]
        return numbers, [request(number, "ping") for number in numbers]

    numbers, members = batch(BATCH)
    peer.send(members)
    peer.wait(lambda _: _batched(peer, numbers), "no response to a batch")
    _, members = batch(BATCH + 1)
    peer.send(members)
    peer.wait(lambda lines: any(code(line) == INVALID_REQUEST for line in _flat(lines)), "a batch is not refused")
    sent = [batch(size) for _ in range(50) for size in (BATCH, BATCH + 1)]
    peer.send(*(members for _, members in sent))
    last = sent[-2][0]
    peer.wait(lambda _: _batched(peer, last), "no response to the last batch")
    peer.send(request(number := peer.next(), "ping"))
    peer.response(number)
    peer.forget()


def _flat(lines):
    return [member for line in lines for member in (line if isinstance(line, list) else [line])]


def _batched(peer, numbers):
    return set(numbers) <= {line.get("id") for line in _flat(peer.lines)}


@row("50 clients that each begin a session and leave two calls behind")
def clients(peer):
    for _ in range(50):
        peer.send(call(peer.next(), "late", 60_000), call(peer.next(), "late", 60_000))
        peer.begin("2025-06-18")


@row("2026-07-28: 60 calls, 20 subscriptions, and descriptions of 1.5 KB that all differ")
def stateless(peer):
    numbers = [peer.next() for _ in range(60)]
    params = {"name": "echo", "arguments": {"message": "modern"}}
    peer.send(*(modern(number, "tools/call", params) for number in numbers))
    check(all(text(answer) == "modern" for answer in peer.responses(numbers)), "a call failed")
    listen = {"notifications": {"toolsListChanged": True}}
    peer.send(*(modern(peer.next(), "subscriptions/listen", listen) for _ in range(20)))
    answers = []
    for number in range(30):
        message = modern(peer.next(), "tools/call", params)
        message["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]["title"] = f"{number:4}" * 300
        peer.send(message)
        answers.append(peer.number)
    responses = peer.responses(answers)
    accepted = [answer for answer in responses if text(answer) == "modern"]
    refused = [answer for answer in responses if code(answer) is not None]
    check(len(accepted) + len(refused) == 30, f"{len(accepted)} accepted and {len(refused)} refused of 30")
    check(len(accepted) > 0, "all descriptions are refused")
    print(f"        {len(accepted)} accepted, {len(refused)} refused", flush=True)


def play(peer, title, function):
    """Plays a row. Returns whether it holds."""
    begin = time.monotonic()
    peer.forget()
    try:
        function(peer)
        peer.is_alive()
        check(not peer.last_words(), f"the board prints {peer.last_words()!r}")
    except Failed as failure:
        print(f"FAILED  {title}: {failure}", flush=True)
        return False
    print(f"ok      {title} ({time.monotonic() - begin:.0f} s)", flush=True)
    return True


def main():
    image, *rest = sys.argv[1:]
    report, *wanted = rest or [None]
    if unknown := set(wanted) - {function.__name__ for _, function in ROWS}:
        print(f"no such rows: {', '.join(sorted(unknown))}", file=sys.stderr)
        sys.exit(2)
    results = []
    with Emulator(Image(image)) as emulator:
        peer = Peer(emulator)
        peer.is_alive()
        for title, function in ROWS:
            if not wanted or function.__name__ in wanted:
                results.append(play(peer, title, function))
            if emulator.process.poll() is not None:
                break
        if emulator.process.poll() is None:
            figures = emulator.figures()
            for memory, used in (("heap", "heap_reached"), ("stack", "stack_peak")):
                holds = figures[used] < figures[memory]
                results.append(holds)
                state = "ok     " if holds else "FAILED "
                print(f"{state} {figures[used]:,} of {figures[memory]:,} bytes of the {memory} were used")
            if report:
                pathlib.Path(report).write_text(json.dumps(figures), encoding="utf-8")
        else:
            results.append(False)
            print("FAILED  the board has crashed")
    print(f"\n{sum(results)} passed, {len(results) - sum(results)} failed")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
