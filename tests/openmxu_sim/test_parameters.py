"""Every parameter on which bits depend, through every public entry, against the golden model.

The signature of an entry, or its parser, decides which parameters it must have: one without a row fails.
"""

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

from openmxu.cli.frame import make_parser
from openmxu_sim import golden, matmul, simulate
from openmxu_sim.engines import model
from openmxu_sim.golden.parameters import NAMES, DerivativeOptions, Parameters

from ..bits import same_bits
from ..conftest import Command

_ROOT = Path(__file__).parents[2]
_CALLS = ("product.simulate([], []", "product.matmul([], []", "torch.unit(rows=1", "torch.matmul([], []")
_CALLS += ("jax.matmul([], []", "jax.on_unit(print", 'onnx.Network("m"')

_RNG = np.random.default_rng(54)
A, B, G = (_RNG.standard_normal(shape).astype(np.float32) for shape in ((6, 64), (64, 5), (6, 5)))
A[0] *= np.float32(2.0**-127)
B[:, 0] *= np.float32(2.0**12)
A[1, ::2] *= np.float32(2.0**-8)

_CUT = {"accumulate": "e8f13/truncate", "rows": 16}
_SCALED = ("fp8_e4m3/tensor", "fp8_e5m2/row/saturate", "fp16/block32/fp32", "nvfp4", "int8/row/fp32", "bf16/stochastic")

CASES: Mapping[str, list[dict[str, Any]]] = {
    "rows": [{"rows": 16}, {"rows": 7, "accumulate": "bf16"}],
    "terms": [{"terms": 4}, {"terms": 16}, {"terms": 32, "accumulate": "e8f13/truncate", "between": "fp32"}],
    "subnormals": [{"subnormals": "ieee"}, {"subnormals": "ieee", "operand": "fp8_e4m3"}],
    "precision": [{"precision": name} for name in ("high", "highest", "exact9")],
    "operand": [
        *({"operand": name} for name in ("fp16", "fp8_e4m3", "fp32", "e5f9", "mxfp8_e4m3", "mxfp4")),
        *({"operand": name, "rows": 16} for name in _SCALED),
    ],
    "weight": [{"weight": "fp8_e5m2"}, {"operand": "mxfp4", "weight": "fp8_e4m3/row"}, {"weight": "nvfp4"}],
    "accumulate": [
        *({"accumulate": name} for name in ("bf16", "fp8_e5m2/truncate", "fp32/stochastic")),
        {"accumulate": "fp32/guard0", "terms": 8},
    ],
    "between": [
        *({**_CUT, "between": name} for name in ("fp32", "bf16", "fp16/stochastic")),
        {"rows": 16, "between": "bf16"},
        {"accumulate": "bf16", "between": "fp32", "rows": 16, "operand": "fp8_e4m3/row"},
    ],
    "seed": [{"seed": 7, "operand": "bf16/stochastic"}, {"seed": 2**32 - 1, "accumulate": "bf16/stochastic"}],
    "output": [{"output": "bf16"}, {"output": "fp16", "operand": "fp16", **_CUT}],
    "largest": [
        {"largest": (1e9 / 7, None), "operand": "fp8_e4m3/tensor/fp32"},
        {"largest": (None, 9e3 / 7), "operand": "nvfp4"},
    ],
    "history": [{"history": 1, "operand": name} for name in ("fp8_e4m3/tensor", "fp8_e4m3/tensor/stochastic")],
    "gradient": [{"gradient": name, "weight": "fp16", "rows": 1} for name in ("fp8_e5m2", "fp8_e4m3/row")],
    "layers": [{"layers": {"it": each}} for each in ({"operand": "fp16", "rows": 16}, {**_CUT, "between": "fp32"})],
    "columns": [{"columns": 4}],
    "stages": [{"stages": 3}],
    "splitter": [{"splitter": True, "precision": "high"}],
    "units": [{"units": 2}],
}
SAME = ("columns", "stages", "splitter", "units")
"""Parameters on which no bit depends."""

WHY_NOT = {
    "output": "frameworks give results in the type of their tensors",
    "largest": "a public entry scales by the operand's own magnitudes, or by a history of them",
    "history": "a place in a network has one, in PyTorch",
    "gradient": "derivatives have one",
    "layers": "networks have layers",
    **dict.fromkeys(SAME, "no bit depends on it, and nothing counts cycles of that"),
}
"""Reasons why an entry does not have a parameter."""


class Entry(NamedTuple):
    """A way to multiply ``A`` by ``B``."""

    multiply: Callable[..., Any]
    parameters: Callable[[], Collection[str]]
    others: str
    """Parameters that say what is multiplied, and where: no bit depends on them."""
    missing: str
    """Parameters that it does not have, by the reasons in ``WHY_NOT``."""


