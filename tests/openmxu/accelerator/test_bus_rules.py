"""Rules of AXI4 for the accelerator's manager, proven by induction from any state: bursts, what stays, what follows."""

from collections.abc import Callable
from typing import Any

import pytest
from amaranth.hdl import Cat, Fragment, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.accelerator.bus.attached import BusAccelerator
from openmxu.accelerator.bus.axi4 import AxiMaster, axi4
from openmxu.accelerator.movers.bursts import MOST, Bursts
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.unit.axi import connect_ports
from openmxu_evidence.formal.paths import combinational_paths
from openmxu_evidence.formal.query import Proof, prove
from openmxu_evidence.formal.specification import ALWAYS

from ...conftest import slow

_CONFIG = AcceleratorConfig(size=4, stages=1, depth=4, rows=16, weights=16, program=32, beat=64)
_REQUEST = ("addr", "len", "size", "burst", "cache")


class _Watched(wiring.Component):
    """The manager behind both joiners of beats, which are offered any beats."""

    module_name = "watched_master"

    def __init__(self, longest: int = MOST, bursts: Any = Bursts, manager: Any = AxiMaster) -> None:
        self._longest = longest
        self.reads, self.writes, self.master = bursts(_CONFIG), bursts(_CONFIG), manager(_CONFIG)
        sizes = {"written": len(Value.cast(self.master.port.written.payload)), "written_valid": 1, "i_base": 20}
        sizes |= {f"{name}_{way}": size for way in ("ar", "aw") for name, size in _BEAT.items()}
        inputs = {name: In(size) for name, size in sizes.items()}
        super().__init__({**inputs, **axi4(_CONFIG), "o_kept": Out(1), "o_given": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """What must hold in each cycle, if it held in the one before."""
        m = Module()
        m.submodules.reads, m.submodules.writes, m.submodules.master = parts = self.reads, self.writes, self.master
        master, rules = parts[2], list[Value]()
        connect_ports(m, self, master, axi4(master.config))
        wiring.connect(m, self.reads.o, master.port.reads)
        wiring.connect(m, self.writes.o, master.port.writes)
        written, bits = master.port.written, Value.cast(master.port.written.payload)
        m.d.comb += [master.i_base.eq(self.i_base), bits.eq(self.written), written.valid.eq(self.written_valid)]
        # The window is the host's, and stays; the sender of beats keeps to the rules of streams.
        stays = self._stays(m, "beats", self.written_valid, written.ready, bits)
        m.d.comb += self.o_given.eq(stays & self._same(m, self.i_base))
        for way, bursts in (("ar", self.reads), ("aw", self.writes)):
            m.d.comb += [
                bursts.i_address.eq(getattr(self, f"address_{way}")),
                bursts.i_valid.eq(getattr(self, f"valid_{way}") & bursts.o_ready),
                bursts.i_flush.eq(getattr(self, f"flush_{way}")),
            ]
            valid, ready = getattr(self, f"{way}valid"), getattr(self, f"{way}ready")
            payload = Cat(getattr(self, f"{way}{name}") for name in _REQUEST)
            address, length = getattr(self, f"{way}addr"), getattr(self, f"{way}len")
            rules += [
                self._stays(m, way, valid, ready, payload),
                ~valid | self._is_within(address[3:12], length),
                ~valid | (address[:3] == 0),
                ~bursts.o.valid | self._is_within(bursts.o.payload.address[:9], bursts.o.payload.length),
                ~bursts.o_open | self._is_within(bursts.burst.address[:9], bursts.burst.length),
                ~bursts.o_open | (bursts.following == (bursts.burst.address + bursts.burst.length + 1)[:32]),
            ]
        rules += [*self._follow_writes(m), *self._follow_answers(m)]
        m.d.comb += self.o_kept.eq(Cat(rules).all())
        return m

    def _is_within(self, beat: Value, length: Value) -> Value:
        """A burst of at most 16 beats of 8 bytes ends in the 4 kB in which it begins."""
        return (beat + length < 512) & (length < self._longest)

    def _same(self, m: Module, value: Value) -> Value:
        before, is_later = Signal.like(value), Signal()
        m.d.sync += [before.eq(value), is_later.eq(1)]
        return ~is_later | (before == value)

    def _stays(self, m: Module, name: str, valid: Value, ready: Value, payload: Value) -> Value:
        """What was offered and not taken is offered still."""
        refused, before = Signal(name=f"{name}_refused"), Signal(len(payload), name=f"{name}_before")
        m.d.sync += [refused.eq(valid & ~ready), before.eq(payload)]
        return ~refused | (valid & (before == payload))

    def _follow_writes(self, m: Module) -> list[Value]:
        """As many beats follow a request as it says, the last one marked, and no other request meanwhile."""
        left = Signal(range(MOST + 1))
        with m.If(self.awvalid & self.awready):
            m.d.sync += left.eq(self.awlen + 1)
        with m.Elif(self.wvalid & self.wready):
            m.d.sync += left.eq(left - 1)
        return [
            left == self.master.left,
            ~self.wvalid | (left != 0),
            ~self.wvalid | (self.wlast == (left == 1)),
            ~self.awvalid | (left == 0),
            self._stays(m, "w", self.wvalid, self.wready, Cat(self.wdata, self.wstrb, self.wlast)),
            self.rready & self.bready,
        ]

    def _follow_answers(self, m: Module) -> list[Value]:
        """An answer without a burst that has ended is an error; before one it is quiet only if all have an answer."""
        ended, failed = Signal(4), Signal()  # bursts without an answer; answers no longer tell which burst they mean
        ends, left, port = self.wvalid & self.wready & self.wlast, self.master.left, self.master.port
        wrong = self.bvalid & ((ended + ends == 0) | self.bresp[1])
        m.d.sync += [ended.eq(ended + ends - (self.bvalid & (ended + ends != 0))), failed.eq(failed | port.error)]
        return [
            failed | (self.master.missing == ended + (left != 0)),
            failed | (port.error == wrong),
            ~port.quiet | ((left == 0) & (failed | (ended == 0))),
        ]


_BEAT: dict[str, Any] = {"address": 32, "valid": 1, "flush": 1}


def _proofs(component: Any) -> list[Proof]:
    Fragment.get(component, None)  # Amaranth warns of components that nobody elaborates
    begins, goes_on = (("rst", 0, 1),), (("rst", 0, 0), ("o_kept", 0, 1), ("o_given", 0, 1), ("o_given", 1, 1))
    said, kept = "the rules hold, after a reset and a cycle later", (("o_kept", 1),)
    return [Proof("master", said, component, ALWAYS, (), kept, given=given) for given in (begins, goes_on)]


@pytest.mark.parametrize(("solver", "count"), [("z3", 1), slow("z3", 2), slow("bitwuzla", 2)])
def test_rules_of_axi4(solver: str, count: int) -> None:
    assert [prove(proof, solver).holds for proof in _proofs(_Watched())[:count]] == [True] * count


class _Pageless(Bursts):
    def __init__(self, config: AcceleratorConfig) -> None:
        super().__init__(config)
        self._page = 12


def _wrong(assign: Callable[[AxiMaster], Any]) -> type[AxiMaster]:
    """A manager with an assignment of its own."""

    class Wrong(AxiMaster):
        def elaborate(self, platform: object) -> Module:
            m = super().elaborate(platform)
            m.d.comb += assign(self)
            return m

    return Wrong


_MISTAKES: dict[str, dict[str, Any]] = {
    "bursts are longer than eight": {"longest": 8},
    "the last beat is marked too early": {"manager": _wrong(lambda it: it.wlast.eq(it.left == 2))},
    "an answer before the last beat is believed": {
        "manager": _wrong(lambda it: it.port.error.eq(it.bvalid & (it.bresp[1] | (it.missing == 0))))
    },
    "a joiner forgets pages": {"bursts": _Pageless},
    "quiet before the last beat": {"manager": _wrong(lambda it: it.port.quiet.eq(it.missing == 0))},
}


@pytest.mark.parametrize("mistake", [*[*_MISTAKES][:3], *map(slow, [*_MISTAKES][3:])])
def test_the_proof_sees(mistake: str) -> None:
    assert prove(_proofs(_Watched(**_MISTAKES[mistake]))[1]).holds is False


@pytest.mark.parametrize("bus", [slow("axi"), slow("wishbone")])
def test_no_output_follows_an_input(bus: str) -> None:
    paths = combinational_paths(BusAccelerator(_CONFIG, bus))
    assert len(paths) > 10
    assert not any(paths.values())
