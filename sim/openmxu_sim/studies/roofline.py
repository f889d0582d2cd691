"""Gain of layers of real networks by bf16 in memory: derived, from sizes and the cycle formula."""

import json
from dataclasses import asdict, dataclass

from openmxu.pages.tables import counted
from openmxu.spec.config import MxuConfig
from openmxu.spec.tiling import cycles

STORAGE = {"fp32": (4, 4), "bf16 in, fp32 out": (2, 4), "bf16": (2, 2)}
"""Storage of matrices in memory: bytes of an operand and of a result."""

_LEAST, _MOST = 0.001, 1000000
"""Least and largest clock and bandwidth of a machine."""


@dataclass(frozen=True)
class Layer:
    """A matrix product in a network."""

    network: str
    """Name of the network."""
    name: str
    """Name of the layer; of convolutions channels and kernel."""
    m: int
    k: int
    n: int
    """Its sizes; convolutions as matrix products of patches."""
    count: int = 1
    """Number of such layers in the network."""

    @property
    def operations(self) -> int:
        """Multiplications and additions of one such layer."""
        return 2 * self.m * self.k * self.n

    def bytes(self, storage: str) -> int:
        """Return the bytes between memory and unit, each matrix moved once: all reuse is on the chip."""
        operand, result = STORAGE[storage]
        return operand * (self.m * self.k + self.k * self.n) + result * self.m * self.n


def _resnet(images: int) -> list[Layer]:
    """Return ResNet-50 for images of 224 x 224; where resolution halves, the 3x3 kernel does it (version 1.5)."""
    name = f"ResNet-50, {images} images"

    def convolution(side: int, channels: int, kernel: int, filters: int, count: int = 1) -> Layer:
        return Layer(
            name,
            f"{channels} to {filters}, {kernel}x{kernel}, {side}x{side}",
            images * side**2,
            channels * kernel**2,
            filters,
            count,
        )

    layers = [convolution(112, 3, 7, 64), convolution(56, 64, 1, 64)]
    for side, width, blocks in ((56, 64, 3), (28, 128, 4), (14, 256, 6), (7, 512, 3)):
        if side < 56:
            layers.append(convolution(2 * side, 2 * width, 1, width))
        layers += [
            convolution(side, 4 * width, 1, width, blocks - 1),
            convolution(side, width, 3, width, blocks),
            convolution(side, width, 1, 4 * width, blocks),
            convolution(side, 64 if side == 56 else 2 * width, 1, 4 * width),
        ]
    return [*layers, Layer(name, "fully connected", images, 2048, 1000)]


def _transformer(
    name: str, *, blocks: int, width: int, heads: int, tokens: int, context: int, hidden: int
) -> list[Layer]:
    """Return the products of a transformer's blocks for ``tokens`` rows, each attending to ``context`` tokens."""
    head = width // heads
    return [
        Layer(name, "query, key, value", tokens, width, width, 3 * blocks),
        Layer(name, "scores, a head", tokens, head, context, heads * blocks),
        Layer(name, "weighted values, a head", tokens, context, head, heads * blocks),
        Layer(name, "attention's output", tokens, width, width, blocks),
        Layer(name, "first dense", tokens, width, hidden, blocks),
        Layer(name, "second dense", tokens, hidden, width, blocks),
    ]


LAYERS: tuple[Layer, ...] = (
    *_resnet(8),
    *_transformer("BERT-base, 128 tokens", blocks=12, width=768, heads=12, tokens=128, context=128, hidden=3072),
    *_transformer("small transformer, 16 tokens", blocks=4, width=256, heads=4, tokens=16, context=16, hidden=1024),
)
"""The layers that tables and plot show."""


@dataclass(frozen=True)
class Machine:
    """A unit, its clock, and its memory."""

    rows: int = 128
    columns: int = 128
    stages: int = 1
    """The unit."""
    clock: float = 700.0
    """Clock in MHz, from 0.001 to 1000000."""
    bandwidth: float = 300.0
    """Bandwidth of the memory in GB/s (10^9 bytes per second); from 0.001 to 1000000."""
    terms: int = 1
    """Products that a processing element adds at once."""

    def __post_init__(self) -> None:
        for noun in ("clock", "bandwidth"):
            if not _LEAST <= getattr(self, noun) <= _MOST:
                raise ValueError(f"{noun} must be a number from {_LEAST} to {_MOST}, not {getattr(self, noun)!r}")

    @property
    def config(self) -> MxuConfig:
        """The unit."""
        return MxuConfig(rows=self.rows, columns=self.columns, stages=self.stages, terms=self.terms)

    @property
    def peak(self) -> float:
        """Operations per second of the whole array."""
        return 2e6 * self.rows * self.columns * self.clock


