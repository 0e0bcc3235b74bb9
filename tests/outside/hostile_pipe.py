"""A hostile server of 2026-07-28 over standard input and output, which a client starts.

python3 hostile_pipe.py BEHAVIOUR REPORT: at its end it writes how many requests of each method have come to REPORT.
"""

import collections
import json
import sys
import threading

from hostile_server import DISCOVERED, TOOL

TIMES = {"createdAt": "2026-11-01T00:00:00Z", "lastUpdatedAt": "2026-11-01T00:00:00Z", "ttlMs": 60_000}

# The calls with which a benchmark begins, one after the other. They are answered.
FIRST = 20


class HostilePipe:
    def __init__(self, behaviour):
        self.behaviour = behaviour
        self.seen = collections.Counter()
        self.lock = threading.Lock()

    def send(self, value):
        with self.lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **value}) + "\n")
            sys.stdout.flush()

    def result(self, number, value):
        self.send({"id": number, "result": {"resultType": "complete", **value}})

    def task(self, number, name):
        task = {"taskId": name, "status": "working", "pollIntervalMs": 3_600_000, **TIMES}
        self.send({"id": number, "result": {"resultType": "task", **task}})

    def handle(self, message):
        method, number = message.get("method"), message.get("id")
        self.seen[method] += 1
        if number is None:
            return
        if method == "server/discover":
            capabilities = {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
            self.result(number, {**DISCOVERED, "capabilities": capabilities})
        elif method == "tools/list":
            self.result(number, {"tools": [TOOL], "ttlMs": 0, "cacheScope": "private"})
        elif method == "tools/call" and self.seen[method] > FIRST:
            self.behaviour(self, number)
        elif method == "tools/call":
            self.result(number, {"content": []})
        else:
            self.result(number, {})


def same_task(server, number):
    """All calls become the same task. When they have, there is a long notification about it."""
    server.task(number, "same")
    if server.seen["tools/call"] == FIRST + 256:
        task = {"taskId": "same", "status": "working", "statusMessage": "x" * (1 << 20), **TIMES}
        for _ in range(4):
            server.send({"method": "notifications/tasks", "params": task})


def late_tasks(server, number):
    """A call is answered when its time is over, again and again."""

    def repeat():
        for _ in range(1000):
            server.task(number, f"late-{number}")

    threading.Timer(1.3, repeat).start()


if __name__ == "__main__":
    pipe = HostilePipe({"same_task": same_task, "late_tasks": late_tasks}[sys.argv[1]])
    try:
        for line in sys.stdin:
            pipe.handle(json.loads(line))
    except BrokenPipeError:
        pass
    with open(sys.argv[2], "w", encoding="utf-8") as report:
        json.dump(pipe.seen, report)
