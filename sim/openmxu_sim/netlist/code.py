"""A circuit as C functions, on one copy of it or on as many copies at once as a vector register has lanes.

A word is an array of 32-bit limbs, lowest first; bits above its width are low. A word of one bit is all ones where it
is high, so that it can mask others.
"""

import re
from collections.abc import Collection, Iterable, Sequence

from openmxu_sim.netlist.body import LIMB, Body, limbs
from openmxu_sim.netlist.circuit import Circuit


class Code:
    """C text for a circuit: the structures ``NAME_state``, ``NAME_in``, ``NAME_out``, and functions on them.

    The text needs the types ``word`` and ``sword`` (vectors of ``LANES`` 32-bit numbers) before it.
    """

    def __init__(self, circuit: Circuit, name: str, *, lanes: bool, only: Sequence[str] = ()) -> None:
        self._circuit = circuit
        self._name = name
        self._lanes = lanes
        kept = self._needed(only or list(circuit.outputs))
        self._registers = [register for register in circuit.registers.values() if register.name in kept]
        self._reads = [read for read in circuit.reads.values() if read.name in kept]
        self._writes = [write for write in circuit.writes if write.memory.name in kept]
        self.fields: dict[str, tuple[str, int]] = {}
        for register in self._registers:
            self.fields[register.name] = self._identifier(register.name), register.width
        for read in self._reads:
            self.fields[read.name] = self._identifier(read.name), read.memory.width
        memories = [memory for memory in circuit.memories.values() if memory.name in kept]
        self._memories = {memory.name: self._identifier(memory.name) for memory in memories}
        word, copies = ("word", "LANES") if lanes else ("uint32_t", "1")
        state = [f"{word} {field}[{limbs(width)}];" for field, width in self.fields.values()]
        for register in (register for register in self._registers if register.cycles > 1):
            field, width = self.fields[register.name]
            state.append(f"uint32_t {field}_at; {word} {field}_before[{register.cycles - 1}][{limbs(width)}];")
        for memory in memories:
            narrow = 16 if 1 < memory.width <= 16 else LIMB  # a bit is all ones
            places = f"[{memory.depth}][{limbs(memory.width)} * {copies}]"
            state.append(f"uint{narrow}_t {self._memories[memory.name]}{places};")
        self._text = [
            _structure(f"{name}_state", state or ["char nothing;"]),
            _structure(f"{name}_in", [f"{word} {port}[{limbs(width)}];" for port, width in circuit.inputs.items()]),
            _structure(
                f"{name}_out", [f"{word} {port}[{limbs(len(bits))}];" for port, bits in circuit.outputs.items()]
            ),
            self._begin(),
        ]

    def text(self) -> str:
        """Return the C text of the structures and of all functions that were added."""
        return "\n".join(self._text)

    def _identifier(self, name: str) -> str:
        clean = re.sub(r"\W+", "_", name).strip("_")
        taken = {field for field, _ in self.fields.values()}
        return clean if clean not in taken else f"{clean}_{len(taken)}"

    def _begin(self) -> str:
        lines = []
        for register in self._registers:
            field, width = self.fields[register.name]
            for limb in range(limbs(width)):
                value = register.initial >> (LIMB * limb) & 0xFFFFFFFF
                if value:
                    value = 0xFFFFFFFF if width == 1 else value
                    lines.append(f"s->{field}[{limb}] = {Body.constant(value, self._lanes)};")
        return _function(f"void {self._name}_begin(struct {self._name}_state *s)", ["(void)s;", *lines])

    def function(
        self, suffix: str, outputs: Iterable[str], *, inputs: Collection[str] = (), clock: bool = False, copies: int = 1
    ) -> None:
        """Add ``void NAME_SUFFIX(struct NAME_state *, const struct NAME_in *, struct NAME_out *)``."""
        body = Body(self._circuit, self.fields, self._lanes)
        for output in outputs:
            node = self._circuit.word(self._circuit.outputs[output])
            body.allow(inputs, f"{self._name}'s output {output}")
            body.lines += [f"o@->{output}[{limb}] = {expression};" for limb, expression in enumerate(body.limbs(node))]
        if clock:
            body.allow(None, "")
            self._clock(body)
        lines = [
            line.replace("@", str(copy))
            for line in [
                f"struct {self._name}_state *const s@ = s + @;",
                f"const struct {self._name}_in *const i@ = i + @;",
                f"struct {self._name}_out *const o@ = o + @;",
                "(void)s@, (void)i@, (void)o@;",
                *body.lines,
            ]
            for copy in range(copies)
        ]
        arguments = f"struct {self._name}_state *s, const struct {self._name}_in *i, struct {self._name}_out *o"
        self._text.append(_function(f"void {self._name}_{suffix}({arguments})", lines))

    def _needed(self, outputs: Iterable[str]) -> set[str]:
        """Return the registers, read ports and memories that outputs depend on, in this cycle or earlier."""
        circuit = self._circuit
        needed: set[str] = set()
        waiting = [circuit.word(circuit.outputs[output]) for output in outputs]
        seen: set[int] = set()
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            waiting += node.operands
            if node.op == "join":
                waiting += [piece.node for piece in node.pieces if piece.node is not None]
            elif node.op == "register":
                needed.add(node.name)
                waiting.append(circuit.word(circuit.registers[node.name].bits))
            elif node.op == "read":
                read = circuit.reads[node.name]
                needed |= {read.name, read.memory.name}
                waiting += [circuit.word([read.enable]), circuit.word(read.address)]
                for write in circuit.writes:
                    if write.memory is read.memory:
                        waiting += [circuit.word([write.enable]), circuit.word(write.address), circuit.word(write.data)]
        return needed

    def _clock(self, body: "Body") -> None:
        """Add the next values of registers, then writes of memories, all of them computed from the old values."""
        circuit = self._circuit
        after = []
        for register in self._registers:
            field, _ = self.fields[register.name]
            at = f"{field}_before[s@->{field}_at]"  # in a ring, the oldest of the values under way
            for limb, expression in enumerate(body.limbs(circuit.word(register.bits))):
                if register.cycles > 1:
                    after.append(f"s@->{field}[{limb}] = s@->{at}[{limb}], s@->{at}[{limb}] = {expression};")
                else:
                    after.append(f"s@->{field}[{limb}] = {expression};")
            if register.cycles > 1:
                after.append(f"if (++s@->{field}_at == {register.cycles - 1}) s@->{field}_at = 0;")
        copies = "for (int l = 0; l < LANES; l++) " if self._lanes else ""
        lane = "[l]" if self._lanes else ""
        place = "{} * LANES + l" if self._lanes else "{}"  # of a limb
        writes = []
        for read in self._reads:
            enable, address = body.limb(circuit.word([read.enable])), body.number(circuit.word(read.address))
            field, _ = self.fields[read.name]
            memory = self._memories[read.memory.name]
            for limb in range(limbs(read.memory.width)):
                shown = f"{memory}[{address}{lane}][{place.format(limb)}]"
                after.append(f"{copies}if ({enable}{lane}) s@->{field}[{limb}]{lane} = s@->{shown};")
        for write in self._writes:
            enable, address = body.limb(circuit.word([write.enable])), body.number(circuit.word(write.address))
            memory = self._memories[write.memory.name]
            for limb, data in enumerate(body.limbs(circuit.word(write.data))):
                written = f"{memory}[{address}{lane}][{place.format(limb)}]"
                writes.append(f"{copies}if ({enable}{lane}) s@->{written} = {data}{lane};")
        body.lines += after + writes


def lanes_code(circuit: Circuit, name: str, outputs: Sequence[str] = (), *, only: Sequence[str] = ()) -> Code:
    """Return a circuit as C on many copies, with functions that look at outputs, or at all of them, and that step."""
    code = Code(circuit, name, lanes=True, only=only)
    code.function("look", outputs or list(circuit.outputs))
    code.function("step", [], clock=True)
    return code


def _structure(name: str, members: Sequence[str]) -> str:
    return "\n".join([f"struct {name} {{", *(f"  {member}" for member in members), "};"])


def _function(head: str, lines: Sequence[str]) -> str:
    return "\n".join([f"static inline __attribute__((always_inline)) {head} {{", *(f"  {line}" for line in lines), "}"])
