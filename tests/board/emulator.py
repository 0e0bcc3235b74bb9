"""The board in QEMU: its serial line, and its memory as seen from outside.

python3 emulator.py IMAGE [REPORT]: joins standard input and output to the serial line, so that a client can start the
board as it starts any other server. At the end of the input it writes the figures of the memory to REPORT.
"""

import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

MACHINE = "netduinoplus2"

# Longer than a busy machine takes to start the emulator, in seconds.
LONG = 60

# What cortex-m-rt paints the stack with before the program runs.
PAINT = b"\xcc\xcc\xcc\xcc"

FLASH, RAM = (0x0800_0000, 1024 << 10), (0x2000_0000, 128 << 10)


class Image:
    """The program as an ELF file of 32 bits, least significant byte first."""

    def __init__(self, path):
        self.path = path
        self.data = pathlib.Path(path).read_bytes()
        offset, entry, count, names = struct.unpack_from("<32xI10xHHH", self.data)
        fields = struct.Struct("<IIIIIIIIII")
        self.sections = [fields.unpack_from(self.data, offset + number * entry) for number in range(count)]
        self.names = self.sections[names]
        self.symbols = dict(self._symbols())

    def _text(self, table, at):
        begin = table[4] + at
        return self.data[begin : self.data.index(b"\0", begin)].decode()

    def _symbols(self):
        """Yields the names of symbols with their addresses and sizes."""
        for section in self.sections:
            if section[1] == 2:
                table = self.sections[section[6]]
                for at in range(section[4], section[4] + section[5], 16):
                    name, value, size = struct.unpack_from("<III", self.data, at)
                    yield self._text(table, name), (value, size)

    def symbol(self, name):
        """The address and the size of a symbol, by its name or, if it is mangled, by the end of its path."""
        found = [place for full, place in self.symbols.items() if full == name or f"{len(name)}{name}" in full]
        if len(found) != 1:
            raise LookupError(f"{len(found)} symbols are named {name}")
        return found[0]

    def flash(self):
        """The bytes of flash: code, constants, and the initial values of variables."""
        allocated, has_bytes = 2, 1
        return sum(
            section[5] for section in self.sections if section[2] & allocated and section[1] == has_bytes
        )


class Emulator:
    """A board that runs. `with` ends it."""

    def __init__(self, image):
        self.image = image
        self.folder = tempfile.TemporaryDirectory()
        self.control = os.path.join(self.folder.name, "control")
        command = ["qemu-system-arm", "-M", MACHINE, "-display", "none", "-monitor", "none", "-serial", "stdio"]
        # A panic prints its message to standard output.
        command += ["-semihosting-config", "enable=on,target=native", "-kernel", image.path]
        command += ["-qmp", f"unix:{self.control},server=on,wait=off"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        # The board sends a line feed when it listens.
        begin = threading.Timer(LONG, self.process.kill)
        begin.start()
        first = self.process.stdout.read(1)
        begin.cancel()
        if first != b"\n":
            self.process.kill()
            raise RuntimeError("the board does not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.folder.cleanup()

    def write(self, data):
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) :]

    def figures(self):
        """Stops the processor for good, and returns the sizes of its memories and how much of them was used."""
        path = os.path.join(self.folder.name, "ram")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(LONG)
            connection.connect(self.control)
            with connection.makefile("rwb") as control:
                control.readline()
                for name, arguments in [
                    ("qmp_capabilities", {}),
                    ("stop", {}),
                    ("pmemsave", {"val": RAM[0], "size": RAM[1], "filename": path}),
                ]:
                    control.write(json.dumps({"execute": name, "arguments": arguments}).encode() + b"\n")
                    control.flush()
                    while "return" not in (answer := json.loads(control.readline())):
                        if "error" in answer:
                            raise RuntimeError(f"{name}: {answer['error']}")
        return self._read(pathlib.Path(path).read_bytes())

    def _read(self, ram):
        symbol = self.image.symbol

        def word(name):
            return struct.unpack_from("<I", ram, symbol(name)[0] - RAM[0])[0]

        bottom, top = symbol("_stack_end")[0] - RAM[0], symbol("_stack_start")[0] - RAM[0]
        painted = bottom
        while painted < top and ram[painted : painted + 4] == PAINT:
            painted += 4
        begin, size = symbol("HEAP_ARRAY")
        # Behind the array is a flag.
        size -= size % 8
        heap = ram[begin - RAM[0] : begin - RAM[0] + size]
        return {
            "flash": self.image.flash(),
            "static": bottom - size,
            "heap": size,
            "heap_reached": len(heap.rstrip(b"\0")),
            "heap_in_use": word("HEAP_IN_USE"),
            "stack": top - bottom,
            "stack_peak": top - painted,
        }


def join(emulator):
    """Joins standard input and output to the serial line, until the input ends."""

    def copy_output():
        while data := emulator.process.stdout.read(4096):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        # The emulator has ended by itself, which it does after a panic only.
        if not has_ended.is_set():
            os._exit(1)

    has_ended = threading.Event()
    threading.Thread(target=copy_output, daemon=True).start()
    while data := os.read(0, 4096):
        emulator.write(data)
    # Lets the board handle the last line.
    time.sleep(0.2)
    has_ended.set()


def main():
    with Emulator(Image(sys.argv[1])) as emulator:
        join(emulator)
        if len(sys.argv) > 2:
            pathlib.Path(sys.argv[2]).write_text(json.dumps(emulator.figures()), encoding="utf-8")


if __name__ == "__main__":
    main()
