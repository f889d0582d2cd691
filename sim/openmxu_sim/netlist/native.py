"""C source text into functions of this process."""

import ctypes
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

__all__ = ["CompilationError", "CompilerNotFoundError", "compile_c", "compiler_version", "find_compiler"]

# Contracting a product and a sum into one operation would change what the host computes; errno and traps are
# of no use here, and without them loops with comparisons become vector code.
_FLAGS = ("-std=gnu11", "-O2", "-ftree-vectorize", "-march=native", "-ffp-contract=off", "-fno-math-errno",
          "-fno-trapping-math", "-shared", "-fPIC")


_LOG_LINES = 10


class CompilerNotFoundError(ValueError):
    """There is no C compiler; the text says how to get one."""


class CompilationError(RuntimeError):
    """The compiler refused; the text ends with what it said."""


def find_compiler() -> str:
    """Path of a C compiler: what the variable ``CC`` names, or else cc, gcc or clang.

    Raises
    ------
    CompilerNotFoundError
        None is installed.
    """
    candidates = [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc", "clang"]
    found = next(filter(None, map(shutil.which, candidates)), None)
    if found is None:
        raise CompilerNotFoundError(
            f"a C compiler is needed ({', '.join(candidates)}); install one (Debian and Ubuntu: apt install gcc)"
        )
    return found


def compiler_version() -> str:
    """The first line that the compiler of :func:`find_compiler` says about itself; raises as it does."""
    process = subprocess.run([find_compiler(), "--version"], capture_output=True, text=True, check=False)
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
    compiler = find_compiler()
    with tempfile.TemporaryDirectory(prefix="openmxu-native-") as directory:
        text, library = Path(directory, "source.c"), Path(directory, "library.so")
        text.write_text(source)
        process = subprocess.run([compiler, *_FLAGS, str(text), "-o", str(library), "-lm"], stdin=subprocess.DEVNULL,
                                 capture_output=True, text=True, errors="replace", check=False)
        if process.returncode:
            lines = process.stderr.splitlines()[:_LOG_LINES]
            raise CompilationError("\n".join([f"{compiler} failed", *lines]))
        # Once it is mapped, the file is not needed any more.
        return ctypes.CDLL(str(library))
