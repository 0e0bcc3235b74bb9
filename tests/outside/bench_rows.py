"""Rows against the program `mcp`, a client on threads, whose benchmark has many calls in flight."""

import json
import pathlib
import sys
import tempfile
import threading
import time

from hostile_pipe import FIRST
from hostile_server import HostileServer
from process import Client
from table import row

HERE = pathlib.Path(__file__).parent


def bench(programs, target, calls, timeout, rounds=1):
    options = ["--quiet", "--era", "modern", "--timeout", timeout, "bench"]
    return Client([programs.mcp(), *options, "--calls", calls * rounds, "--concurrency", calls, target, "t"])


def play_pipe(programs, checks, behaviour, calls, timeout, rounds=1):
    """Plays a server of `hostile_pipe.py`. Returns the client, and how often each method came."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report"
        target = f"{sys.executable} {HERE / 'hostile_pipe.py'} {behaviour} {report}"
        with bench(programs, target, calls, timeout, rounds) as running:
            status = running.wait()
            checks.one_of("exit status", "none" if status is None else status, [0, 1, 3, 5])
            deadline = time.monotonic() + 10
            while not (report.exists() and report.read_text(encoding="utf-8")) and time.monotonic() < deadline:
                time.sleep(0.1)
            return running, json.loads(report.read_text(encoding="utf-8"))


@row("A7", "256 calls that all become one task, and 4 notifications of 1 MiB about it", adapters=["blocking"])
def one_task_of_many_calls(programs, checks):
    running, seen = play_pipe(programs, checks, "same_task", 256, 5)
    checks.at_least("calls", seen.get("tools/call", 0), FIRST + 256)
    checks.at_most("MiB", running.last_peak, 150)


@row(
    "A18",
    "48 calls that time out, and for each 1,000 late results that say that it is a task",
    adapters=["blocking"],
)
def late_tasks(programs, checks):
    running, seen = play_pipe(programs, checks, "late_tasks", 16, 1, 3)
    checks.at_least("calls", seen.get("tools/call", 0), FIRST + 48)
    checks.at_most("tasks/cancel", seen.get("tasks/cancel", 0), 48)
    checks.at_most("seconds of processors", running.last_seconds, 5.0)


@row("A17", "64 responses of 15 MiB at the same time, each without its last byte", adapters=["blocking"])
def unfinished_responses(programs, checks):
    taken, lock, calls = [0], threading.Lock(), [0]

    def hold(exchange):
        with lock:
            calls[0] += 1
            is_first = calls[0] <= FIRST
        if is_first:
            return exchange.done()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n[" % (15 << 20)
        piece = b" " * (1 << 16)
        try:
            exchange.send(head)
            for _ in range(15 * 16 - 1):
                exchange.send(piece)
                with lock:
                    taken[0] += len(piece)
            time.sleep(30)
        except OSError:
            pass
        return False

    with HostileServer({"tools/call": hold}) as server, bench(programs, server.url, 64, 10) as running:
        status = running.wait()
        checks.one_of("exit status", "none" if status is None else status, [0, 1, 3, 5])
        checks.at_least("calls", calls[0], FIRST + 64)
        checks.note("MiB taken", taken[0] >> 20)
        checks.at_most("MiB", running.last_peak, 400)
