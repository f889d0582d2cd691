"""What `openmxu verify` checks, the longer ones in `make slow`; and that its record says what came of it."""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from openmxu.runtime.extras import install
from openmxu_evidence import command as verify_command
from openmxu_evidence.verify import checks as module
from openmxu_evidence.verify import evidence
from openmxu_evidence.verify.check import FAILED, HOLDS, NOT_RUN, OPEN, Check, Outcome
from openmxu_evidence.verify.checks import checks
from openmxu_evidence.verify.evidence import Evidence, Row, to_markdown

from ...conftest import Command, Said, needs_compiler

# Controls have tests of their own, which look at what is found.
_QUICK = {": ".join(key): check for key, check in checks(thorough=False).items() if not key[0].startswith("controls")}

_SLOW = re.compile(
    r"mutants on the proofs|every state of a small unit"
    r"|.*: (pe_bf16_(ieee_s1|flush_s6|flush_t4_s4)_\w+|accumulator_(ieee_s1|flush_s4)_\w+|accumulator_\w+_bf16_replace"
    r"|converter_fp32_bf16_ieee_s0|status_begin|registers_begin|multiplier, flush"
    r"|processing element|array|matrix unit|bits and cycles|parts and wiring of 16x16|synthesised gates against"
    r"|golden model against MPFR|fp16 \+ fp16|fp32 -> bf16, flush"
    r"|fp32 \+ fp32, (ieee|flush, [015] stages)|bf16 x bf16, four times|splitter, flush|adder, flush)"
    # Of these ``flush`` stands for ``ieee``.
    r"|(all operands, on the synthesised gates|mutants on the test benches): .*ieee$"
)
"""Checks that take ten seconds, or have a neighbour in every test run."""
_LONGEST = re.compile(
    r".*: (pe_bf16_(ieee_s1_sum|flush_s6_sum|flush_s6_product)|1x1, 1 stage, depth 2, tiles up to 2"
    r"|(2x2, [13] stages?|2x3, 1 stage), depth 2, tiles up to 1 beat, sums|array|matrix unit|.* of four terms"
    r"|(fp16 \+ fp16|fp32 -> bf16), ieee)"
)
"""Checks of most of a minute, with a neighbour in `make slow`; `make thorough` and `make verify` have them."""


def _marks(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] * bool(_SLOW.match(name)) + [pytest.mark.thorough] * bool(_LONGEST.match(name))


@pytest.mark.parametrize("name", [pytest.param(name, id=name, marks=_marks(name)) for name in _QUICK])
def test_check(name: str) -> None:
    check = _QUICK[name]
    # Some need 6 GB, which a worker would keep.
    outcome = evidence._alone(check, thorough=False, faults=False) if _SLOW.match(name) else check.run()
    assert outcome.status == HOLDS, outcome.detail


def test_the_thorough_run_holds_the_quick_one() -> None:
    thorough = checks(thorough=True)
    assert set(checks(thorough=False)) <= set(thorough)
    assert {check.group for check in thorough.values()} > {check.group for check in checks(thorough=False).values()}


def test_a_check_without_its_simulator_is_not_run(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    """The list of checks is the same on every machine; what is missing is said, and is no failure."""
    before = list(checks.__wrapped__(thorough=True))
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **how: None if name == "iverilog" else which(name, **how))
    assert list(checks.__wrapped__(thorough=True)) == before
    group, name = next(key for key in before if "in icarus" in key[1])
    row = evidence._run(group, name, thorough=True, faults=False)
    assert (row.status, row.detail.partition(";")[0]) == (NOT_RUN, "icarus needs the program iverilog")
    held = Row("ports", "a claim", "", HOLDS, "", "", 1.0)
    assert ", 1 hold, 0 failed, 0 open, 1 not run." in to_markdown(_evidence(held, row))
    for rows, code, said in (
        ([held, row], 0, "the others hold, 1 not run"),
        ([held], 0, "all hold"),
        ([held, row, Row("ports", "another", "", OPEN, "", "", 1.0)], 1, "1 do not hold, 1 not run"),
    ):
        monkeypatch.setattr(verify_command, "verify", lambda rows=rows, **_: _evidence(*rows))
        found, out, _ = command("verify")
        assert (found, out.splitlines()[-1]) == (code, f"{len(rows)} checks in 90 s: {said}")


def _evidence(*rows: Row) -> Evidence:
    return Evidence("2026-01-31", False, 90.0, "a machine, 2 cores", {"Python": "3.11.7"}, rows)


def test_every_check_has_a_name_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or one would take another's place, and nobody would notice."""
    against = [check.against for check in checks(thorough=True).values() if check.group == "independent oracles"]
    assert against == 2 * ["Berkeley SoftFloat"] + 2 * ["MPFR"] + ["JAX, XLA's multiply and add on the CPU"]
    ports = module.path_checks
    monkeypatch.setattr(module, "path_checks", lambda thorough: 2 * [*ports(thorough)])
    with pytest.raises(ValueError, match="name must be another one: ports has two of"):
        checks.__wrapped__(thorough=False)


def test_markdown() -> None:
    rows = [
        Row("one way", "a claim", "an oracle", "holds", "4 | 5 pairs", "", 121.25),
        Row("another way", "a second claim", "an oracle", "open", "", "gave up\nat once", 0.5),
        Row("one way", "a third claim", "an oracle", "failed", "", "0001: got 2, expected 3", 0.0),
    ]
    text = to_markdown(_evidence(*rows))
    assert text.startswith(
        "`openmxu verify`, 2026-01-31, a machine, 2 cores: 3 checks in 2 minutes together, "
        "1 hold, 1 failed, 1 open.\n\n- Python 3.11.7\n\n## One way\n"
    )
    assert "| a claim | an oracle | holds | 4 \\| 5 pairs | 121.2 |\n| a third claim |" in text
    assert "## Another way\n" in text
    assert "| open: gave up; at once |" in text


