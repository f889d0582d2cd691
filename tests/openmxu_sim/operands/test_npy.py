"""Operands from files and from frameworks: read bit for bit, or refused in one line, whatever is in them."""

import io
import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from openmxu_sim import golden, matmul, simulate
from openmxu_sim.operands.npy import read_arrays, read_matrix

from ...bits import same_bits


def _file(header: str, content: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    length = len(header).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + length + header.encode("latin-1") + content


def _described(shape: str, descr: str = "'<f4'", fortran: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}}}\n"


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=">f8").reshape(2, 3)),
        np.zeros((0, 5), np.float32),
        np.zeros((5, 0), np.float32, order="F"),
        np.float32(3),
        np.arange(4, dtype=np.uint16).view("V2"),
        np.frombuffer(np.uint32([0x7F800001, 0xFFC12345]).tobytes(), np.float32),
    ],
)
@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_what_numpy_writes(version: tuple[int, int], array: Any, tmp_path: Path) -> None:
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array(file, np.asarray(array), version=version)
    found = read_matrix(tmp_path / "a.npy", "A")
    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())


@pytest.mark.parametrize("missing", [0, 1])
def test_pipes(missing: int, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    array = np.arange(100000, dtype=np.float32).reshape(100, 1000)  # more than a pipe holds
    buffer = io.BytesIO()
    np.save(buffer, array)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(pipe.write_bytes, buffer.getvalue()[: len(buffer.getvalue()) - missing])
        if missing:
            with pytest.raises(ValueError, match=r": it ends after 399999 of 400000 bytes$"):
                read_matrix(pipe, "A")
        else:
            np.testing.assert_array_equal(read_matrix(pipe, "A"), array)


_BAD = {
    "empty": b"",
    "other": b"no numbers at all",
    "magic": b"\x93NUMPY",
    "length": b"\x93NUMPY\x01\x00\xff",
    "short": _file(_described("(4, 4)"))[:-9],
    "version 3": _file(_described("(1, 1)"), bytes(4), b"\x03\x00"),
    "version 9": _file(_described("(1, 1)"), bytes(4), b"\x09\x09"),
    "truncated": _file(_described("(4, 4)"), bytes(63)),
    "terabytes": _file(_described("(1048576, 1048576)"), bytes(64)),
    "beyond int64": _file(_described("(99999999999999999999, 1)"), bytes(64)),
    "product overflows": _file(_described("(4294967296, 4294967296)"), bytes(64)),
    "product overflows to nothing": _file(_described("(4611686018427387904, 4)"), bytes(64)),
    "negative": _file(_described("(-1, 4)"), bytes(64)),
    "both negative": _file(_described("(-2, -2)"), bytes(64)),
    "beyond int64 beside 0": _file(_described("(0, 99999999999999999999)")),
    "beyond numpy beside 0": _file(_described("(0, 9223372036854775807, 4)")),
    "no integer": _file(_described("(3, False)")),
    "no tuple": _file(_described("4")),
    "floats": _file(_described("(2.0, 2)"), bytes(64)),
    "no type": _file(_described("(1, 1)", descr="'<q9'"), bytes(64)),
    "type of types": _file(_described("(1, 1)", descr="[('a', '<f4', (1, " + "1, " * 80 + "))]"), bytes(64)),
    "objects": _file(_described("(1, 1)", descr="'|O'"), bytes(64)),
    "order": _file(_described("(1, 1)", fortran="2"), bytes(64)),
    "more keys": _file("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), 'x': 1}"),
    "no literal": _file("__import__('os').abort()"),
    "open bracket": _file("{'descr': '<f4', 'fortran_order': False, 'shape': (3L, "),
    "indentation": _file("  1\n 2\n"),
    "null": _file("\0" * 64),
    "nested": _file(_described("(" * 4000 + "1, 1" + ")" * 4000)),
    "signs": _file(_described("(" + "-" * 9000 + "1, 1)")),
    "long": _file(_described("(1, 1)") + " " * 60000),
}


@pytest.mark.parametrize("name", _BAD)
def test_what_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.npy"
    path.write_bytes(_BAD[name])
    with pytest.raises(ValueError, match=r"^A must be a \.npy file of numbers, not .*bad\.npy: .") as found:
        read_matrix(path, "A")
    assert "\n" not in str(found.value)
    if name == "terabytes":
        size = "the shape (1048576, 1048576) of float32 needs 4398046511104 bytes, and the file has 64"
        assert str(found.value).endswith(size)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives(save: Any, tmp_path: Path) -> None:
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones((3, 2), order="F"), "c": np.int8(3)}
    save(tmp_path / "it.npz", **arrays)
    found = read_arrays(tmp_path / "it.npz", "--input")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], np.asarray(array), strict=True)


