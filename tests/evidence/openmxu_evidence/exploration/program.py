"""C text for a unit seen as words: the function that takes it through one cycle, and the search around it."""

import functools
from collections.abc import Mapping

from openmxu.runtime.native import resource
from openmxu.spec.config import MxuConfig
from openmxu_evidence.exploration.word_netlist import Word, WordNetlist


def program(
    words: WordNetlist, config: MxuConfig, *, longest_tile: int, longest_sum: int, mistakes: int, keeps: bool
) -> str:
    """Return C text of the whole exploration of one unit."""
    unit = _Unit(words)
    constants = {
        "ROWS": config.rows,
        "COLUMNS": config.columns,
        "TERMS": config.terms,
        "DEPTH": config.depth,
        "LONGEST_TILE": longest_tile,
        "LONGEST_SUM": longest_sum,
        "CONVERTS": int(config.source != config.operand),
        "MOST_MISTAKES": mistakes,
        "KEEPS": int(keeps),
        "TAGGED_WEIGHTS": 0 if mistakes else config.columns,
        "TAGGED_ACTIVATIONS": 1 if mistakes else config.rows + 2,
        "CONTROL_WORDS": max(1, -(-len(words.registers) // 32)),
        "UNIT_TERMS": unit.size,
    }
    lines = ",\n  ".join(f"{name} = {value}" for name, value in constants.items())
    package = "openmxu_evidence.exploration"
    return "\n".join(
        [f"enum {{\n  {lines}\n}};", resource(package, "model.c"), unit.function(), resource(package, "search.c")]
    )


class _Unit:
    """The C functions of a unit's cycle. Each register of data has a place among the state's terms."""

    def __init__(self, words: WordNetlist) -> None:
        self._words = words
        self.size = 0
        self._places: dict[int, int] = {}  # of registers, read ports and the first stage of arithmetic
        self._memories: dict[str, int] = {}
        for index, word in enumerate(words.words):
            if word.kind in ("register", "read"):
                self._places[index] = self._reserve(1)
            elif word.kind in ("multiply", "add") and word.detail:
                self._places[index] = self._reserve(int(word.detail))
        for name, memory in words.memories.items():
            self._memories[name] = self._reserve(memory.depth)

    def _reserve(self, count: int) -> int:
        self.size += count
        return self.size - count

    def function(self) -> str:
        """Return ``cycle``: it takes a unit one cycle on, and, if asked for sets, finds the terms in its terms."""
        words = self._words
        places = ", ".join(str(self._places[index]) for index in words.results)
        lines = [
            f"const bit r{index} = s->control[{index // 32}] >> {2 * (index % 32)} & EITHER;"
            for index in range(len(words.registers))
        ]
        lines += words.logic
        lines += [f"o->{name} = {bit};" for name, bit in words.outputs.items()]
        lines += [f"o->result[{lane}] = s->terms[{self._places[index]}];" for lane, index in enumerate(words.results)]
        lines.append("memset(n, 0, sizeof *n);")
        for index, bit in enumerate(words.registers):
            value = f"({words.meaningless[index]} == HIGH ? EITHER : {bit})" if index in words.meaningless else bit
            lines.append(f"n->control[{index // 32}] |= (uint64_t){value} << {2 * (index % 32)};")
        return "\n".join(
            [
                f"static const int result_places[] = {{ {places} }};",
                "static void cycle(const struct unit *s, const struct inputs *i, struct outputs *o, struct unit *n,",
                "                  const set *before, set *after) {",
                *(f"  {line}" for line in lines),
                "  {",
                "    const term *old = s->terms;",
                "    term *new = n->terms;",
                *(f"    {line}" for line in self._data("term")),
                "  }",
                "  if (after) {",
                "    const set *old = before;",
                "    set *new = after;",
                *(f"    {line}" for line in self._data("set")),
                "  }",
                "}",
            ]
        )

    def _data(self, domain: str) -> list[str]:
        """Return lines for the next contents of the registers of data, as terms or as sets."""
        return _Data(self._words, self._places, self._memories, domain).lines()


class _Data:
    """Lines of C that compute all words of a cycle, in one domain."""

    def __init__(self, words: WordNetlist, places: Mapping[int, int], memories: Mapping[str, int], domain: str) -> None:
        self._words = words
        self._places = places
        self._memories = memories
        self._domain = domain
        self._lines: list[str] = []
        self._named: set[int] = set()

    def lines(self) -> list[str]:
        """Return lines for combinational words, each after its operands; then registers; then memories."""
        after = []
        for index, slot in self._places.items():
            after += self._next(index, slot)
        for name, memory in self._words.memories.items():
            first = self._memories[name]
            after += [f"new[{first + slot}] = old[{first + slot}];" for slot in range(memory.depth)]
            after += [
                f"{self._domain}_write(new + {first}, {memory.depth}, {enable}, {_number(address)}, "
                f"{self._word(data)});"
                for enable, address, data in memory.writes
            ]
        return [*self._lines, *after]

    def _next(self, index: int, slot: int) -> list[str]:
        """Return lines for the next contents of a register, a read port or a pipeline of arithmetic."""
        word = self._words.words[index]
        if word.kind == "register":
            return [f"new[{slot}] = {self._word(word.operands[0])};"]
        if word.kind == "read":
            memory = self._words.memories[str(word.detail)]
            enable, *address = word.control
            at = _number(tuple(address))
            # A read at the moment of a write gives nothing to rely on.
            collides = " || ".join(f"collide({write}, {_number(where)}, {at})" for write, where, _ in memory.writes)
            return [
                f"new[{slot}] = {self._domain}_read(old + {self._memories[str(word.detail)]}, {memory.depth}, "
                f"{enable}, {at}, {collides}, old[{slot}]);"
            ]
        stages = int(word.detail)
        value = self._application(word)
        return [f"new[{slot + stage}] = {f'old[{slot + stage - 1}]' if stage else value};" for stage in range(stages)]

    def _application(self, word: Word) -> str:
        """Return the application of a function to words."""
        operands = ", ".join([*word.control, *map(self._word, word.operands)])
        return f"{self._domain}_{word.kind}({operands})"

    def _word(self, index: int) -> str:
        """Return the C expression of a word; lines that compute it are added."""
        word = self._words.words[index]
        constant = f"{self._domain}_constant"
        match word.kind:
            case "register" | "read":
                return f"old[{self._places[index]}]"
            case "input":
                return f"{constant}(i->{word.detail})"
            case "constant":
                return f"{constant}({ {0: 'ZERO', 1 << 31: 'NEGATIVE_ZERO'}.get(int(word.detail), 'POISON') })"
            case "multiply" | "add" if word.detail:
                return f"old[{self._places[index] + int(word.detail) - 1}]"
        if index not in self._named:
            value = self._application(word)
            self._lines.append(f"const {self._domain} t{index} = {value};")
            self._named.add(index)
        return f"t{index}"


def _number(bits: tuple[str, ...]) -> str:
    """Return the C expression of bits as a number, lowest first."""
    return functools.reduce(lambda number, bit: f"append({number}, {bit})", reversed(bits), "0")
