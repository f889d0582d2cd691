"""Commands: words, text, and what is refused."""

from contextlib import suppress

import numpy as np
import pytest

from openmxu.spec.commands import KINDS, WORDS, Command, Level, assemble, disassemble

_TEXT = """\
load loads=0 rows=4 valid=4 address=4000000000 x=3:1:4 y=2:5:-20
matmul tag=7 loads=0 reads=0 writes=960 bias emit relu weights=9 x=28:1:1 y=28:30:30 kx=3:1 ky=3:30 n=2:0:900
pool computes=0 reads=1 writes=2 kx=2:1 ky=2:30 x=14:2:1 y=14:60:14
store computes=1 rows=0 valid=1 address=0
end tag=9
"""


def test_text_and_words() -> None:
    program = assemble(f"# a comment\n\n{_TEXT.replace('pool', '  pool  ')}")
    assert disassemble(program) == _TEXT
    assert [Command.of_words(command.words) for command in program] == program
    assert [command.opcode for command in program] == ["load", "matmul", "pool", "store", "end"]
    assert all(len(command.words) == WORDS for command in program)


def test_words_of_a_layer() -> None:
    """Worked out by hand: a step is the stride less the way that inner levels have gone."""
    [layer] = assemble(
        "matmul tag=7 loads=0 reads=5 writes=960 bias emit weights=9 x=28:1:1 y=28:30:30 kx=3:1 n=2:0:900"
    )
    x, y = 27 * 1, 27 * 1 + 27 * 30
    trips, steps = (28, 28, 3, 1, 1, 2), (1, 30 - x, 1 - y, -y - 2, -y - 2, -y - 2)
    levels = ((step & 0xFFFFF) << 12 | count for count, step in zip(trips, steps, strict=True))
    assert layer.words == (0x0007_0052, 0xFF0, 960 << 16 | 5, *levels, 1, 30 - x, 900 - y, 9, 0, 0, 0)


def test_words_of_a_load() -> None:
    """Rows have 19 bits, words of a row the 13 above them: those of a row of 4,096."""
    for opcode, code, flag in (("load", 0x11, "into_weights"), ("store", 0x04, "")):
        [move] = assemble(f"{opcode} rows=458753 valid=4096 address=9 x=3:1:4 {flag}")
        levels = (1 << 12 | 3, 0xFFFFE << 12 | 1, 0xFFFFE << 12 | 1, 0, 0, 0)
        others = (4, -8 & 0xFFFF_FFFF, -8 & 0xFFFF_FFFF)
        assert move.words == (code, 0xFFF, 4096 << 19 | 0x70001, *levels, *others, 9, 0, 0, 0)


@pytest.mark.parametrize("opcode", KINDS)
def test_any_command(opcode: str) -> None:
    """Random numbers, the ends of their domains among them, survive both forms."""
    rng = np.random.default_rng(1)
    kind = KINDS[opcode]
    for _ in range(200):
        ends = {name: (0 if name != "valid" else 1, place.most) for name, place in kind.fields.items()}
        values = {name: int(rng.choice([*some, rng.integers(*some, endpoint=True)])) for name, some in ends.items()}
        levels = {
            name: Level(
                *(int(rng.choice([1, 2, 9])), int(rng.integers(-2000, 2001))),
                int(rng.integers(-2000, 2001)) if name in kind.others else 0,
            )
            for name in kind.levels
        }
        command = Command(opcode, values, levels)
        assert Command.of_words(command.words) == command
        assert assemble(disassemble([command])) == [command]


def test_bits_of_no_field_are_refused() -> None:
    """Each bit of each command flipped gives another command, or is refused."""
    for command in assemble(_TEXT):
        for bit in range(32 * WORDS):
            words = list(command.words)
            words[bit // 32] ^= 1 << bit % 32
            with suppress(ValueError):
                assert Command.of_words(words) != command


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nop", "opcode must be one of load, matmul, pool, store, end, not 'nop'"),
        ("pool reads=1", "pool must have writes"),
        ("end relu", "end must have fields tag, loads, computes, stores, not relu"),
        ("end tag", "tag must be an integer, not ''"),
        ("end x=3:1", "x must be an integer, not '3:1'"),
        ("end n=3", "end must have fields tag, loads, computes, stores, not n"),
        ("end tag=1 tag=1", "tag must be given once"),
        ("end tag=65536", "tag must be an integer from 0 to 65535, not 65536"),
        ("end loads=16", "loads must be an integer from 0 to 15, not 16"),
        ("pool reads=0 writes=1 x=0:1", "trips of x must be an integer from 1 to 4095, not 0"),
        ("pool reads=0 writes=1 x=1:2:3:4", "x must be trips:stride:other, not '1:2:3:4'"),
        ("pool reads=0 writes=1 kx=2:1:1", "kx must have one stride, not 1:1"),
        ("pool reads=0 writes=1 x=2:524288", "step of x must be an integer from -524288 to 524287, not 524288"),
        ("pool reads=0 writes=1 x=2:٣", "x must be trips:stride:other, not '2:٣'"),
    ],
)
def test_bad_lines(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^line 2: ") as raised:
        assemble(f"end\n{line}\n")
    assert str(raised.value) == f"line 2: {message}"


def test_bad_values() -> None:
    with pytest.raises(TypeError, match=r"^tag must be an integer from 0 to 65535, not 1.5$"):
        Command("end", {"tag": 1.5})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match=r"^opcode must be one of 1, 2, 3, 4, 5, not 0$"):
        Command.of_words([0] * WORDS)
