"""Numerics of a network's layers, by their names."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from openmxu_sim.golden.parameters import NAMES
from openmxu_sim.networks.numerics import Numerics

LayerNumerics = Mapping[str, "str | Mapping[str, Any]"]
"""Formats, or parameters of :class:`~openmxu_sim.networks.numerics.Numerics`, by patterns of names."""

MOST_PATTERNS = 1 << 12
"""Most patterns of layers: each name is compared with all."""


class Layers:
    """The numerics of each layer: those of the first pattern that matches, or of the unit.

    A pattern, with ``*``, ``?`` and ``[...]``, matches consecutive parts of a name, and so a module with all of its
    modules: ``lm_head`` and ``decoder.*.mlp`` match ``Net.decoder.3.mlp.up`` as ``mlp`` does. For each pattern there
    is a format for operands and gradients, or a mapping of parameters that differ from the unit's.
    """

    def __init__(self, unit: Numerics, layers: LayerNumerics | None) -> None:
        self.unit = unit
        self._of: dict[str, Numerics] = {}
        if layers is not None and not isinstance(layers, Mapping):
            raise TypeError(f"layers must be a mapping of formats by patterns of names, not {layers!r}")
        if len(layers or {}) > MOST_PATTERNS:
            raise ValueError(f"layers must have at most {MOST_PATTERNS} patterns, not {len(layers or {})}")
        for pattern, wanted in (layers or {}).items():
            own = wanted if isinstance(wanted, Mapping) else {"operand": wanted, "weight": None, "gradient": None}
            if not isinstance(pattern, str) or not pattern or not set(own) <= set(NAMES):
                raise ValueError(
                    f"layers must be formats, or mappings of {', '.join(NAMES)}, by patterns of names, "
                    f"not {pattern!r}: {wanted!r}"
                )
            try:
                self._of[pattern] = replace(unit, **own).checked()
            except (TypeError, ValueError) as error:
                raise type(error)(f"layers, {pattern!r}: {error}") from None
        self._names: dict[str, str | None] = {}
        self.stochastic = any(numerics.is_stochastic for numerics in (unit, *self._of.values()))
        """Whether any layer draws random numbers."""

    def __bool__(self) -> bool:
        return bool(self._of)

    def numerics(self, name: str) -> Numerics:
        """Return the numerics of a layer, by its name."""
        if not self._of:
            return self.unit
        if name not in self._names:
            self._names[name] = next((pattern for pattern in self._of if _matches(pattern, name)), None)
        pattern = self._names[name]
        return self.unit if pattern is None else self._of[pattern]

    def unmatched(self) -> list[str]:
        """Return the patterns that no name has matched so far."""
        return [pattern for pattern in self._of if pattern not in self._names.values()]

    def warn_of_unmatched(self) -> None:
        """Warn of patterns that no name has matched, once for each line."""
        if self.unmatched():
            warnings.warn(f"no name has matched these patterns of layers: {self.unmatched()}", stacklevel=3)


def _matches(pattern: str, name: str) -> bool:
    parts, length = name.split("."), pattern.count(".") + 1
    return any(fnmatchcase(".".join(parts[at : at + length]), pattern) for at in range(len(parts) - length + 1))
