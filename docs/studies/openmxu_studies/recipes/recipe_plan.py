"""The recipes, and the networks that are trained with them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

PLAIN, REFERENCE = "PyTorch's fp32", "bf16"
"""Recipes without a unit, and the one that others are compared with."""

_CUT = {"accumulate": "e8f13/truncate/guard0", "between": "fp32", "terms": 32}
"""Sums of 32 products and a partial sum, cut to 14 bits, and fp32 between tiles of 128: what is published of Hopper."""


def _both(spec: str, **others: Any) -> dict[str, Any]:
    return {"operand": spec, "gradient": spec, **others}


def _fp8(modifiers: str, **others: Any) -> dict[str, Any]:
    usual = {"operand": f"fp8_e4m3{modifiers}", "gradient": f"fp8_e5m2{modifiers}", "subnormals": "ieee"}
    return usual | others


RECIPES: Mapping[str, Mapping[str, Any] | None] = {
    PLAIN: None,
    "tf32": {"operand": "tf32"},
    REFERENCE: {"operand": "bf16"},
    "bf16, sums in bf16": {"operand": "bf16", "accumulate": "bf16"},
    "bf16, sums in bf16, rounded at random": {"operand": "bf16", "accumulate": "bf16/stochastic"},
    "fp16, tensors scaled": {"operand": "fp16/tensor"},
    "fp8": _fp8(""),
    "fp8, tensors scaled": _fp8("/tensor"),
    "fp8, scales delayed": _fp8("/tensor/saturate", history=16),
    "fp8_e4m3, blocks of 128": _both("fp8_e4m3/block128/fp32"),
    "the same, sums cut to 14 bits": _both("fp8_e4m3/block128/fp32", **_CUT),
    "MXFP8": _both("mxfp8_e4m3"),
    "MXFP6": {"operand": "mxfp6_e2m3", "gradient": "mxfp6_e3m2"},
    "MXFP4": _both("mxfp4"),
    "MXFP4, gradients at random": {"operand": "mxfp4", "gradient": "mxfp4/stochastic"},
    "NVFP4": _both("nvfp4"),
    "NVFP4, gradients at random": {"operand": "nvfp4", "gradient": "nvfp4/stochastic"},
    "int8, gradients at random": {"operand": "int8/row/fp32", "gradient": "int8/row/fp32/stochastic"},
}
"""Parameters of :class:`openmxu_sim.torch.Unit`, by a name; ``None``: no unit. ``fp8`` has e5m2 for gradients."""

ELEMENTS: Mapping[str, str] = {
    "tf32": "tf32",
    "bf16": "bf16",
    "fp16, tensors scaled": "fp16",
    "fp8_e4m3, blocks of 128": "fp8_e4m3",
    **dict.fromkeys(("MXFP8", "MXFP6", "MXFP4", "MXFP4, gradients at random"), "bf16"),
}
"""Operands of the element that runs a recipe in our hardware, scales aside; MX numbers enter it as bf16."""

_SLOW = ("bf16, sums in bf16, rounded at random",)
"""Recipes that are too slow for all but one network."""

STEPS = {"resnet": 100, "vit": 240, "text": 80}
"""Steps of training, by network."""

_SHORT = (PLAIN, REFERENCE, "fp8", "fp8, tensors scaled", "MXFP8", "MXFP4", "NVFP4")


class Trial(NamedTuple):
    """A network trained once."""

    network: str
    recipe: str
    seed: int
    steps: int


@dataclass(frozen=True)
class Plan:
    """The extent of the study."""

    full: bool = False
    """Whether it has all recipes, with five seeds, and the large transformer; or a few, with two seeds."""

    def trials(self) -> Iterator[Trial]:
        """Yield all trials; those of a network and a recipe follow each other."""
        for recipe in RECIPES if self.full else _SHORT:
            for network, steps in STEPS.items():
                seeds = self._seeds(network, recipe)
                yield from (Trial(network, recipe, seed, steps) for seed in range(seeds))

    def _seeds(self, network: str, recipe: str) -> int:
        if recipe in _SLOW:
            return int(network == "vit")
        if network == "text":
            return (3 if recipe == REFERENCE else 1) if self.full else 0
        return 5 if self.full else 2
