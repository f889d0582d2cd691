"""Operands and sums that no hardware has, in products on units: engines without a clock compute them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openmxu.spec.stages import TERMS
from openmxu_sim import golden
from openmxu_sim.golden.setup import check_seed, check_terms
from openmxu_sim.golden.specifications import Operand, find_operand, find_sum, largest_magnitude, prepare

_Stack = npt.NDArray[Any]


class Specified(NamedTuple):
    """Operands, the unit's parameters, and those of the golden model that are not the unit's."""

    a: _Stack
    b: _Stack
    shorthand: dict[str, Any]
    software: dict[str, Any]

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


_SIDES = ("operand", "weight")

_TERMS = f"{', '.join(map(str, TERMS[:-1]))} or {TERMS[-1]}"
"""Numbers of terms that hardware has."""


def specify(a: _Stack, b: _Stack, shorthand: Mapping[str, Any], sums: Mapping[str, Any]) -> Specified:
    """Decode MX numbers, as bf16 holds them; what else no hardware has is left to engines without a clock, beside the
    nearest unit.

    Parameters of the unit, and of its sums, are ``None`` where they are not given.
    """
    for name in ("accumulate", "between"):
        if sums[name] is not None:
            find_sum(sums[name], name)
    usual = {"accumulate": "fp32", "between": sums["accumulate"]}
    software = {name: sums[name] for name in usual if sums[name] not in (None, usual[name])}
    unit, arrays = dict(shorthand), [a, b.swapaxes(1, 2)]
    check_seed(sums["seed"])
    terms, rows = unit["terms"], unit["rows"]
    if isinstance(terms, int | np.integer) and terms in (16, 32):
        given = int(terms), int(rows) if isinstance(rows, int | np.integer) else int(terms)
        software["terms"] = check_terms(*given, unit["subnormals"] or "flush")
        unit["terms"] = max(TERMS)
    specs = shorthand["operand"], shorthand["operand"] if shorthand["weight"] is None else shorthand["weight"]
    for number, (name, spec) in enumerate(zip(_SIDES, specs, strict=True)):
        side = None if spec is None else find_operand(spec, name)
        if side is None or side.is_plain:
            continue
        unit[name] = side.format.name
        if side.block and not side.block.two_levels and not side.stochastic:
            arrays[number] = _decoded(arrays[number], side, shorthand["subnormals"] or "flush")
        else:
            software[name] = spec
    if software:
        software["seed"] = sums["seed"]
    if "operand" in software and "weight" not in software:
        software["weight"] = unit["operand"] if unit["weight"] is None else unit["weight"]
    return Specified(arrays[0], arrays[1].swapaxes(1, 2), unit, software)


def _decoded(stack: _Stack, side: Operand, subnormals: str) -> _Stack:
    """Return (P, rows, K) numbers of blocks."""
    result = np.empty(stack.shape, np.float32)
    for values, matrix in zip(result, stack, strict=True):
        bits = golden.to_bits(np.ascontiguousarray(matrix))
        values[:] = prepare(bits, side, subnormals=subnormals, noise=lambda: np.zeros(())).bits.view(np.float32)
    return result


def golden_products(a: _Stack, b: _Stack, result: _Stack, options: Mapping[str, Any]) -> None:
    """Compute products one by one; a scale of a whole tensor is that of the stack, and each has the next seed."""
    peaks = (largest_magnitude(golden.to_bits(stack), options["subnormals"]) for stack in (a, b))
    own = dict(options) | {"largest": tuple(peaks)}
    seed = own.pop("seed", 0)
    for number, (values, left, right) in enumerate(zip(result, a, b, strict=True)):
        values[:] = golden.matmul(left, right, seed=seed + number, **own)
