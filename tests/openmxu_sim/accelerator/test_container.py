"""Files of compiled networks: whole ones are read as written, others are refused in one line."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openmxu.spec.accelerator import AcceleratorConfig
from openmxu_sim.accelerator.container import (
    CompiledNetwork,
    HostPart,
    Input,
    MachinePart,
    Port,
    read_network,
    write_network,
)
from openmxu_sim.accelerator.lowering import Layer, lower
from openmxu_sim.accelerator.pictures import View
from openmxu_sim.accelerator.stripes import fit

_POOLED = View((1, 2, 2, 2), (1, 2, 2, 2))
_MACHINE = AcceleratorConfig(size=2, stages=1, depth=16, rows=128, weights=64)


@pytest.fixture
def network() -> CompiledNetwork:
    weight = np.arange(2 * 3 * 3, dtype=np.float32).reshape(2, 1, 3, 3)
    first = Layer("first", "x", (3, 3), (1, 1), (1, 1, 1, 1), weight, relu=True)
    layers = [first, Layer("pool", "first", (2, 2), (2, 2))]
    image = Port("x", "x", View((1, 1, 4, 4), (1, 1, 4, 4)))
    machine = MachinePart(lower(_MACHINE, {"x": (1, 4, 4)}, layers), (image,), (Port("p", "pool", _POOLED),))
    inputs = (Input("x", (1, 1, 4, 4), "float32"), Input("n", (), "int64"))
    return CompiledNetwork(inputs, (machine, HostPart(b"a model", ("n", "p"), ("y", "z"))), ("z", "x", "p"))


@pytest.mark.parametrize("memory", [False, True])
def test_what_is_written_is_read(network: CompiledNetwork, tmp_path: Path, memory: bool) -> None:
    path = tmp_path / "model.mxa"
    if memory:
        layers = [Layer("pool", "x", (2, 2), (2, 2))]
        lowered = fit(replace(_MACHINE, rows=14), {"x": (1, 4, 4)}, layers)
        assert (lowered.memory, lowered.alternative) == (40, 21)
        view = View((1, 4), (1, 1, 2, 2))
        part = replace(network.machine[0], lowered=lowered, outputs=(Port("p", "pool", view),))
        network = replace(network, parts=(part, *network.parts[1:]))
    path.write_bytes(write_network(network))
    found = read_network(path)
    (own, host), (written, _) = found.parts, network.parts
    assert isinstance(own, MachinePart)
    assert isinstance(written, MachinePart)
    assert (own.lowered.weights == written.lowered.weights).all()
    own = replace(own, lowered=replace(own.lowered, weights=written.lowered.weights))
    assert replace(found, parts=(own, host)) == network


def test_damaged_files(network: CompiledNetwork, tmp_path: Path) -> None:
    """Cut, or a byte changed: refused in one line, or still a network whose program may run."""
    content, path = write_network(network), tmp_path / "model.mxa"
    rng, refused = np.random.default_rng(1), 0
    for number in range(300):
        damaged = bytearray(content)
        if number % 3:
            damaged[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        else:
            del damaged[rng.integers(len(content)) :]
        path.write_bytes(damaged)
        try:
            read_network(path)
        except ValueError as error:
            refused += 1
            assert "MODEL must be " in str(error)  # noqa: PT017
    assert refused > 200


@pytest.mark.parametrize(
    "change",
    [
        (b'"base": 0', b'"base": 9000'),
        (b'"size": 2', b'"size": 3'),
        (b'"size": 2', b'"size": "x"'),
        (b'"rows": 128', b'"rows": 20'),
        (b'"weights": 64', b'"weights": 4'),
        (b'"channels"', b'"chanels"'),
        (b'["p", "pool"', b'["p", "none"', "none must be an image of it$"),
        (
            b'["p", "pool", [[1, 2, 2, 2]',
            b'["p", "pool", [[1, 2, 2, 3]',
            r"must be images of \(1, 2, 2, 2\) in the order of NCHW",
        ),
        (b'"NCHW"', b'"NCHC"', "in the order of NCHW, not NCHC$"),
        (
            b"[[1, 1, 4, 4], [1, 1, 4, 4]",
            b"[[1, 1, 4, 4], [1, 1, 2, 8]",
            r"x must have the shape \(1, 4, 4\), not \(1, 2, 8\)$",
        ),
        (b"[[1, 1, 4, 4], [1, 1, 4, 4]", b"[[2, 1, 4, 4], [2, 1, 4, 4]", "inputs and outputs, all of as many images$"),
        (b'[["x", "x"', b'[["q", "x"', "a part must read what is computed before, not q$"),
        (b'"inputs": ["n", "p"]', b'"inputs": ["n", "q"]', "a part must read what is computed before, not q$"),
        (b'"inputs": ["n", "p"]', b'"inputs": ["n", 1]', "names must be a list of texts$"),
        (b'"outputs": ["z"', b'"outputs": ["w"', "an output must be computed, not w$"),
        (b'"outputs": ["z", "x", "p"]', b'"outputs": []', "an output must be computed, not $"),
        (b'"int64"', b'"object"', r"an input must be numbers of a shape, not object \(\)$"),
        (b'"version": 2', b'"version": 3', "it is of version 3, not 2: compile the model again$"),
        (b'"width": 4', b'"width": -4'),
        (b'"channels": 2', b'"channels": 100000'),
        *((b'"packing": [2', b'"packing": [%d' % kernel) for kernel in (0, 3)),
        (b"{", b"["),
        (b"{", b"[" * 100_000),
        (b'"base": 0', b'"base": Infinity'),
        (b'"layers": [', b'"layers": [], "more": [', "it must have a layer$"),
        (b'"cycles": ', b'"cycles": -'),
        (b'"commands": [0', b'"commands": [-1'),
        (b'"program": 1024', b'"program": 16'),
        (b'"cycles": ', b'"cycles": %d' % 10**400),
        (b'"products": ', b'"products": %d' % 10**400),
        (b'"version"', b" " * (1 << 24) + b'"version"'),
        *((b'"memory": 0', b'"memory": %d' % memory) for memory in (-2, 8, 1 << 40, 4097)),
        *((b'"alternative": 0', b'"alternative": %d' % rows, "alternative must be at most") for rows in (-1, 1 << 40)),
    ],
)
def test_facts_that_are_wrong(network: CompiledNetwork, tmp_path: Path, change: tuple[Any, ...]) -> None:
    old, new, *reason = change
    path = tmp_path / "model.mxa"
    path.write_bytes(write_network(network))
    with np.load(path) as archive:
        arrays = dict(archive)
    facts = arrays["segments"].tobytes()
    assert old in facts
    _check_refused(path, arrays | {"segments": np.frombuffer(facts.replace(old, new, 1), np.uint8)}, *reason)


def _check_refused(path: Path, arrays: dict[str, Any], reason: str = "") -> None:
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    with pytest.raises(ValueError, match=rf"^MODEL must be a network that openmxu compile wrote, not .*{reason}"):
        read_network(path)


def test_members_that_are_wrong(network: CompiledNetwork, tmp_path: Path) -> None:
    """Missing, of another type, or longer than any machine has room for: known before commands are read."""
    path = tmp_path / "model.mxa"
    path.write_bytes(write_network(network))
    with np.load(path) as archive:
        arrays = dict(archive)
    for name in arrays:
        _check_refused(path, {each: array for each, array in arrays.items() if each != name}, f"'{name}' is missing$")
    for name in ("host1", "segments"):
        _check_refused(path, arrays | {name: np.array(["x"] * 3)}, rf"{name} must be bytes, not <U1 \(3,\)$")
    start, limit = time.monotonic(), "a program must have at most 64 commands, and no more layers than commands, not"
    _check_refused(path, arrays | {"program0": np.tile(arrays["program0"], (300_000, 1))}, limit)
    facts = json.loads(arrays["segments"].tobytes())
    facts["parts"][0]["layers"] *= 30_000
    many = json.dumps(facts).encode()
    _check_refused(path, arrays | {"segments": np.frombuffer(many, np.uint8)}, limit)
    assert time.monotonic() - start < 10


def test_an_older_file(tmp_path: Path) -> None:
    arrays = {name: np.zeros(1, np.uint8) for name in ("program", "weights", "host", "facts")}
    _check_refused(tmp_path / "model.mxa", arrays, "it is of version 1: compile the model again$")


def test_a_network_of_one_part_is_known(network: CompiledNetwork) -> None:
    with pytest.raises(
        ValueError, match=r"^MODEL must run on the accelerator from its input to its output, not in 2 parts$"
    ):
        network.alone()
    assert replace(network, parts=network.parts[:1]).alone() is network.parts[0]