def _expected(how: Mapping[str, Any]) -> Any:
    """The definition, with each parameter by its name there."""
    how = {"rows": 128} | {name: value for name, value in how.items() if name not in SAME}
    how |= how.pop("layers", {"it": {}})["it"]
    if "output" in how:
        how["result"] = how.pop("output")
    if how.pop("history", None):  # the second of two products; the first has twice the operands
        how |= {"largest": (2 * float(np.abs(A).max()), 2 * float(np.abs(B).max())), "seed": 65537}
    if gradient := how.pop("gradient", None):
        of_a = golden.matmul(G, B.T, **how | {"operand": gradient})
        return _joined(of_a, golden.matmul(A.T, G, **how | {"weight": gradient}))
    return golden.matmul(A, B, **how)


def _joined(*arrays: Any) -> Any:
    return np.concatenate([np.ravel(array) for array in arrays])


def _module(framework: str) -> Any:
    """Our package for a framework; skip where that is not installed."""
    pytest.importorskip(framework, reason=f"{framework} is not installed: make setup-models")
    return importlib.import_module(f"openmxu_sim.{framework}")


def _by_torch(*, function: bool, **how: Any) -> Any:
    mxu, torch = _module("torch"), importlib.import_module("torch")
    multiply = partial(mxu.matmul, **how) if function else torch.matmul
    network = type("it", (torch.nn.Module,), {"forward": lambda self, a, b: multiply(a, b)})()
    a, b = (torch.tensor(each, requires_grad=True) for each in (A, B))
    with mxu.unit(**({"operand": "fp32"} if function else how)):
        if "history" in how:
            network(2 * a, 2 * b)
        result = network(a, b)
        if "gradient" not in how:
            return result.detach().numpy()
        result.backward(torch.tensor(G))
    return _joined(a.grad, b.grad)


def _by_jax(*, function: bool, **how: Any) -> Any:
    mxu, jax = _module("jax"), importlib.import_module("jax")

    def network(a: Any, b: Any) -> Any:
        with jax.named_scope("it"):
            return a @ b

    multiply = partial(mxu.matmul, **how) if function else mxu.on_unit(network, **how)
    return _joined(*jax.vjp(multiply, A, B)[1](G)) if "gradient" in how else np.asarray(multiply(A, B))


def _model() -> Any:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make setup-models")
    parser = importlib.import_module("onnx.parser")
    text = "it (float[6, 64] a, float[64, 5] b) => (float[6, 5] c) { [it] c = MatMul (a, b) }"
    return parser.parse_model(f'<ir_version: 10, opset_import: ["": 18]> {text}')


def _by_onnx(**how: Any) -> Any:
    network = _module("onnx").Network(_model(), **how)
    return network.run({"a": A, "b": B})["c"]


def _by_command(words: str, *, command: Command, **how: Any) -> Any:
    np.save("a.npy", A)
    np.save("b.npy", B)
    np.savez("ab.npz", a=A, b=B)
    if words.startswith("infer"):
        Path("m.onnx").write_bytes(_model().SerializeToString())
    if "layers" in how:
        Path("layers.json").write_text(json.dumps(how["layers"]))
        how["layers"] = "layers.json"
    options = [f"--{name}" if value is True else f"--{name}={value}" for name, value in how.items()]
    code, _, err = command(words, *options)
    if code == 2:
        raise TypeError(err)
    if words.startswith("infer"):
        return np.load(f"report/{how.get('operand', 'bf16').replace('/', '-')}.npz")["c"]
    result = np.load("c.npy")
    return result.view(ml_dtypes.bfloat16) if result.dtype.kind == "V" else result


def _definition(product: Callable[..., Any], **how: Any) -> Any:
    renamed = {"result" if name == "output" else name: value for name, value in how.items()}
    return product(A, B, **{"rows": 128, **renamed})


def _names(*functions: Callable[..., Any]) -> Collection[str]:
    names = {name for function in functions for name in signature(function).parameters}
    return {"output" if name == "result" else name for name in names} - {"options"}


def _options(command: str) -> Collection[str]:
    parser: Any = make_parser([command])
    [of_command] = [action.choices[command] for action in parser._actions if action.dest == "command"]
    return {action.dest for action in of_command._actions if action.option_strings}


_RUN = "a b engine port stalls vcd window progress unit"
_FILES = "help output_file stats vcd vcd_rows vcd_columns vcd_cycles engine port stalls"
_REPORT = "help input area liberty output errors allow"
_NET = "model strict allow threads errors"

_NETWORKS = "output largest splitter units"
_MODEL, _CALL = f"{_NETWORKS} gradient history", f"{_NETWORKS} columns stages history layers"
_ONE, _DEFINITION = "gradient history layers largest", "gradient history layers columns stages splitter units"

