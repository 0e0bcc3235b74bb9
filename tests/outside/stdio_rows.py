"""Rows against servers over standard input and output."""

import json
import threading
import time

from peer import TASKS, initialize, message, modern_call, modern_params
from process import Pipes
from table import row


def everything(programs, version=None, capabilities=None):
    """A server in a session, or without a version in none."""
    server = Pipes([programs.path("everything")])
    if version:
        server.send(initialize(version, capabilities))
        server.take(lambda line: b'"id":0' in line)
        server.send(message(None, "notifications/initialized"))
    return server


def identity(line):
    return json.loads(line).get("id")


@row("A5", "100,000 pings whose answers are not read, then 20,000 cancellations of an unknown request")
def cancellations(programs, checks):
    with everything(programs, "2025-11-25") as server:
        server.may_read.clear()
        server.send(message("first", "ping"))
        pings = [message(number, "ping") for number in range(1, 100_001)]
        cancelled = message(None, "notifications/cancelled", {"requestId": "nope"})
        lines = pings + [cancelled] * 20_000 + [message("last", "ping")]
        writing = threading.Thread(target=server.send, args=("\n".join(lines),), daemon=True)
        before = server.seconds()
        writing.start()
        time.sleep(5)
        checks.at_most("MiB", server.peak(), 150)
        server.may_read.set()
        is_whole = server.wait_until(lambda lines: lines and b'"last"' in lines[-1])
        checks.is_true("the last ping is answered", is_whole)
        answered = [identity(line) for line in server.lines]
        numbers = [number for number in answered if isinstance(number, int)]
        checks.equals("pings answered once", len(numbers), 100_000)
        checks.equals("distinct", len(set(numbers)), 100_000)
        checks.at_most("seconds of processors", server.seconds() - before, 5.0)


@row("A6", "2025-03-26: 10 open batches whose answers have 100 MB; each waits for one slow call")
def batches_beyond_the_outbox(programs, checks):
    with everything(programs, "2025-03-26") as server:
        for batch in range(10):
            lists = [message(batch * 2000 + number, "tools/list") for number in range(1, 1001)]
            slow = {"name": "test_slow", "arguments": {"ms": 8000}}
            lists.append(message(batch * 2000, "tools/call", slow))
            server.send("[" + ",".join(lists) + "]")
        begin = time.monotonic()
        server.send(message("plain", "tools/call", {"name": "greet", "arguments": {"name": "Ada"}}))
        checks.is_true(
            "a plain call is answered",
            server.wait_until(lambda lines: any(line[:1] == b"{" and b"Hello" in line for line in lines)),
        )
        checks.at_most("seconds", time.monotonic() - begin, 20)
        server.wait_until(lambda lines: sum(line[:1] == b"[" for line in lines) == 10, 60)
        answers = [answer for line in server.lines if line[:1] == b"[" for answer in json.loads(line)]
        checks.equals("answers of batches", len(answers), 10_010)
        checks.equals("distinct", len({answer["id"] for answer in answers}), 10_010)
        checks.note("of them results", sum("result" in answer for answer in answers))
        checks.at_most("MiB", server.peak(), 600)


@row("A9", "64 subscriptions to one task, whose result has 4 MiB")
def fan_out(programs, checks):
    with everything(programs) as server:
        server.send(modern_call("test_task", {"label": "x" * (4 << 20), "ms": 2000}, TASKS, "call"))
        begun = server.take(lambda line: b'"call"' in line)
        task = json.loads(begun)["result"]["taskId"]
        for number in range(64):
            filters = f'"notifications":{{"taskIds":[{json.dumps(task)}]}}'
            server.send(message(number, "subscriptions/listen", modern_params(filters, TASKS)))
        acknowledged = server.wait_until(
            lambda lines: sum(b"acknowledged" in line for line in lines) >= 64 or len(lines) >= 64
        )
        checks.is_true("subscribed", acknowledged)
        server.may_read.clear()
        before = server.resident()
        time.sleep(4)
        # The outbox has 64 MiB, and its buffer grows by doubling.
        checks.at_most("MiB more, unread", server.peak() - before, 200)
        server.lines.clear()
        server.may_read.set()
        server.send(message("get", "tasks/get", modern_params(f'"taskId":{json.dumps(task)}', TASKS)))
        result = server.take(lambda line: b'"id":"get"' in line)
        checks.is_true("the task has its result", result and len(result) > 4 << 20)


@row("A18", "2025-03-26: 100,000 pings, without and with 15,000 open batches of one call")
def open_batches(programs, checks):
    def cost(server, name):
        before = server.seconds()
        pings = [message(f"{name}{number}", "ping") for number in range(100_000)]
        server.send("\n".join(pings))
        last = f'"{name}99999"'.encode()
        checks.is_true("answered", server.take(lambda line: last in line))
        return server.seconds() - before

    with everything(programs, "2025-03-26") as server:
        alone = cost(server, "a")
        slow = {"name": "test_slow", "arguments": {"ms": 600_000}}
        batches = [f"[{message(number, 'tools/call', slow)}]" for number in range(15_000)]
        server.send("\n".join(batches))
        server.send(message("ready", "ping"))
        server.take(lambda line: b'"ready"' in line)
        checks.note("seconds of processors alone", alone)
        beside = cost(server, "b")
        checks.at_most("beside them", beside, round(2 * alone + 0.5, 1))


@row("S12", "standard input is closed while a function waits on its thread")
def end_of_input(programs, checks):
    with everything(programs, "2025-11-25", {"elicitation": {}}) as server:
        asking = {"name": "test_input_required_result_elicitation", "arguments": {}}
        server.send(message(1, "tools/call", asking))
        checks.is_true("the function waits", server.take(lambda line: b"elicitation/create" in line))
        begin = time.monotonic()
        server.child.stdin.close()
        try:
            status = server.child.wait(30)
        except Exception:
            status = "none"
        checks.equals("exit status", status, 0)
        checks.at_most("seconds", time.monotonic() - begin, 8.0)


@row("S1", "the same as over HTTP: `tools/call` with 200,000 members in descending order, over a pipe")
def digest_over_a_pipe(programs, checks):
    with everything(programs) as server:
        members = ",".join(f'"{number:07}":0' for number in range(200_000, 0, -1))
        arguments = '{"filename":"x",' + members + "}"
        server.send(modern_call("confirm_delete", arguments, {"elicitation": {}}))
        answer = server.take(lambda line: b'"id":1' in line)
        checks.is_true("answered with a state", answer and b"requestState" in answer)
        checks.at_most("seconds of processors", server.seconds(), 5.0)
