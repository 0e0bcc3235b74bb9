"""Plays the rows against the programs of the adapters, and prints a table."""

import pathlib
import sys
import time
import traceback

import bench_rows
import client_rows
import raw_rows
import server_rows
import session_rows
import stdio_rows
from table import ADAPTERS, ROWS, Checks, Programs

MODULES = [server_rows, session_rows, stdio_rows, raw_rows, client_rows, bench_rows]


def chosen(words):
    """The adapters and the rows that the words name: all of them without any."""
    adapters = [word for word in words if word in ADAPTERS] or ADAPTERS
    names = [word for word in words if word not in ADAPTERS]
    for name in names:
        if not any(is_named(row, name) for row in ROWS):
            print(f"outside: neither an adapter nor a row: {name}", file=sys.stderr)
            sys.exit(2)
    return adapters, [row for row in ROWS if not names or any(is_named(row, name) for name in names)]


def is_named(row, name):
    return name in row.key.split(", ") or name == row.play.__name__


def play(row, programs):
    """Plays a row. Returns whether all that has to hold holds."""
    checks = Checks()
    begin = time.monotonic()
    error = None
    try:
        row.play(programs, checks)
    except Exception as raised:  # A row that cannot be played to its end has failed.
        traceback.print_exc()
        error = f"{type(raised).__name__}: {raised}"
    holds = not checks.failures and error is None
    verdict = "ok" if holds else "not ok: " + ", ".join(checks.failures + ([error] if error else []))
    figures, limits = "; ".join(checks.figures), "; ".join(checks.limits)
    name = f"{row.key} {row.play.__name__}"
    seconds = time.monotonic() - begin
    cells = [name, programs.adapter, row.sent, figures, limits, f"{seconds:.0f}", verdict]
    print("| " + " | ".join(cells) + " |", flush=True)
    return holds


def main():
    folder, words = pathlib.Path(sys.argv[1]), sys.argv[2:]
    adapters, rows = chosen(words)
    print("| row | adapter | sent | measured | limits | seconds | |", flush=True)
    print("| --- | --- | --- | --- | --- | ---: | --- |", flush=True)
    results = [
        play(row, Programs(folder, adapter)) for row in rows for adapter in adapters if adapter in row.adapters
    ]
    failed = results.count(False)
    print(f"\n{len(results)} rows, {failed} not ok", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
