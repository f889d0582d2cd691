"""Damage files for a reader: ``python -m tests.torture.fuzz READER SEED FIRST COUNT FOLDER``.

Input FIRST and those after it, COUNT in all, depend on the seed and their number alone. Each must be read, or refused
by an error of the reader's row; within a time, within memory, and without a warning. Others stay in the folder.
"""

import resource
import signal
import sys
import traceback
import warnings
from pathlib import Path
from random import Random

from .readers import READERS, Reader

_LIMIT, _MEMORY = 20, 6 << 30
"""Seconds for an input, and bytes of addresses."""


class _Hang(BaseException):
    """An input takes too long."""


def _hang(*_: object) -> None:
    raise _Hang


def outcome(reader: Reader, path: Path) -> str:
    """What a reader does that it must not; empty for what it may."""
    signal.alarm(_LIMIT)
    try:
        reader.read(path)
    except reader.errors as error:
        return "" if str(error) else f"{type(error).__name__} without a text"
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}: {str(error)[:100]!r}"
    finally:
        signal.alarm(0)
    return ""


def main(name: str, seed: str, first: str, count: str, folder: str) -> int:
    """Try so many inputs; the exit code is 1 if one has failed."""
    reader = READERS[name]
    seeds = reader.seeds()
    for content in seeds:
        Path(folder, reader.file).write_bytes(content)
        reader.read(Path(folder, reader.file))  # whole files are read
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    signal.signal(signal.SIGALRM, _hang)
    warnings.simplefilter("error")
    failures: dict[str, int] = {}
    for number in range(int(first), int(first) + int(count)):
        random = Random(f"{name} {seed} {number}")
        content = reader.mutated(random.choice(seeds), random)
        path = Path(folder, reader.file)
        path.write_bytes(content)
        if problem := outcome(reader, path):
            kind = problem.split(": ")[0]
            if kind not in failures:
                Path(folder, f"{name}.{number}").write_bytes(content)
                print(f"input {number}: {problem}", flush=True)
            failures[kind] = failures.get(kind, 0) + 1
    print(f"{name}, seed {seed}: {count} inputs, {sum(failures.values())} failures")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
