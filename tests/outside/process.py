"""Programs under test: they are started, measured by what Linux says of them, and ended."""

import os
import resource
import signal
import subprocess
import threading
import time

TICKS = os.sysconf("SC_CLK_TCK")

# A program is given up after this time, in seconds. A busy machine does not take as long.
LONG = 120


class Program:
    """A running program. `with` ends it."""

    def __init__(self, command, environment=None, descriptors=None, pipes=False):
        def prepare():
            if descriptors:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        stream = subprocess.PIPE if pipes else subprocess.DEVNULL
        self.child = subprocess.Popen(
            [str(part) for part in command],
            stdin=stream,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            preexec_fn=prepare,
            start_new_session=True,
        )
        self.id = self.child.pid
        self.errors = []
        self.has_error = threading.Condition()
        threading.Thread(target=self._read_errors, daemon=True).start()

    def _read_errors(self):
        for line in self.child.stderr:
            with self.has_error:
                if len(self.errors) < 1000:
                    self.errors.append(line.decode(errors="replace").rstrip())
                self.has_error.notify_all()

    def first_error(self):
        """The first line of the error output."""
        with self.has_error:
            if not self.has_error.wait_for(lambda: self.errors, LONG):
                raise RuntimeError("the program prints no line")
            return self.errors[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.id, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()
        for stream in (self.child.stdin, self.child.stdout):
            try:
                if stream:
                    stream.close()
            except OSError:
                pass

    def is_running(self):
        return self.child.poll() is None

    def _status(self, name):
        with open(f"/proc/{self.id}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith(name + ":"):
                    return int(line.split()[1])
        raise RuntimeError(f"the process has no {name}")

    def peak(self):
        """The peak of the resident memory, in MiB."""
        return self._status("VmHWM") / 1024

    def resident(self):
        """The resident memory, in MiB."""
        return self._status("VmRSS") / 1024

    def threads(self):
        return self._status("Threads")

    def sockets(self):
        """The number of descriptors of sockets."""
        folder = f"/proc/{self.id}/fd"
        count = 0
        for name in os.listdir(folder):
            try:
                count += os.readlink(f"{folder}/{name}").startswith("socket:")
            except FileNotFoundError:
                pass
        return count

    def seconds(self):
        """The time of processors that the process has taken, in seconds."""
        with open(f"/proc/{self.id}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


class Client(Program):
    """A client under test. Its memory and its time are those that it has at its end."""

    def __init__(self, command, environment=None):
        self.last_peak = 0.0
        self.last_seconds = 0.0
        self.output = []
        super().__init__(command, environment)
        threading.Thread(target=self._read_output, daemon=True).start()

    def _read_output(self):
        for line in self.child.stdout:
            if len(self.output) < 1000:
                self.output.append(line.decode(errors="replace").rstrip())

    def wait(self, limit=LONG):
        """Waits for the end, and returns the exit status, or None if the limit of time is reached."""
        begin = time.monotonic()
        while time.monotonic() - begin < limit:
            try:
                self.last_peak = max(self.last_peak, self.peak())
                self.last_seconds = max(self.last_seconds, self.seconds())
            except (OSError, RuntimeError, IndexError):
                pass
            # An ended process has its time until it is waited for, but no memory.
            if os.waitid(os.P_PID, self.id, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                self.last_seconds = self.seconds()
                return self.child.wait()
            time.sleep(0.01)
        return None

    def texts(self):
        return "\n".join(self.output + self.errors)


class Pipes(Program):
    """A server under test over standard input and output. A thread reads its lines when it may."""

    def __init__(self, command):
        super().__init__(command, pipes=True)
        self.lines = []
        self.has_line = threading.Condition()
        self.may_read = threading.Event()
        self.may_read.set()
        self.has_ended = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while True:
            self.may_read.wait()
            line = self.child.stdout.readline()
            with self.has_line:
                if not line:
                    self.has_ended = True
                else:
                    self.lines.append(line)
                self.has_line.notify_all()
            if not line:
                return

    def send(self, text):
        self.child.stdin.write(text.encode() + b"\n")
        self.child.stdin.flush()

    def take(self, condition, limit=LONG):
        """Waits for a line that fulfils a condition, and removes it with those before it."""
        deadline = time.monotonic() + limit
        seen = 0
        with self.has_line:
            while True:
                while seen < len(self.lines):
                    seen += 1
                    if condition(self.lines[seen - 1]):
                        found = self.lines[seen - 1]
                        del self.lines[:seen]
                        return found
                rest = deadline - time.monotonic()
                if rest <= 0 or self.has_ended:
                    return None
                self.has_line.wait(rest)

    def wait_until(self, condition, limit=LONG):
        """Waits until a condition on the list of lines holds. Returns whether it does."""
        with self.has_line:
            self.has_line.wait_for(lambda: condition(self.lines) or self.has_ended, limit)
            return bool(condition(self.lines))
