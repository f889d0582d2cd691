"""Junk on the command line and in files: one line and an exit code, never a traceback."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from openmxu.cli.frame import main

from ...conftest import slow

_NUMBERS = f"0|-1|1|3|1000000000|{'9' * 400}|1e999|nan|inf|-inf|| |0x10|1.5|٣|None".split("|")
_WORDS = (
    f"| |-|--|..|/|/dev/null|/proc/self/mem|/proc/x|a\nb|a\x1b[2J|\udcff|é|{'a' * 300}|missing/x|A.npy|B.npy|junk|"
    "folder|loop|fp16|ieee|e4f3|e0f0|e99999f1|highest|0:1|5:3|1,2|adder|generic|speed|\x00"
).split("|")
_COMMANDS = {
    "matmul A.npy B.npy --engine golden --rows 2 --columns 2": (
        "rows columns stages precision subnormals output units engine stalls stats vcd vcd-rows vcd-cycles output-file"
    ),
    "verilog product": "width operand rows stages name template core bus output-file",
    "area -o out --liberty junk": (
        "liberty target recipe format part width stages rows jobs timeout compare explain output cluster"
    ),
    "roofline --rows 4": "rows columns stages clock bandwidth json plot",
    "wave --rows 300": "m k n stages stalls at output-file",
    "verify --only nothing-is-called-so": "jobs json",
    "cache clear --kind junk": "kind",
    "board build junk -o out": "output",
    "bench --limit 0": "json plot",
    "accuracy --seed -1": "json",
}
"""What is usual, and options that junk is put behind."""


def _arguments(random_: random.Random) -> list[str]:
    usual = random_.choice(list(_COMMANDS))
    options = _COMMANDS[usual].split()
    arguments = usual.split()
    for _ in range(random_.randrange(4)):
        arguments += [f"--{random_.choice(options)}", random_.choice(random_.choice([_NUMBERS, _WORDS]))]
    # Some would work for minutes, if they did not have a mistake among what is usual here.
    if random_.random() < 0.3 and arguments[0] not in ("verify", "bench", "accuracy", "wave"):
        arguments[random_.randrange(1, len(arguments))] = random_.choice(random_.choice([_NUMBERS, _WORDS]))
    return arguments


def _damaged(random_: random.Random, content: bytes) -> bytes:
    kept = bytearray(content)
    for _ in range(random_.randrange(1, 4)):
        start = random_.randrange(len(kept) or 1)
        stop = start + random_.randrange(20)
        pieces = [b"", random_.randbytes(3), bytes(kept[start:stop]) * 3, b"9" * 30, b"((((", b"nan"]
        kept[start:stop] = random_.choice(pieces)
    return bytes(kept)


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")  # a mistake came between
@pytest.mark.parametrize("seed", [0, 1, *map(slow, range(2, 5))])
def test_junk(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    random_ = random.Random(seed)
    Path("loop").symlink_to("loop")
    Path("folder").mkdir()
    np.save("good.npy", np.ones((2, 2), np.float32))
    good = Path("good.npy").read_bytes()
    report = json.dumps({"schema": 2, "tool": "", "targets": [], "results": [], "catalog": []}).encode()
    library = b"library (a) { cell (b) { area : 1; } }"
    for _ in range(40):
        for name in ("A.npy", "B.npy"):
            Path(name).write_bytes(_damaged(random_, good) if random_.random() < 0.5 else good)
        Path("junk").write_bytes(_damaged(random_, random_.choice([good, report, library])))
        arguments = _arguments(random_)
        code = main(arguments)
        out, err = capsys.readouterr()
        assert code in (0, 1, 2), arguments
        assert "Traceback" not in out + err, arguments
        assert all(line.isprintable() for line in err.splitlines()), arguments
        if code:
            complaints = [line for line in err.splitlines() if line.startswith("openmxu")]
            assert len(complaints) == 1, (arguments, err)