Instead = Callable[[dict[str, Callable[[], Outcome]]], None]


@pytest.fixture
def instead(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Instead:
    """Have checks of one's own, by their names, in this process."""

    def have(functions: dict[str, Callable[[], Outcome]]) -> None:
        made = {("group", name): Check("group", name, "", function) for name, function in functions.items()}
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.setattr(evidence, "checks", lambda thorough, faults: made)
        monkeypatch.setattr(evidence, "tools", lambda thorough, progress: {"Python": "3"})
        monkeypatch.setattr(evidence.process, "call", lambda _, *given, what, limit: asdict(evidence._run(*given)))

    return have


def test_parts(instead: Instead) -> None:
    """Checks that have one of several texts in their names; tools are shown once where they are the same."""
    instead(dict.fromkeys(("ab", "bc", "cd", "de"), partial(Outcome, HOLDS)))
    first, second = (evidence.verify(jobs=1, only=only) for only in (["b", "c"], ["e"]))
    assert [row.name for row in first.rows] == ["ab", "bc", "cd"]
    assert [row.name for row in second.rows] == ["de"]
    assert Evidence.of_json(first.to_json()) == first
    text = to_markdown(first, second)
    assert re.findall("^`(.*?)`", text, re.M) == ["openmxu verify --only b --only c", "openmxu verify --only e"]
    assert (text.count("- Python 3\n"), text.count("## Group"), text.count("| de |")) == (1, 1, 1)
    other = replace(second, tools={"Python": "4"})
    assert re.findall("^- (.*)", to_markdown(first, other), re.M) == ["Python 3", "Python 4"]


@needs_compiler
def test_command(shown: Said) -> None:
    path = Path("evidence.json")
    assert re.search(r"registers_begin(.|\n)*1 checks in", shown("verify --only registers_begin --json evidence.json"))
    [row] = Evidence.of_json(path.read_text()).rows
    assert (row.name, row.status) == ("registers_begin", "holds")
    assert row.looked_at == "the rules of AXI4-Lite hold after a reset, whatever was before"
    assert json.loads(path.read_text())["tools"]["z3"].startswith("z3 ")


def test_failures(instead: Instead) -> None:
    instead({"name": Mock(side_effect=RuntimeError("the tool fell over"))})
    [row] = evidence.verify(jobs=1).rows
    assert (row.status, row.detail) == (FAILED, "RuntimeError: the tool fell over")


def test_seconds_are_those_of_processors(instead: Instead) -> None:
    """A check's own and its children's, not those in which it sleeps."""

    def work() -> Outcome:
        time.sleep(1.5)
        burn = "import time\nwhile time.process_time() < 0.4: pass"
        subprocess.run([sys.executable, "-c", burn], check=True)
        return Outcome(HOLDS)

    instead({"name": work})
    assert 0.4 <= evidence.verify(jobs=1).rows[0].seconds < 1.5


@pytest.mark.slow
def test_resumed(instead: Instead, monkeypatch: pytest.MonkeyPatch) -> None:
    """What held, or is open, is taken over; what failed or had not been run is run, and all if a source has changed."""
    ran: list[str] = []

    def run(name: str) -> Outcome:
        ran.append(name)
        if name == "d" and len(ran) == 4:
            raise KeyboardInterrupt
        return Outcome({"b": OPEN, "c": FAILED}.get(name, HOLDS), f"{name}: {len(ran)}")

    instead({name: partial(run, name) for name in "abcd"})
    with pytest.raises(KeyboardInterrupt):
        evidence.verify(jobs=1)
    told: list[tuple[int, int]] = []
    found = evidence.verify(jobs=1, resume=True, progress=lambda *state: told.append(state))
    assert ran == ["a", "b", "c", "d", "c", "d"]
    assert [row.looked_at for row in found.rows] == ["a: 1", "b: 2", "c: 5", "d: 6"]
    assert (found.resumed, told) == (2, [(2, 4), (3, 4), (4, 4)])
    assert "2 of them were run before, by a command that was interrupted." in to_markdown(found)
    assert Evidence.of_json(found.to_json()) == found
    evidence.verify(jobs=1)
    assert ran[6:] == ["a", "b", "c", "d"]
    monkeypatch.setattr(evidence, "machine_name", lambda: "another one")
    assert evidence.verify(jobs=1, resume=True).resumed == 0
    monkeypatch.setattr(evidence, "still_all", lambda sources: False)
    monkeypatch.setattr(evidence, "machine_name", lambda: "a third one")
    evidence.verify(jobs=1)
    assert evidence.verify(jobs=1, resume=True).resumed == 0


def test_everything_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, refused: Said) -> None:
    def version(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(evidence.importlib.metadata, "version", version)
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr(evidence.yosys, "prepare", lambda progress: "Yosys")
    complaint = refused("verify --thorough")
    assert "CC must name a C compiler that is installed, not 'no-such-compiler'" in complaint
    assert f"gmpy2 is missing: {install('verify')}; jax is missing" in complaint
    assert complaint.endswith(f"{install('jax')}\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--only proof --only wombat", "no check has 'wombat' in its group or name"),
        ("--jobs 0", "jobs must be an integer from 1 to 1024, not 0"),
        ("--json /no/such/folder/file", "output /no/such/folder/file cannot be written: No such file"),
    ],
)
def test_messages(options: str, message: str, refused: Said) -> None:
    assert message in refused(f"verify {options}")
