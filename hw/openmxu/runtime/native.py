"""Compile C source text into functions of this process."""

import ctypes
import importlib.resources
import json
import os
import shlex
import shutil
import sys
from importlib.util import find_spec

from openmxu.runtime import process
from openmxu.runtime.extras import install

# Contracting a product and a sum into one operation would change what the host computes; errno and traps are
# of no use here, and without them loops with comparisons become vector code.
FLAGS = (
    *("-std=gnu11", "-O2", "-ftree-vectorize", "-march=native", "-ffp-contract=off", "-fno-math-errno"),
    *("-fno-trapping-math", "-shared", "-fPIC", "-pthread"),
)
"""Options of the compiler."""

_LIMIT = 1800.0
"""Seconds after which the compiler is stopped. It takes ten for the largest texts."""

_ANSWER_LIMIT = 60.0
"""Seconds within which the compiler must tell its version."""

_ENVIRONMENT = (
    *(
        "CPATH",
        "C_INCLUDE_PATH",
        "CPLUS_INCLUDE_PATH",
        "LIBRARY_PATH",
        "LD_LIBRARY_PATH",
        "LD_RUN_PATH",
        "COMPILER_PATH",
    ),
    *("GCC_EXEC_PREFIX", "CCC_OVERRIDE_OPTIONS", "LD_PRELOAD", "SDKROOT", "MACOSX_DEPLOYMENT_TARGET"),
    *("DEPENDENCIES_OUTPUT", "SOURCE_DATE_EPOCH"),
)
"""Environment variables that change the code that compilers make of a text."""


class CompilerNotFoundError(ValueError):
    """There is no C compiler; the text says how to get one."""


class CompilationError(ValueError):
    """The compiler failed; the text ends with its message."""


def resource(package: str, name: str) -> str:
    """Return a C source file of this project."""
    return importlib.resources.files(package).joinpath(name).read_text()


def find_compiler() -> list[str]:
    """Return the command of a C compiler: the variable ``CC``; or cc, gcc, clang; or the Python package ziglang."""
    wanted = shlex.split(os.environ.get("CC", ""))
    for command in [wanted] if wanted else [["cc"], ["gcc"], ["clang"]]:
        program = shutil.which(command[0])
        if program is not None:
            return [program, *command[1:]]
    if wanted:
        raise CompilerNotFoundError(f"CC must name a C compiler that is installed, not {os.environ['CC']!r}")
    if find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise CompilerNotFoundError(
        f"a C compiler is needed; install one (Debian and Ubuntu: apt install gcc; anywhere: {install('zig')})"
    )


def compiler_version() -> str:
    """Return the first line of the version text of :func:`find_compiler`'s compiler."""
    return _version(find_compiler())


def compiler_identity() -> str:
    """Return the identity of :func:`find_compiler`'s compiler and its options, for the key of its results."""
    compiler = find_compiler()
    return json.dumps([program_identity(compiler[0]), compiler, _version(compiler), FLAGS])


def program_identity(program: str) -> list[str]:
    """Return data that tell a compiler, and its environment, from another one of the same name."""
    path = os.path.realpath(program)
    status = os.stat(path)
    settings = [f"{name}={os.environ[name]}" for name in _ENVIRONMENT if name in os.environ]
    return [path, str(status.st_size), str(status.st_mtime_ns), *settings]


def _version(compiler: list[str]) -> str:
    done = process.run([*compiler, "--version"], what="C compiler, asked for its version,", limit=_ANSWER_LIMIT)
    if done.code:
        raise CompilationError(f"C compiler {shlex.join(compiler)} failed: {done.errors.partition(chr(10))[0]}")
    return done.output.partition("\n")[0]


def build_library(source: str) -> bytes:
    """Return the shared library of a C source text; the text may have GNU C with vector types."""
    compiler = find_compiler()
    with process.workspace() as directory:
        text, library = directory / "source.c", directory / "library.so"
        text.write_text(source)
        done = process.run([*compiler, *FLAGS, str(text), "-o", str(library), "-lm"], what="C compiler", limit=_LIMIT)
        if done.code or not library.is_file():
            lines = done.errors.splitlines()
            reason = next((line for line in lines if "error" in line), done.ending)
            raise CompilationError(f"C compiler {shlex.join(compiler)} failed: {reason.removeprefix(f'{text}:')}")
        return library.read_bytes()


def open_library(library: bytes) -> ctypes.CDLL:
    """Return the functions of a shared library. While they run, other threads do, too."""
    with process.workspace() as directory:
        file = directory / "library.so"
        file.write_bytes(library)
        # Once it is mapped, the file is not needed any more.
        return ctypes.CDLL(str(file))
