"""The rows: what is sent to which programs, and what has to hold."""

ADAPTERS = ["tokio", "smol", "blocking"]

ROWS = []


class Row:
    def __init__(self, key, sent, adapters, play):
        self.key, self.sent, self.adapters, self.play = key, sent, adapters, play


def row(key, sent, adapters=None):
    """Registers a function as a row. It gets the programs of an adapter and the checks that it has to fill in."""

    def register(play):
        ROWS.append(Row(key, sent, adapters or ADAPTERS, play))
        return play

    return register


class Checks:
    """What was measured in a row, and the limits."""

    def __init__(self):
        self.figures, self.limits, self.failures = [], [], []

    def add(self, what, figure, limit, holds):
        figure = f"{figure:.2f}" if isinstance(figure, float) else str(figure)
        self.figures.append(f"{what} {figure}")
        self.limits.append(str(limit))
        if not holds:
            self.failures.append(what)

    def at_most(self, what, figure, limit):
        self.add(what, figure, f"≤ {limit}", figure <= limit)

    def at_least(self, what, figure, limit):
        self.add(what, figure, f"≥ {limit}", figure >= limit)

    def equals(self, what, figure, wanted):
        self.add(what, figure, wanted, figure == wanted)

    def is_true(self, what, holds):
        self.add(what + ":", "yes" if holds else "no", "yes", bool(holds))

    def one_of(self, what, figure, wanted):
        self.add(what, figure, " or ".join(str(value) for value in wanted), figure in wanted)

    def note(self, what, figure):
        """Adds a figure without a limit."""
        self.add(what, figure, "any", True)


class Programs:
    """The examples of an adapter."""

    def __init__(self, folder, adapter):
        self.folder, self.adapter = folder, adapter

    def path(self, example):
        return self.folder / f"{example}-{self.adapter}"

    def mcp(self):
        """The program `mcp`, which cargo puts beside the folder of the examples."""
        beside = self.folder.parent / "mcp"
        return beside if beside.exists() else self.folder / "mcp"
