"""C source text into functions of this process."""

import ctypes
import importlib.resources
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

__all__ = ["FLAGS", "CompilationError", "CompilerNotFoundError", "build_library", "compile_c", "compiler_version",
           "find_compiler", "open_library", "resource"]

# Contracting a product and a sum into one operation would change what the host computes; errno and traps are
# of no use here, and without them loops with comparisons become vector code.
FLAGS = ("-std=gnu11", "-O2", "-ftree-vectorize", "-march=native", "-ffp-contract=off", "-fno-math-errno",
         "-fno-trapping-math", "-shared", "-fPIC", "-pthread")
"""What the compiler is told."""


class CompilerNotFoundError(ValueError):
    """There is no C compiler; the text says how to get one."""


class CompilationError(ValueError):
    """The compiler refused; the text ends with what it said."""


def resource(package: str, name: str) -> str:
    """A C source file of this project."""
    return importlib.resources.files(package).joinpath(name).read_text()


def find_compiler() -> list[str]:
    """The command of a C compiler: what the variable ``CC`` says; or cc, gcc, clang; or the Python package ziglang.

    Raises
    ------
    CompilerNotFoundError
        None is installed.
    """
    wanted = shlex.split(os.environ.get("CC", ""))
    for command in [wanted] if wanted else [["cc"], ["gcc"], ["clang"]]:
        program = shutil.which(command[0])
        if program is not None:
            return [program, *command[1:]]
    if wanted:
        raise CompilerNotFoundError(f"CC must name a C compiler that is installed, not {os.environ['CC']!r}")
    if find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise CompilerNotFoundError("a C compiler is needed; install one (Debian and Ubuntu: apt install gcc; anywhere: "
                                "pip install 'openmxu[zig]')")


def compiler_version() -> str:
    """What the compiler of :func:`find_compiler` says about itself, on a line.

    Raises
    ------
    CompilerNotFoundError
        There is none.
    CompilationError
        It does not run.
    """
    compiler = find_compiler()
    process = subprocess.run([*compiler, "--version"], capture_output=True, text=True, errors="replace", check=False)
    if process.returncode:
        raise CompilationError(f"C compiler {shlex.join(compiler)} failed: {process.stderr.partition(chr(10))[0]}")
    return process.stdout.partition("\n")[0]


def compile_c(source: str) -> ctypes.CDLL:
    """The functions of a C source text, compiled for this very processor.

    They see GNU C with vector types. While they run, other threads do, too.

    Raises
    ------
    CompilerNotFoundError
        There is no C compiler.
    CompilationError
        It refused the text.
    """
    return open_library(build_library(source))


def build_library(source: str) -> bytes:
    """The shared library of a C source text; otherwise as :func:`compile_c`."""
    compiler = find_compiler()
    with tempfile.TemporaryDirectory(prefix="openmxu-native-") as directory:
        text, library = Path(directory, "source.c"), Path(directory, "library.so")
        text.write_text(source)
        process = subprocess.run([*compiler, *FLAGS, str(text), "-o", str(library), "-lm"], stdin=subprocess.DEVNULL,
                                 capture_output=True, text=True, errors="replace", check=False)
        if process.returncode or not library.is_file():
            lines = process.stderr.splitlines()
            reason = next((line for line in lines if "error" in line), f"exit code {process.returncode}")
            raise CompilationError(f"C compiler {shlex.join(compiler)} failed: {reason.removeprefix(f'{text}:')}")
        return library.read_bytes()


def open_library(library: bytes) -> ctypes.CDLL:
    """The functions of a shared library.

    Raises
    ------
    OSError
        It cannot be opened.
    """
    with tempfile.NamedTemporaryFile(prefix="openmxu-", suffix=".so") as file:
        file.write(library)
        file.flush()
        # Once it is mapped, the file is not needed any more.
        return ctypes.CDLL(file.name)
