"""Inputs of parts while their energy is measured, and their expected outputs.

The processing element is in row 63 of a column of 128, in the middle of tiles of 128 beats: partial sums come from
the 63 elements above it, by the golden model, and the weights of all elements below pass through its shadow register::

    beat of a tile     0 ................ 64 65 ........ 127 | 0 ...
    i_load             1 1 1 1 1 1 1 1 1  1  0 0 0 0 0 0  0  | 1 ...   65 weights pass, the last one stays
    i_swap             1                                     | 1 ...   the weight that the tile before this one loaded

The energy of an element depends on its weight, so many weights are tried with few beats each: a stretch begins at any
beat of a tile of another column. Cycles that bring an element there are played, and do not count::

    i_load   1 . . . . . . . . . . .
    i_swap   . 1 . . . . . . . . . .
             └──── not counted ────┘└─ counted ─┘     each activation and sum as in the tile from here on ─▶

An element of several terms has the rows of its block of that column, which 63 is among: of the same matrices, so many
activations a beat. Its registers fill in as many more cycles, which do not count.

Multipliers get the operands of row 63, adders its sums and products, converters its sums.

A design whose ports are not known gets random bits, and its outputs must be those of its cells without delays.
"""

import hashlib
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from openmxu.area.run.energy import LAYER, METERED, NORMAL
from openmxu.area.subject.points import ADDER, CONVERTER, MULTIPLIER_TO_FP32, PROCESSING_ELEMENT, Point
from openmxu.runtime.extras import install
from openmxu.spec.stages import split_stages
from openmxu_sim import golden
from openmxu_sim.demo import train
from openmxu_sim.energy.settled import settled
from openmxu_sim.energy.timed import TimedNetlist, UnsuitableError
from openmxu_sim.operands.npy import read_arrays
from openmxu_sim.operands.reference import element_sums

ROWS, ROW, BEATS = 128, 63, 128
"""Rows of the column, the measured row, and beats of a tile."""

STRETCH = 4
"""Beats of a stretch that count."""

FILL = 16
"""Cycles before those that count, for a design with an unknown number of stages."""

Bits = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint32]
_Floats = npt.NDArray[np.float32]
_Matrices = tuple[_Floats, _Floats]


@dataclass(frozen=True)
class Workload:
    """Inputs of a part, and its expected outputs."""

    inputs: dict[str, Bits]
    outputs: dict[str, Bits]
    """By port: a row of bits, the lowest first, for each cycle."""
    since: int
    """The first cycle whose outputs are known: before it the pipeline has contents of power-up."""
    counted: npt.NDArray[np.bool_]
    """Whether each cycle counts."""


def _normal(rng: np.random.Generator, stretches: int, length: int) -> _Matrices:
    """Draw activations (stretches, beats, rows), and weights (stretches, three tiles, rows), normally distributed."""
    activations = rng.standard_normal((stretches, length, ROWS), dtype=np.float32)
    return activations, rng.standard_normal((stretches, 3, ROWS), dtype=np.float32)


def _rectified(rng: np.random.Generator, stretches: int, length: int) -> _Matrices:
    activations, weights = _normal(rng, stretches, length)
    return np.maximum(activations, np.float32(0)), weights


def _digits(rng: np.random.Generator, stretches: int, length: int) -> _Matrices:
    """Draw images of 8x8 pixels, two a beat, and weights of the first layer of the demo's classifier."""
    weights, images = _trained()
    chosen = rng.integers(len(images), size=(2, stretches, length))
    columns = rng.integers(len(weights), size=(2, stretches, 3))
    return np.concatenate(images[chosen], axis=-1), np.concatenate(weights[columns], axis=-1)


@cache
def _trained() -> _Matrices:
    """Return a column of weights for each hidden neuron, and images."""
    try:
        layers, images, _ = train()
    except ModuleNotFoundError as error:
        raise UnsuitableError(f"the images need {error.name}, which is not installed: {install('demo')}") from None
    return layers[0][0].T, images


