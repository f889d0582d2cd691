"""The campaign of faults in short, and that it would notice if something gave way."""

import ctypes
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from openmxu.runtime import cache, native
from openmxu_evidence.verify import evidence
from openmxu_evidence.verify.check import HANG, LEFTOVER, LOST, OUTCOMES, SURVIVED, WRONG
from openmxu_evidence.verify.checks import checks
from openmxu_evidence.verify.evidence import Evidence, Row, faults_to_markdown
from openmxu_sim.engines.compiled import model
from openmxu_sim.golden import environment
from openmxu_studies import faults
from openmxu_studies.faults import CLASSES, FaultClass, compilers, damage, settings

from ..conftest import needs_compiler, slow

pytestmark = needs_compiler


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Trials change it: each process of a campaign runs one batch."""
    for name in ("XDG_CACHE_HOME", "HOME", "CC", "COLUMNS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    for name in ("_LIMIT", "_ANSWER_LIMIT"):
        monkeypatch.setattr(native, name, getattr(native, name))
    yield
    model.load_model.cache_clear()


SHORT = {each.module: each for each in CLASSES if each.short}
MORE = [slow(name, 2) for name in ("kills", "compilers")]


@pytest.mark.parametrize(
    ("name", "count"),
    [*((slow if name in ("compilers", "damage", "settings") else pytest.param)(name, 0) for name in SHORT), *MORE],
)
def test_all_are_survived(name: str, count: int) -> None:
    """As many as tests try, and others."""
    tried = count or SHORT[name].short
    tally = faults.try_class(SHORT[name], count=tried, first=2_000_000 if count else 1_000_000)
    assert tally.holds, tally
    assert tally.tried == tried


def outcomes(module: ModuleType, folder: Path, count: int) -> set[str]:
    """How the first faults end in this process."""
    found = set()
    for seed in range(count):
        (folder / str(seed)).mkdir()
        found.add(module.trial(seed, folder / str(seed))[0])
    return found


def test_a_cache_that_compares_no_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_digest", lambda key, content: bytes(32))
    assert WRONG in outcomes(damage, tmp_path, 40)


def test_settings_that_are_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_found", None)
    monkeypatch.setattr(environment, "_check", lambda: None)
    monkeypatch.setattr(settings, "_ENGINES", ("golden",))
    assert outcomes(settings, tmp_path, 40) == {SURVIVED, WRONG}


def test_settings_that_are_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_ENGINES", ("golden",))
    libm, by = ctypes.CDLL("libm.so.6"), settings.Product.by
    monkeypatch.setattr(settings.Product, "by", lambda *given: (by(*given), libm.fesetround(0x400))[0])
    try:
        assert LOST in outcomes(settings, tmp_path, 10)
    finally:
        libm.fesetround(0)


def test_a_compiler_that_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "try_library", lambda *given, **named: True)
    monkeypatch.setattr(compilers, "_PATIENCE", 60.0)  # a loaded machine's compiler lies, too
    lie = compilers._KINDS["lie"].replace("{change}", "s/int64_t k = ROWS - 1 - s->beat/int64_t k = s->beat/")
    monkeypatch.setattr(compilers, "_KINDS", dict.fromkeys(compilers._KINDS, lie))
    assert compilers.trial(0, tmp_path)[0] == WRONG


def test_batches_that_hang_or_die() -> None:
    hang = FaultClass("hangs", "..faults.kills", 1, 1, 5, 0.05)
    tally = faults.try_class(hang, count=5)
    assert (tally.counts[HANG], tally.tried, tally.holds) == (5, 5, False)
    dead = FaultClass("dies", "no_such_module", 1, 1, 5, 60)
    tally = faults.try_class(dead, count=7)
    assert (tally.counts[LOST], tally.tried) == (7, 7)
    assert "no_such_module" in tally.shown[0]


def test_what_goes_wrong_is_counted_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = iter([(SURVIVED, ""), (WRONG, "bits"), (LEFTOVER, "a file"), (SURVIVED, "")])
    monkeypatch.setattr(damage, "trial", lambda seed, folder: next(said))
    assert faults.run_batch("damage", 5, 9, str(tmp_path)) == {
        "counts": {SURVIVED: 2, WRONG: 1, LEFTOVER: 1},
        "shown": [f"seed 6: {WRONG}: bits", f"seed 7: {LEFTOVER}: a file"],
    }


def test_the_campaign_is_large_enough() -> None:
    assert sum(each.long for each in CLASSES) >= 4500
    assert len(checks(thorough=False, faults=True)) == len(CLASSES)


def test_table() -> None:
    rows = (
        Row("faults", "one", "", "holds", "", "", 1.0, dict.fromkeys(OUTCOMES, 1000)),
        Row("faults", "two", "", "holds", "", "", 1.0, {SURVIVED: 7}),
    )
    text = faults_to_markdown(Evidence("2026-01-31", False, 120.0, "a machine", {}, rows))
    assert text.splitlines()[0] == "`openmxu verify --faults`, 2026-01-31, a machine, 2 minutes."
    assert "| one | 5,000 | 1,000 | 1,000 | 1,000 | 1,000 | 1,000 |" in text
    assert "| two | 7 | 7 | 0 | 0 | 0 | 0 |" in text
    assert "| **all** | 5,007 | 1,007 | 1,000 | 1,000 | 1,000 | 1,000 |" in text


def test_a_campaign_goes_on_only_with_the_same_faults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They are in a package of their own, whose files count."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    row = Row("faults", "some", "", "holds", "", "", 1.0)
    evidence._Kept("here").keep(row)
    assert evidence._Kept("here").find("faults", "some") == row
    *others, _ = evidence.SOURCES
    edited = SimpleNamespace(digest=lambda _: "another", still=lambda: True)
    monkeypatch.setattr(evidence, "SOURCES", (*others, edited))
    assert evidence._Kept("here").find("faults", "some") is None