@dataclass(frozen=True)
class Share:
    """A layer on a machine."""

    layer: Layer
    """The layer."""
    cycles: int
    """Cycles of the unit, from the formula."""
    bytes: dict[str, int]
    """Bytes that move, by :data:`STORAGE`."""
    seconds: dict[str, float]
    """Seconds of the unit, or of the memory, if these are more."""
    bound: dict[str, str]
    """The slower of the two: ``"unit"`` or ``"memory"``."""


@dataclass(frozen=True)
class Roofline:
    """Layers on a machine."""

    machine: Machine
    shares: tuple[Share, ...]

    def seconds(self, network: str, storage: str) -> float:
        """Return the seconds for all layers of a network."""
        return sum(
            share.layer.count * share.seconds[storage] for share in self.shares if share.layer.network == network
        )

    def to_json(self) -> str:
        """Return the layers as JSON."""
        return json.dumps(asdict(self), indent=1) + "\n"


def roofline(machine: Machine, layers: tuple[Layer, ...] = LAYERS) -> Roofline:
    """Return the time of each layer on a machine, by storage of matrices."""
    return Roofline(machine, tuple(_share(machine, layer) for layer in layers))


def _share(machine: Machine, layer: Layer) -> Share:
    count = cycles(machine.config, layer.m, layer.k, layer.n)
    by_unit = count / (machine.clock * 1e6)
    moved = {storage: layer.bytes(storage) for storage in STORAGE}
    by_memory = {storage: size / (machine.bandwidth * 1e9) for storage, size in moved.items()}
    return Share(
        layer,
        count,
        moved,
        {storage: max(by_unit, time) for storage, time in by_memory.items()},
        {storage: "memory" if time > by_unit else "unit" for storage, time in by_memory.items()},
    )


def to_markdown(model: Roofline) -> str:
    """Return tables of networks, then of layers."""
    machine = model.machine
    lines = [
        f"One unit of {machine.rows}x{machine.columns}, "
        f"{counted(machine.stages, 'stage')}, at {machine.clock:g} MHz, {machine.peak / 1e12:.3g} Tflop/s, and "
        f"{machine.bandwidth:g} GB/s: memory limits the speed below "
        f"{machine.peak / machine.bandwidth / 1e9:.0f} operations per byte.",
        "",
        *_networks(model),
        "",
        "MB: fp32; bf16 operands with fp32 results; bf16. Limit: fp32; bf16.",
        "",
        *_layers(model),
    ]
    return "\n".join(lines) + "\n"


def _networks(model: Roofline) -> list[str]:
    """Return the time of each network, by storage of matrices, as a table."""
    first, *others = STORAGE
    rows = [["network", *(f"{name}, ms" for name in STORAGE), *(f"faster with {name}" for name in others)]]
    for network in dict.fromkeys(share.layer.network for share in model.shares):
        times = {storage: model.seconds(network, storage) for storage in STORAGE}
        faster = (f"{times[first] / times[name] - 1:.0%}" for name in others)
        rows.append([network, *(f"{1e3 * time:.3g}" for time in times.values()), *faster])
    head, *lines = (f"| {' | '.join(cells)} |" for cells in rows)
    return [head, "|---|" + "--:|" * (len(rows[0]) - 1), *lines]


def _layers(model: Roofline) -> list[str]:
    """Return the time of each layer, below its network, as a table."""
    machine = model.machine
    lines = [
        "| layer | M x K x N | count | cycles | busy | MB | limit | faster with bf16 |",
        "|---|---|--:|--:|--:|---|---|--:|",
    ]
    network = ""
    for share in model.shares:
        layer = share.layer
        if layer.network != network:
            network = layer.network
            lines.append(f"| **{network}** | | | | | | | |")
        busy = layer.operations / (2 * machine.rows * machine.columns * share.cycles)
        lines.append(
            f"| {layer.name} | {layer.m} x {layer.k} x {layer.n} | {layer.count} | {share.cycles} | {busy:.0%} | "
            + ", ".join(f"{size / 1e6:.3g}" for size in share.bytes.values())
            + f" | {share.bound['fp32']}, {share.bound['bf16']} "
            f"| {share.seconds['fp32'] / share.seconds['bf16'] - 1:.0%} |"
        )
    return lines