def _zeros(rng: np.random.Generator, stretches: int, length: int) -> _Matrices:
    activations, weights = _normal(rng, stretches, length)
    return np.zeros_like(activations), weights


@dataclass(frozen=True, eq=False)
class Layer:
    """Operands of a layer of a network."""

    activations: _Floats
    """One sample in each row."""
    weights: _Floats
    """One column for each output, with as many rows as a sample has numbers."""

    @cached_property
    def sha256(self) -> str:
        """Digest of activations and weights."""
        return hashlib.sha256(self.activations.tobytes() + b"|" + self.weights.tobytes()).hexdigest()

    def __call__(self, rng: np.random.Generator, stretches: int, length: int) -> _Matrices:
        """Draw consecutive samples, rows of one tile and three columns; of a layer with fewer rows, several times."""
        depth = self.activations.shape[1]
        times = -(-ROWS // depth)
        start = ROWS * rng.integers(max(1, depth // ROWS), size=stretches)
        rows = start[:, None] + np.arange(min(ROWS, depth))
        first = rng.integers(len(self.activations), size=(times, stretches, 1))
        samples = (first + np.arange(length)) % len(self.activations)
        columns = rng.integers(self.weights.shape[1], size=(times, stretches, 3))
        activations = [self.activations[indices[..., None], rows[:, None]] for indices in samples]
        weights = [self.weights[rows[:, None], indices[..., None]] for indices in columns]
        return np.concatenate(activations, axis=-1)[..., :ROWS], np.concatenate(weights, axis=-1)[..., :ROWS]


def read_layer(path: Path) -> Layer:
    """Read a layer from a ``.npz`` file with ``activations`` and ``weights``."""
    arrays = read_arrays(path, "--layer")
    for name in ("activations", "weights"):
        array = arrays.get(name)
        if array is None or array.ndim != 2 or not array.size or array.dtype.kind not in "fiu":
            fault = "is missing" if array is None else f"is {array.dtype} of shape {array.shape}"
            raise ValueError(f"--layer must have {name}, a matrix of real numbers, which {fault} in {str(path)!r}")
    activations, weights = (arrays[name].astype(np.float32) for name in ("activations", "weights"))
    if activations.shape[1] != len(weights):
        raise ValueError(
            f"--layer must have as many columns of activations as rows of weights, not {activations.shape[1]} and "
            f"{len(weights)}"
        )
    return Layer(activations, weights)


_KINDS = {NORMAL: _normal, "relu": _rectified, "digits": _digits, "zeros": _zeros, "idle": _zeros}


def workload(point: Point, kind: str, *, stretches: int = 256, seed: int = 0, layer: Layer | None = None) -> Workload:
    """Return the inputs of a part, and its expected outputs."""
    kinds = _KINDS | ({LAYER: layer} if layer else {})
    if kind not in kinds:
        raise ValueError(f"operands must be one of {', '.join(kinds)}, not {kind!r}")
    if point.part not in METERED or point.format is None:
        raise ValueError(f"part must be one of {', '.join(METERED)} for energies, not '{point.part}'")
    terms, before = point.terms, 1 + 2 * point.terms + int(point.options["stages"])
    rng = np.random.default_rng(seed)
    more = 2 * (terms - 1)
    activations, weights = kinds[kind](rng, stretches, before + STRETCH - more)
    activations = activations[:, np.arange(-more, before + STRETCH - more).clip(0)]
    name, subnormals = str(point.format), str(point.options["subnormals"])
    beats = _Beats.made(_converted(activations, name), _converted(weights, name), before, name, subnormals, terms)
    if kind == "idle":
        none, no = np.zeros_like(beats.sums), np.zeros_like(beats.activations)
        beats = replace(beats, activations=no, weights=none, sums=none, loads=none, swaps=none)
    counted = np.tile(np.arange(before + STRETCH) >= before, stretches)
    return _MAKERS.get(point.part, _pair)(point, beats, counted)


def random_workload(netlist: TimedNetlist, *, cycles: int, seed: int) -> Workload:
    """Draw every bit of every input anew in each cycle, but hold resets where they do nothing."""
    rng = np.random.default_rng(seed)
    inputs = {
        name: rng.integers(2, size=(FILL + cycles, len(bits)), dtype=np.uint8) for name, bits in netlist.inputs.items()
    }
    for name, level in netlist.held.items():
        inputs[name][:] = level
    return Workload(inputs, settled(netlist, inputs), 0, np.arange(FILL + cycles) >= FILL)


def _converted(values: _Floats, name: str) -> Words:
    return golden.convert(np.ascontiguousarray(values).view(np.uint32), "fp32", name)


@dataclass(frozen=True)
class _Beats:
    """Inputs of an element, by beat."""

    activations: Words
    """Words of the format, one for each term."""
    weights: Words
    """Words of the format at its upper port."""
    loads: Words
    swaps: Words
    """The marks."""
    sums: Words
    """fp32 sums of the rows above for this beat."""
    format: str
    subnormals: str
    """Format of the operands, and mode of subnormals."""

    @classmethod
    def made(cls, activations: Words, weights: Words, before: int, fmt: str, subnormals: str, terms: int) -> "_Beats":
        """Return stretches that begin at beats 0, 4, 8 ... of their tiles, one after another.

        Weights are those of the tile before, of this tile, and of the next one, which is loaded while this one runs.
        """
        stretches, length, _ = activations.shape
        stretch = np.arange(stretches)[:, None]
        beat = stretch * STRETCH % BEATS + np.arange(length)[None] - before
        tile, offset = beat // BEATS + 1, beat % BEATS
        first = ROW // terms * terms
        loaded = ROWS - first
        own = weights[stretch, tile, first : first + terms]
        passing = weights[stretch, tile + 1, ROWS - 1 - np.minimum(offset, loaded - 1)]
        # A shadow register has the weight that came as many beats ago as it is rows below; before those, its own rows'.
        ago = np.minimum(offset, loaded)[..., None] - np.arange(1, terms + 1)
        held = np.where(
            ago < 0,
            np.take_along_axis(own, (-1 - ago).clip(0, terms - 1), -1),
            weights[stretch[..., None], tile[..., None] + 1, ROWS - 1 - ago.clip(0)],
        )
        loads, swaps = (offset < loaded).astype(np.uint32), (offset == 0).astype(np.uint32)
        passing = np.where(loads == 1, passing, np.uint32(0))
        # The first cycles bring the element's weights, then those of the next weights that its shadow registers hold.
        both = 2 * terms
        passing[:, :terms], passing[:, terms:both] = own[:, both - 1, ::-1], held[:, both, ::-1]
        loads[:, :both], swaps[:, :both] = 1, np.arange(both) == terms
        sums = np.zeros(beat.shape, np.uint32)
        for row in range(0, first, terms):
            rows = slice(row, row + terms)
            operands = activations[:, :, rows], weights[stretch, tile, rows]
            sums = element_sums(sums, *operands, operand=fmt, subnormals=subnormals)
        return cls(
            activations[:, :, first : first + terms].reshape(-1, terms),
            passing.ravel(),
            loads.ravel(),
            swaps.astype(np.uint32).ravel(),
            sums.ravel(),
            fmt,
            subnormals,
        )

    @cached_property
    def registers(self) -> tuple[Words, Words]:
        """Shadow weights at the end of each beat's cycle, and the weights that its activations are multiplied with."""
        shadow, active = np.zeros_like(self.activations), np.zeros_like(self.activations)
        held = used = np.zeros_like(shadow[0])
        for beat in range(len(shadow)):
            used = held if self.swaps[beat] else used
            held = np.append(self.weights[beat], held[:-1]) if self.loads[beat] else held
            shadow[beat], active[beat] = held, used
        return shadow, active

    @cached_property
    def products(self) -> Words:
        """Products of the first term in fp32."""
        pair = self.activations[:, 0], self.registers[1][:, 0]
        return golden.multiply(*pair, self.format, "fp32", subnormals=self.subnormals)


def _element(point: Point, beats: _Beats, counted: npt.NDArray[np.bool_]) -> Workload:
    """Return the workload of a processing element. Partial sums come when its product is ready for them."""
    assert point.format is not None
    stages, width = int(point.options["stages"]), point.format.width
    latency, psum_latency = 1 + stages, split_stages(stages)[1]
    operands = beats.activations, beats.registers[1]
    sums = element_sums(beats.sums, *operands, operand=beats.format, subnormals=beats.subnormals)
    inputs = {
        "i_activation": _bits(beats.activations, width),
        "i_swap": _bits(beats.swaps, 1),
        "i_load": _bits(beats.loads, 1),
        "i_weight": _bits(beats.weights, width),
        "i_psum": _bits(_later(beats.sums, latency - psum_latency), 32),
    }
    answers = {
        "o_activation": _bits(_later(beats.activations, 1), width),
        "o_swap": _bits(_later(beats.swaps, 1), 1),
        "o_load": _bits(_later(beats.loads, 1), 1),
        "o_weight": _bits(_later(beats.registers[0][:, -1], 1), width),
        "o_psum": _bits(_later(sums, latency), 32),
    }
    return Workload(inputs | _reset(point, len(sums)), answers, latency, counted)


def _pair(point: Point, beats: _Beats, counted: npt.NDArray[np.bool_]) -> Workload:
    """Return the workload of a multiplier or an adder."""
    assert point.format is not None
    name, width, latency = beats.format, point.format.width, int(point.options["stages"])
    result = "fp32" if point.part == MULTIPLIER_TO_FP32 else name
    if point.part == ADDER:
        a, b = (golden.convert(bits, "fp32", name) for bits in (beats.sums, beats.products))
        words = golden.add(a, b, name, subnormals=beats.subnormals)
    else:
        a, b = beats.activations[:, 0], beats.registers[1][:, 0]
        words = golden.multiply(a, b, name, result, subnormals=beats.subnormals)
    inputs = {"i_a": _bits(a, width), "i_b": _bits(b, width)}
    answers = {"o": _bits(_later(words, latency), golden.find_format(result).width)}
    return Workload(inputs | _reset(point, len(words)), answers, latency, counted)


def _converter(point: Point, beats: _Beats, counted: npt.NDArray[np.bool_]) -> Workload:
    """Return the workload of a converter from fp32."""
    assert point.format is not None
    words = golden.convert(beats.sums, "fp32", beats.format, subnormals=beats.subnormals)
    answers = {"o": _bits(_later(words, int(point.options["stages"])), point.format.width)}
    return Workload(
        {"i": _bits(beats.sums, 32)} | _reset(point, len(words)), answers, int(point.options["stages"]), counted
    )


_MAKERS = {str(PROCESSING_ELEMENT): _element, str(CONVERTER): _converter}
"""Makers of workloads for parts with other ports than two operands and a result."""


def _reset(point: Point, cycles: int) -> dict[str, Bits]:
    """Return a low reset for a part with a clock."""
    return {"rst": np.zeros((cycles, 1), np.uint8)} if point.options["stages"] else {}


def _later(words: Words, cycles: int) -> Words:
    return np.concatenate([np.zeros_like(words[:cycles]), words[: len(words) - cycles]])


def _bits(words: Words, width: int) -> Bits:
    """Return bits of each cycle's word, or words, the first of which is lowest."""
    return (words[..., None] >> np.arange(width, dtype=np.uint32) & 1).astype(np.uint8).reshape(len(words), -1)
