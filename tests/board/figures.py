"""Prints the figures of the board as a table.

python3 figures.py FOLDER: the folder with the reports that emulator.py and floods.py have written.
"""

import json
import pathlib
import sys

COLUMNS = ["tour-legacy", "tour-modern", "floods"]

ROWS = [
    ("flash", "flash", "code, constants, initial values"),
    ("static", "RAM, static", "variables besides the heap"),
    ("heap", "RAM, heap", "its size, from the limits"),
    ("heap_reached", "heap, highest byte", "the part that was ever written to"),
    ("heap_in_use", "heap, at the end", "allocated by an idle connection and the buffers"),
    ("stack", "RAM, stack", "the rest of the RAM"),
    ("stack_peak", "stack, deepest", "the part that was ever written to"),
]


def main():
    folder = pathlib.Path(sys.argv[1])
    reports = {}
    for column in COLUMNS:
        path = folder / f"{column}.json"
        reports[column] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    print(f"{'bytes':<20}" + "".join(f"{column:>13}" for column in COLUMNS))
    for key, title, note in ROWS:
        cells = [reports[column].get(key) for column in COLUMNS]
        figures = "".join(f"{'-' if cell is None else format(cell, ','):>13}" for cell in cells)
        print(f"{title:<20}{figures}   {note}")


if __name__ == "__main__":
    main()