def test_only_what_is_asked_for_is_unpacked(tmp_path: Path) -> None:
    """So one may hold more than there is memory, or no array at all, in something else."""
    path = tmp_path / "it.npz"
    np.savez(path, a=np.arange(3))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("b.npy", "no array")
    found = read_arrays(path, "--input")
    assert set(found) == {"a", "b"}
    assert (found["a"] == np.arange(3)).all()
    assert found["a"] is found["a"]
    with pytest.raises(ValueError, match=r"--input must be a .npy file of numbers, not .*it.npz:b.npy: "):
        found["b"]


def test_archives_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "it.npz"
    path.write_bytes(b"no archive")
    with pytest.raises(ValueError, match=r"--input must be a .npz file of arrays, not .*it.npz: File is not"):
        read_arrays(path, "--input")
    np.savez(path, a=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="it holds Python objects"):
        read_arrays(path, "--input")["a"]
    np.savez_compressed(path, a=np.zeros(1000))
    content = bytearray(path.read_bytes())
    content[60:90] = bytes(30)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"--input must be a"):
        read_arrays(path, "--input")["a"]
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / "absent.npz", "--input")


# Tensors of PyTorch and JAX: the bits of NumPy's arrays, and results of their kind


A = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
B = np.random.default_rng(2).standard_normal((7, 3)).astype(np.float32)
with suppress(ImportError):
    import jax  # noqa: F401  # before any test: it sets variables of the environment
OPTIONS: dict[str, Any] = {"rows": 4, "columns": 2, "engine": "golden"}


def _import(framework: str) -> Any:
    return pytest.importorskip(framework, reason=f"{framework} is not installed: make setup-models")


def _made(framework: str, array: Any) -> Any:
    """An array of a framework, by way of a list: nothing of ours."""
    module = _import(framework)
    return module.tensor(array.tolist()) if framework == "torch" else module.numpy.array(array.tolist())


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_tensors(framework: str) -> None:
    a, b = _made(framework, A), _made(framework, B)
    expected = golden.matmul(A, B, rows=4)
    for pair in ((a, b), (a, B), (A, b)):
        found = matmul(*pair, **OPTIONS)
        assert type(found) is type(a)
        same_bits(np.asarray(found), expected)
    assert isinstance(simulate(a, b, **OPTIONS).result, np.ndarray)
    assert type(matmul(a[0], b[:, 0], **OPTIONS)) is type(a)
    stacked = matmul(_made(framework, np.stack([A, A])), b, **OPTIONS)
    assert np.array_equal(np.asarray(stacked)[1], expected)


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_bfloat16_of_tensors(framework: str) -> None:
    a, b = _made(framework, A), _made(framework, B)
    narrow = [each.bfloat16() if framework == "torch" else each.astype("bfloat16") for each in (a, b)]
    given = [each.astype(ml_dtypes.bfloat16) for each in (A, B)]
    expected = simulate(*given, **OPTIONS, output="bf16")
    found = simulate(*narrow, **OPTIONS, output="bf16")
    same_bits(found.result, expected.result)
    assert found.statistics.config == expected.statistics.config
    for pair, right in ((narrow, expected.result), ([narrow[0][0], narrow[1][:, 0]], expected.result[0, 0])):
        result = matmul(*pair, **OPTIONS, output="bf16")
        assert str(result.dtype).endswith("bfloat16")
        wide = result.float().numpy() if framework == "torch" else np.asarray(result, np.float32)
        assert np.array_equal(wide, np.asarray(right, np.float32))


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_float8_of_tensors(name: str) -> None:
    torch = _import("torch")
    patterns = np.arange(256, dtype=np.uint8)[:, None]
    one = np.ones((1, 1), np.float32)
    tensor = torch.from_numpy(patterns.copy()).clone().view(getattr(torch, name))
    how: dict[str, Any] = {"operand": "fp32", "subnormals": "ieee"}
    found = matmul(tensor, torch.ones(1, 1), **OPTIONS, **how).numpy()
    expected = golden.matmul(patterns.view(getattr(ml_dtypes, name)).astype(np.float32), one, rows=4, **how)
    same_bits(found, expected)
    assert tensor.untyped_storage().resizable()


def test_tensors_that_are_no_operands() -> None:
    a = _import("torch").ones(2, 2)
    grad = a.clone().requires_grad_()
    for left, right, message in (
        (grad, a, r"^a must be a tensor without derivatives, as of detach\(\); .*torch.matmul has"),
        (a, a.to_sparse(), r"^b must be a dense tensor on the CPU, not torch.sparse_coo on cpu$"),
        (a.to("meta"), a, r"^a must be a dense tensor on the CPU, not torch.strided on meta$"),
        (a * 1j, a, r"^a must be an array of real numbers, not of complex64$"),
    ):
        with pytest.raises(TypeError, match=message):
            matmul(left, right, **OPTIONS)
    negative = (a * 1j).conj().imag
    assert negative.is_neg()
    assert matmul(negative, a, **OPTIONS).tolist() == [[-2, -2], [-2, -2]]
