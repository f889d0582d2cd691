"""Requests for products on units: the unit, what no hardware has, and the run."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openmxu.spec.config import MxuConfig
from openmxu.spec.passes import find_precision
from openmxu.spec.stages import TERMS
from openmxu_sim import golden
from openmxu_sim.engines import BOARD, ENGINES
from openmxu_sim.engines.compiled.trace import Window
from openmxu_sim.golden.parameters import UnitOptions
from openmxu_sim.golden.setup import check_seed, check_terms
from openmxu_sim.golden.specifications import Operand, find_operand, find_sum, prepare

_Stack = npt.NDArray[Any]

_SIDES = ("operand", "weight")

_NO_PARAMETERS_OF_UNITS = ("accumulate", "between", "precision", "seed")

_TERMS = f"{', '.join(map(str, TERMS[:-1]))} or {TERMS[-1]}"
"""Numbers of terms that hardware has."""


@dataclass(frozen=True)
class Streams:
    """The engine, and how its streams run: keywords of :func:`~openmxu_sim.product.simulate`."""

    engine: str
    port: str | None
    units: int
    stalls: int | None
    vcd: Path | str | None
    window: Window | None

    def __post_init__(self) -> None:
        check_choice("engine", self.engine, "auto", *ENGINES, BOARD)
        if self.port is not None and self.engine != BOARD:
            raise ValueError(f"port requires engine {BOARD!r}, not {self.engine!r}")

    @property
    def needs(self) -> str | None:
        """A parameter that was given and needs a clock."""
        return next((name for name in ("vcd", "stalls") if getattr(self, name) is not None), None)

    def check_board(self) -> None:
        """Refuse what a board does not do."""
        for name, only in {"units": 1, "vcd": None, "stalls": None}.items():
            if getattr(self, name) != only:
                raise ValueError(f"{name} must be {only!r} on engine {BOARD!r}, not {getattr(self, name)!r}")


@dataclass(frozen=True)
class Request:
    """A product that is asked for: a unit, the nearest one that hardware has, and what it does not compute."""

    streams: Streams
    unit: MxuConfig | None
    given: Mapping[str, Any]
    """Parameters of the unit that are given in place of ``unit``."""
    software: Mapping[str, Any]
    """Parameters of the golden model that no unit has: engines without a clock compute them."""
    blocks: tuple[Operand | None, Operand | None]
    """MX formats, whose numbers are read before they are multiplied: bf16 holds them."""
    precision: str
    accumulate: str

    @property
    def why(self) -> str:
        """Why hardware does not compute it."""
        if {"accumulate", "between"} & set(self.software):
            return "the hardware has fp32 sums"
        return (
            f"the hardware has {_TERMS} terms" if "terms" in self.software else "the hardware does not scale operands"
        )

    def check_clock(self, engine: str) -> None:
        """Refuse what an engine with a clock does not compute."""
        for name, value in self.software.items():
            if name == "seed":
                continue
            allowed = {"terms": _TERMS, **dict.fromkeys(_SIDES, "a format, or one of MX,")}.get(name, "'fp32'")
            raise ValueError(f"{name} must be {allowed} on {engine}, not {value!r}")

    def decoded(self, a: _Stack, b: _Stack) -> tuple[_Stack, _Stack]:
        """Return stacks of operands, those in MX formats as the numbers that they are."""
        left, right = (
            stack if side is None else _decoded(stack, side, self.given.get("subnormals", "flush"))
            for stack, side in zip((a, b.swapaxes(1, 2)), self.blocks, strict=True)
        )
        return left, right.swapaxes(1, 2)


def make_request(unit: MxuConfig | None, array: Mapping[str, Any], numerics: UnitOptions, streams: Streams) -> Request:
    """Tell what hardware has of a product from what it does not; ``None`` is not given."""
    given = {name: value for name, value in {**array, **numerics}.items() if value is not None}
    precision, seed = find_precision(numerics.get("precision", "default")), check_seed(numerics.get("seed", 0))
    accumulate = given.get("accumulate", "fp32")
    between = given.get("between", accumulate)
    given = {name: value for name, value in given.items() if name not in _NO_PARAMETERS_OF_UNITS}
    software: dict[str, Any] = {}
    for name, spec, usual in (("accumulate", accumulate, "fp32"), ("between", between, accumulate)):
        find_sum(spec, name)
        software |= {name: spec} if spec != usual else {}
    terms, rows = given.get("terms"), given.get("rows")
    if isinstance(terms, int | np.integer) and terms in (16, 32):
        rows = int(rows) if isinstance(rows, int | np.integer) else int(terms)
        software["terms"] = check_terms(int(terms), rows, given.get("subnormals", "flush"))
        given["terms"] = max(TERMS)
    specs, blocks = (given.get("operand"), given.get("weight", given.get("operand"))), list[Operand | None]()
    for name, spec in zip(_SIDES, specs, strict=True):
        side = None if spec is None else find_operand(spec, name)
        is_block = side is not None and side.block is not None and not (side.block.two_levels or side.stochastic)
        blocks.append(side if is_block else None)
        if side is not None and not side.is_plain:
            given[name] = side.format.name
            software |= {} if is_block else {name: spec}
    if software:
        software["seed"] = seed
    if "operand" in software and "weight" not in software:
        software["weight"] = given.get("weight", given["operand"])
    return Request(streams, unit, given, software, (blocks[0], blocks[1]), precision, accumulate)


def check_choice(parameter: str, value: str, *domain: str) -> None:
    """Refuse a value outside of a domain."""
    if value not in domain:
        raise ValueError(f"{parameter} must be {' or '.join(map(repr, domain))}, not {value!r}")


def _decoded(stack: _Stack, side: Operand, subnormals: str) -> _Stack:
    """Return (P, rows, K) numbers of blocks."""
    result = np.empty(stack.shape, np.float32)
    for values, matrix in zip(result, stack, strict=True):
        bits = golden.to_bits(np.ascontiguousarray(matrix))
        values[:] = prepare(bits, side, subnormals=subnormals, noise=lambda: np.zeros(())).bits.view(np.float32)
    return result
