"""Compile C text into WebAssembly, by the compiler of the package ziglang."""

import sys
from importlib.metadata import version
from importlib.util import find_spec

from openmxu.runtime import cache, process
from openmxu.runtime.extras import install
from openmxu.runtime.native import CompilationError, CompilerNotFoundError

_FLAGS = (
    "-target",
    "wasm32-wasi",
    "-std=gnu11",
    "-O2",
    "-msimd128",  # in every browser since 2023
    "-ffp-contract=off",
    "-mexec-model=reactor",
    "-s",
)

_LIMIT = 600.0
"""Seconds after which the compiler is stopped. It takes a second, the first time half a minute."""


def has_zig() -> bool:
    """Whether the compiler is installed."""
    return find_spec("ziglang") is not None


def check_zig() -> None:
    """Raise a CompilerNotFoundError if the compiler is not installed."""
    if not has_zig():
        raise CompilerNotFoundError(f"a page with a live unit needs the package ziglang: {install('zig')}")


def build_wasm(text: str) -> bytes:
    """Return the module of a C text, from the cache or compiled now."""
    check_zig()
    return cache.fetch("models", cache.key("wasm", version("ziglang"), repr(_FLAGS), text), lambda: _build(text))


def _build(text: str) -> bytes:
    with process.workspace() as directory:
        source, module = directory / "unit.c", directory / "unit.wasm"
        source.write_text(text)
        command = [sys.executable, "-m", "ziglang", "cc", *_FLAGS, str(source), "-o", str(module)]
        done = process.run(command, what="C compiler of ziglang", limit=_LIMIT)
        if done.code or not module.is_file():
            lines = done.errors.splitlines()
            reason = next((line for line in lines if "error" in line), done.ending)
            raise CompilationError(f"C compiler of ziglang failed: {reason}")
        return module.read_bytes()
