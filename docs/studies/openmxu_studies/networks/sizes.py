"""The record: networks on machines of several sizes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from openmxu.pages.tables import counted, table
from openmxu_studies.spread import Studied


@dataclass(frozen=True)
class Case:
    """A network on a machine."""

    network: str
    size: int
    stages: int
    depth: int
    scratchpad: str = ""
    weights: str = ""
    """Bytes of the memories, such as 64K; empty: the unit alone, by its formula."""
    beat: int = 0
    """Bits of a beat of the bus."""
    latency: int = 0
    """Cycles from a request to the memory's first beat, besides one."""
    every: int = 1
    """Cycles from a beat of the memory to the next."""


@dataclass(frozen=True)
class Finding:
    """Cost of a case."""

    case: Case
    products: int
    """Multiply-adds of the network."""
    tiles: int
    """Cycles by the formula of tiles."""
    cycles: int
    """Cycles of the simulated RTL; 0: by the formula alone."""
    expected: int
    """Cycles by the compiler's model of waits, for a memory that answers at once; 0: by the formula alone."""
    bytes_moved: int
    """Bytes on the bus, or on the unit's streams."""
    hungriest: float
    """Bytes a cycle below which a bus binds the layer that needs most, others none."""
    bound: float
    """Share of the cycles by the formula in layers that need more than the bus has."""
    seconds: float
    """Seconds of processor time of the simulation, without the compiler's."""
    words: int
    differing: int
    """Words compared with the definition, and those that differ."""

    @property
    def useful(self) -> float:
        """Share of the array's multiply-adds that were the network's."""
        return self.products / self.case.size**2 / (self.cycles or self.tiles)

    @property
    def hidden(self) -> float:
        """Share of the bus's beats in whose cycles tiles were computed, if these lasted as the formula says."""
        return max(0.0, 1 - (self.cycles - self.tiles) * self.case.beat / 8 / (self.bytes_moved * self.case.every))


MACHINE = (16, 16, 4, 256, "512K", "512K")
"""Rows, columns, stages, bank and memories, for which models from packages are compiled."""

BEAT = 256


@dataclass(frozen=True)
class Share:
    """What of a model the accelerator computes."""

    package: str
    model: str
    products: int
    machine: int
    """Multiply-adds, and those of the accelerator."""
    parts: int
    cycles: int
    """By the formula."""
    host: str
    """Operators of the host, the most frequent first."""


@dataclass(frozen=True)
class Networks(Studied):
    """All findings."""

    findings: tuple[Finding, ...]
    foreign: tuple[Share, ...] = ()
    """Of networks from packages."""


_SCALE_SIM = "SCALE-Sim 3.0.0, a model: weight stationary, no stalls; run on 2026-11-27"
OTHERS = (
    ("Gemmini, pull request 69, 2021: RTL, int8; published", "ResNet-50", "16x16", "153,709,356", "40 % (as they say)"),
    ("Gemmini, pull request 90, 2021: RTL, int8; published", "ResNet-50", "16x16", "", "51 % (as they say)"),
    ("Tensil: its latency model, fp16, 260 ms at 300 MHz; published", "ResNet-50", "16x16", "78,000,000", "20 %"),
    (_SCALE_SIM, "ResNet-20", "4x4", "2,721,234", "93.7 %"),
    (_SCALE_SIM, "ResNet-20", "16x16", "208,486", "76.5 %"),
    (_SCALE_SIM, "ResNet-20", "128x128", "43,057", "5.8 %"),
    (_SCALE_SIM, "ResNet-50", "4x4", "271,563,498", "94.1 %"),
    (_SCALE_SIM, "ResNet-50", "16x16", "20,599,802", "77.5 %"),
    (_SCALE_SIM, "ResNet-50", "128x128", "916,490", "27.2 %"),
)
"""Cycles of others: source, network, array, cycles, share."""


def to_markdown(report: Networks) -> str:
    """Return tables of what was simulated, of what the formula gives, and of machines of others."""
    simulated = [each for each in report.findings if each.cycles]
    heads = ["network", "machine", "cycles", "expected", "of its tiles", "useful", "bytes moved", "a cycle"]
    heads += ["hungriest layer", "bound by the bus", "hidden", "simulated in", "words that differ"]
    lines = [*report.opening("networks"), "", table(heads, [list(_simulated(each)) for each in simulated])]
    rows = [list(_derived(each)) for each in report.findings if not each.cycles]
    if rows:
        heads = ["network", "unit", "cycles by the formula", "useful", "bytes on its streams", "a cycle"]
        lines += ["", "By the formula of the unit, as the accelerator leaves softmax and norms to the host:", ""]
        lines += [table(heads, rows)]
    if report.foreign:
        lines += ["", *_foreign(report.foreign)]
    heads = ["machine of others", "network", "array", "cycles", "useful"]
    lines += ["", "Others, on networks of the same name:", "", table(heads, [list(row) for row in OTHERS])]
    return "\n".join(lines) + "\n"


def _machine(case: Case) -> str:
    size = f"{case.size}x{case.size}, {counted(case.stages, 'stage')}, bank of {case.depth}"
    memory = [f"{case.scratchpad} + {case.weights}, {case.beat} bits"] if case.beat else []
    memory += [f"latency {case.latency}"] * bool(case.latency)
    memory += [f"a beat in {case.every} cycles"] * (case.every > 1)
    return ", ".join([size, *memory])


def _simulated(found: Finding) -> Iterator[str]:
    yield found.case.network
    yield _machine(found.case)
    yield f"{found.cycles:,}"
    yield "" if found.case.latency or found.case.every > 1 else f"{found.expected:,}"
    yield f"{found.tiles:,}"
    yield f"{found.useful:.1%}"
    yield f"{found.bytes_moved:,}"
    yield f"{found.bytes_moved / found.cycles:.2f}"
    yield f"{found.hungriest:.2f} bytes a cycle"
    yield f"{found.bound:.1%}"
    yield f"{found.hidden:.1%}"
    yield f"{found.seconds:.1f} s"
    yield f"{found.differing} of {found.words:,}" if found.words else "not compared"


def _foreign(shares: Sequence[Share]) -> Iterator[str]:
    """Their table, and how many have most of their products on the accelerator."""
    rows, columns, stages, depth, scratchpad, weights = MACHINE
    taken = [each for each in shares if each.parts]
    most = sum(each.machine >= _MOST * each.products for each in taken if each.products)
    machine = f"{rows}x{columns}, {counted(stages, 'stage')}, bank of {depth}, {scratchpad} + {weights}, {BEAT} bits"
    yield (
        f"{len(taken)} of {len(shares)} models from packages compile as they are, {most} of them with {_MOST:.0%} or "
        f"more of their products on the accelerator, here of {machine}:"
    )
    yield ""
    heads = ["package", "model", "products", "on the accelerator", "parts", "cycles by the formula", "of the host"]
    cells = [
        [
            each.package,
            each.model,
            f"{each.products:,}",
            f"{each.machine / max(each.products, 1):.1%}",
            str(each.parts or "refused"),
            f"{each.cycles:,}",
            each.host,
        ]
        for each in shares
    ]
    yield table(heads, cells)


_MOST = 0.9


def _derived(found: Finding) -> Iterator[str]:
    yield found.case.network
    yield _machine(found.case)
    yield f"{found.tiles:,}"
    yield f"{found.useful:.1%}"
    yield f"{found.bytes_moved:,}"
    yield f"{found.bytes_moved / found.tiles:.2f}"