ENTRIES: Mapping[str, Entry] = {
    "golden.matmul": Entry(partial(_definition, golden.matmul), partial(_names, golden.matmul), "a b", _DEFINITION),
    "model.matmul": Entry(partial(_definition, model.matmul), partial(_names, golden.matmul), "a b", _DEFINITION),
    "simulate": Entry(
        lambda **how: simulate(A, B, engine="golden", **how).result, partial(_names, simulate), _RUN, _ONE
    ),
    "matmul": Entry(partial(matmul, A, B, engine="model"), partial(_names, matmul), _RUN, _ONE),
    "openmxu matmul": Entry(
        partial(_by_command, "matmul a.npy b.npy --engine golden -o c.npy"), partial(_options, "matmul"), _FILES, _ONE
    ),
    "openmxu infer": Entry(
        partial(_by_command, "infer m.onnx --input ab.npz -o report"), partial(_options, "infer"), _REPORT, _MODEL
    ),
    "onnx.Network": Entry(_by_onnx, lambda: _names(_module("onnx").Network), _NET, _MODEL),
    "torch.unit": Entry(
        partial(_by_torch, function=False),
        lambda: _names(_module("torch").unit),
        f"{_NET} trace".replace("model ", ""),
        _NETWORKS,
    ),
    "torch.matmul": Entry(partial(_by_torch, function=True), lambda: _names(_module("torch").matmul), "a b", _CALL),
    "jax.on_unit": Entry(
        partial(_by_jax, function=False),
        lambda: _names(_module("jax").on_unit),
        "function strict allow static_argnums",
        f"{_NETWORKS} columns stages history",
    ),
    "jax.matmul": Entry(partial(_by_jax, function=True), lambda: _names(_module("jax").matmul), "a b", _CALL),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_every_parameter_has_a_row(name: str) -> None:
    offered, others = ENTRIES[name].parameters(), set(ENTRIES[name].others.split())
    assert others <= offered
    assert offered - others <= CASES.keys()
    missing = set(ENTRIES[name].missing.split())
    assert CASES.keys() - (offered - others) == missing
    assert missing <= WHY_NOT.keys()


def test_keywords_and_the_page_have_every_parameter() -> None:
    page, _, _ = (_ROOT / "docs/explanation/numerics.md").read_text().partition("\n## Formats\n")
    rows = re.findall(r"^\| `(\w+)` \| `?(\S+?)`? \|", page, re.MULTILINE)
    usual = {name: getattr(Parameters, name) for name in NAMES}
    usual |= {"weight": "operand", "gradient": "operand", "between": "accumulate"}
    assert {name: text.strip('"') for name, text in rows} == {name: str(usual[name]) for name in NAMES}
    assert set(DerivativeOptions.__annotations__) == set(NAMES)


@pytest.mark.slow
def test_type_checkers_see_wrong_names(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed: make lint")
    calls = [f"golden.matmul([], [], rows=1, {name}=0)" for name in ("seed", "operan", "gradient")]
    calls += [f"{call}, {name}=0)" for call in _CALLS for name in ("seed", "operan")]
    modules = ("golden", "jax", "onnx", "product", "torch")
    (tmp_path / "calls.py").write_text("\n".join([f"from openmxu_sim import {', '.join(modules)}", *calls]))
    command = [sys.executable, "-m", "mypy", str(tmp_path / "calls.py"), "--cache-dir", str(tmp_path / "cache")]
    text = subprocess.run(command, cwd=_ROOT, check=False, capture_output=True, text=True).stdout
    lines = [int(line) for line in re.findall(r"calls\.py:(\d+): error: Unexpected keyword argument", text)]
    assert lines == [number for number, call in enumerate(calls, 2) if "seed=" not in call], text


@pytest.mark.parametrize("parameter", CASES)
@pytest.mark.parametrize("name", ENTRIES)
def test_every_parameter(name: str, parameter: str, command: Command) -> None:
    """It has its bits, not those without it; where an entry does not have it, that is an error."""
    entry = ENTRIES[name]
    own = {"command": command} if name.startswith("openmxu") else {}
    if parameter in entry.others.split():
        return
    for how in CASES[parameter]:
        if parameter not in entry.parameters():
            with pytest.raises(TypeError, match=parameter):
                entry.multiply(**own, **how)
            continue
        expected = _expected(how)
        same_bits(entry.multiply(**own, **how), expected, note=f"{name}, {how}")
        if parameter not in SAME:
            usual = {"gradient": "bf16"} if parameter == "gradient" else {}
            without = _expected({key: value for key, value in how.items() if key != parameter} | usual)
            assert without.tobytes() != expected.tobytes(), "the case says nothing"
