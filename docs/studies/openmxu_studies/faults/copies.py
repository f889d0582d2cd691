"""Copies of the project's sources in which the hardware can be changed, and programs that run on them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import openmxu
import openmxu_sim
from openmxu_studies.faults.products import Product


class Edit(NamedTuple):
    """A change of the hardware that changes the bits of the product: a file, the old text, and the new text."""

    file: str
    old: str
    new: str


EDITS = (
    Edit("hw/openmxu/arith/datapath/round.py", "return kept, guard & (kept[0]", "return kept, Const(0, 1) & (kept[0]"),
    Edit("hw/openmxu/arith/datapath/round.py", "return kept, guard & (kept[0]", "return kept, guard | (kept[0]"),
    Edit("hw/openmxu/unit/pe.py", "multiply_add.i_b.eq(active)", "multiply_add.i_b.eq(activation)"),
    Edit("hw/openmxu/unit/accumulator.py", "Mux(control.add, kept,", "Mux(control.add & 0, kept,"),
)

_PROGRAM = """\
import sys
import numpy as np
import openmxu_sim
{imports}
print("ready", flush=True)
sys.stdin.readline()
a, b = (np.frombuffer(bytes.fromhex(text), np.float32) for text in ("{a}", "{b}"))
print(openmxu_sim.matmul(a.reshape(3, -1), b.reshape(-1, 3), rows=2, columns=2, subnormals="{mode}",
                         engine="compiled").tobytes().hex())
"""


class Copy:
    """The sources of both packages in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for package, path in ((openmxu, "hw/openmxu"), (openmxu_sim, "sim/openmxu_sim")):
            shutil.copytree(
                Path(str(package.__file__)).parent, folder / path, ignore=shutil.ignore_patterns("__pycache__")
            )

    def change(self, edit: Edit, *, back: bool = False) -> None:
        """Make an edit, or take it back."""
        file = self.folder / edit.file
        old, new = (edit.new, edit.old) if back else (edit.old, edit.new)
        text = file.read_text()
        if text.count(old) != 1:
            raise ValueError(f"edit must be of what stands once in {edit.file}, not {text.count(old)} times: {old}")
        file.write_text(text.replace(old, new))

    def start(self, product: Product, cache: Path, imports: Sequence[str] = ()) -> "Question":
        """Start a process that imports some modules, and multiplies on request."""
        program = _PROGRAM.format(
            imports="\n".join(f"import {name}" for name in imports),
            a=product.a.tobytes().hex(),
            b=product.b.tobytes().hex(),
            mode=product.mode,
        )
        environment = os.environ | {
            "XDG_CACHE_HOME": str(cache),
            "PYTHONPATH": os.pathsep.join(str(self.folder / name) for name in ("hw", "sim")),
        }
        return Question(
            subprocess.Popen(
                [sys.executable, "-c", program],
                env=environment,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )

    def multiply(self, product: Product, cache: Path) -> bytes | str:
        """Start a process and ask it at once; returns its answer."""
        return self.start(product, cache).answer()


class Question:
    """A process of :meth:`Copy.start`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def wait(self) -> None:
        """Wait until the process has imported its modules."""
        if self._process.stdout is not None:
            self._process.stdout.readline()

    def answer(self) -> bytes | str:
        """Ask for the product; returns its bits, or the error messages of the process."""
        output, errors = self._process.communicate("\n")
        if self._process.returncode:
            return errors
        return bytes.fromhex(output.split()[-1])


_DRAWS = 20
"""Most products to try until one tells all versions apart. Most do that have more than one tile."""

_known: list[tuple[Product, dict[Edit | None, bytes | str]]] = []


def references(random: Random, folder: Path) -> tuple[Product, dict[Edit | None, bytes | str]]:
    """Return a product, and its bits on each version of the sources, each with its own cache; once in a process."""
    if _known:
        return _known[0]
    copies = [Copy(folder / f"reference {number}") for number in range(len(EDITS))]
    for copy, edit in zip(copies, EDITS, strict=True):
        copy.change(edit)
    for _ in range(_DRAWS):
        product = Product(random)
        results: dict[Edit | None, bytes | str] = {None: product.right}
        for copy, edit in zip(copies, EDITS, strict=True):
            results[edit] = copy.multiply(product, copy.folder / "cache")
        if not all(isinstance(bits, bytes) for bits in results.values()):
            raise ValueError(f"versions must give bits, not {results}")
        if len(set(results.values())) == len(results):
            _known.append((product, results))
            return _known[0]
    raise ValueError(f"one of {_DRAWS} products must tell all versions apart")
