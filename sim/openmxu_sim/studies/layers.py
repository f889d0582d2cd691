"""Layers from files: tables as SCALE-Sim reads them, and ONNX models."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from openmxu_sim.studies.roofline import Layer

_CONVOLUTION = ("ifmap height", "ifmap width", "filter height", "filter width", "channels", "num filter", "strides")
_PRODUCT = ("m", "n", "k")
_MOST = 2**40
"""Largest size: far beyond all layers."""


def read_layers(path: Path) -> tuple[Layer, ...]:
    """Return the products of a network."""
    if path.suffix.lower() == ".onnx":
        return _from_model(path)
    try:
        lines = csv.reader(path.read_text(encoding="utf-8-sig").splitlines())
        rows = [row for row in lines if any(map(str.strip, row))]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"layers must be a table (.csv) or a model (.onnx), not {path}: {error}") from None
    heads = [head.strip().lower() for head in rows[0]] if rows else []
    columns = next((names for names in (_CONVOLUTION, _PRODUCT) if set(names) <= set(heads)), None)
    if columns is None:
        raise ValueError(
            f"layers must have the columns {', '.join(_PRODUCT).upper()}, or {', '.join(_CONVOLUTION)}, "
            f"and {path} has {', '.join(heads) or 'none'}"
        )
    records = (dict(zip(heads, row, strict=False)) for row in rows[1:])
    return tuple(_layer(path, number, columns, row) for number, row in enumerate(records, 2))


def _layer(path: Path, number: int, columns: Sequence[str], row: Mapping[str, str]) -> Layer:
    sizes = []
    for column in columns:
        text = row.get(column, "").strip()
        if not text.isdecimal() or not 1 <= int(text) <= _MOST:
            raise ValueError(f"{column} must be an integer from 1 to {_MOST} in row {number} of {path}, not {text!r}")
        sizes.append(int(text))
    name = (row.get("layer name") or row.get("layer") or f"row {number}").strip().replace("|", "/")
    if columns is _PRODUCT:
        m, n, k = sizes
        return Layer(path.stem, name, m, k, n)
    height, width, taps, taps_across, channels, filters, stride = sizes
    places = [(size - tap) // stride + 1 for size, tap in ((height, taps), (width, taps_across))]
    if min(places) < 1:
        raise ValueError(f"the filter must fit the image in row {number} of {path}")
    return Layer(path.stem, name, places[0] * places[1], taps * taps_across * channels, filters)


def _from_model(path: Path) -> tuple[Layer, ...]:
    from openmxu_sim.onnx import Network  # noqa: PLC0415  # an extra of its own

    network = Network(path)
    network.run(network.zeros())
    return tuple(
        Layer(path.stem, f"{work.layer}, {work.operator}", work.m, work.k, work.n, times * work.products)
        for work, times in network.work.items()
    )
