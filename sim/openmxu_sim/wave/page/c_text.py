"""C text of the page's units: that of the engine ``compiled``, for all sizes of one processing element at once."""

import re

from openmxu.runtime.native import resource
from openmxu.spec.config import MxuConfig
from openmxu.spec.passes import PASSES
from openmxu_sim.engines.compiled.source import (
    CONTROL,
    constants,
    control_text,
    data_text,
    enumeration,
    flags,
    netlists,
    shared_constants,
)
from openmxu_sim.netlist.circuit import Circuit
from openmxu_sim.operands.stimulus import Stalls

SIZES = range(1, 9)
"""Rows, and columns, of the units in a page."""

MOST_SIDE = 16
"""Most rows, and columns, of the matrices in a page."""

_SIZED = ("admission", "status")
"""Parts whose netlist depends on the rows of the array."""


def page_config(rows: int, columns: int, stages: int, terms: int = 1) -> MxuConfig:
    """Return a unit of the page: it splits fp32 itself, so that its netlist does every precision."""
    return MxuConfig(rows=rows, columns=columns, stages=stages, terms=terms, splitter=True, status=True)


def page_rows(terms: int) -> range:
    """Return the rows that a page's unit may have: whole rows of processing elements."""
    return SIZES[terms - 1 :: terms]


def first_pass(precision: str) -> int:
    """Return the place of a precision's first pass among the passes of all precisions."""
    names = list(PASSES)
    return sum(len(PASSES[name]) for name in names[: names.index(precision)])


def page_text(stages: int, terms: int = 1) -> str:
    """Return the C text of all units with a number of stages, and of terms; see ``page.c``."""
    largest = page_config(SIZES[-1], SIZES[-1], stages, terms)
    circuits = {name: Circuit(text, name) for name, text in netlists(largest).items()}
    text = ["#define STEPWISE", resource("openmxu_sim.engines.compiled", "vectors.c"), _THREADS, _SIZE, *flags(largest)]
    for part in CONTROL:
        if part not in _SIZED:
            text.append(control_text(circuits[part], part))
    for part in _SIZED:
        for rows in page_rows(terms):
            rtlil = netlists(page_config(rows, SIZES[-1], stages, terms), [part])[part]
            text.append(control_text(Circuit(rtlil, part), part, f"{part}_{rows}"))
        text.append(_choose_by_rows(part, page_rows(terms)))
    text.append(data_text(circuits, copies=1))
    parts = ", ".join(f"{{{int(a)}, {int(b)}}}" for passes in PASSES.values() for a, b in passes)
    text += [_numbers(largest), f"static const int passes[][2] = {{{parts}}};"]
    text.append(resource("openmxu_sim.engines.compiled", "unit.c"))
    return "\n".join([*text, resource("openmxu_sim.wave.page", "page.c")])


def register_names(text: str) -> dict[str, list[tuple[str, int]]]:
    """Return names and widths of the registers of each part in a C text, in the order in which they are held."""
    parts = re.findall(r'^const char (\w+)_registers\[\] = "(.*)";$', text, re.MULTILINE)
    return {
        part: [(name, int(width)) for name, _, width in (pair.rpartition(":") for pair in names.split())]
        for part, names in parts
    }


_THREADS = """
#ifdef __wasm__
#define ALONE
#define pthread_t int
#define pthread_mutex_t int
#define pthread_cond_t int
#define pthread_mutex_init(mutex, settings) ((void)(mutex))
#define pthread_mutex_lock(mutex) ((void)(mutex))
#define pthread_mutex_unlock(mutex) ((void)(mutex))
#define pthread_mutex_destroy(mutex) ((void)(mutex))
#define pthread_cond_init(condition, settings) ((void)(condition))
#define pthread_cond_broadcast(condition) ((void)(condition))
#define pthread_cond_wait(condition, mutex) ((void)(condition))
#define pthread_cond_destroy(condition) ((void)(condition))
#define pthread_create(thread, settings, run, argument) ((void)(thread), (void)(argument), -1)
#define pthread_join(thread, result) ((void)(thread))
#endif
"""
"""Definitions of the functions that ``unit.c`` needs of threads, where there are none."""

_SIZE = """
static int page_rows, page_columns;
#define ROWS page_rows
#define COLUMNS page_columns
"""
"""Size of the unit that runs."""


def _choose_by_rows(part: str, sizes: range) -> str:
    """Return a part's functions, which call those for the number of rows; their arguments have the same layout."""
    one = f"{part}_{sizes[0]}"
    functions = [
        "\n".join(
            [
                f"struct {part}_state {{ union {{",
                *(f"  struct {part}_{rows}_state of_{rows};" for rows in sizes),
                "}; };",
                f"#define {part}_in {one}_in",
                f"#define {part}_out {one}_out",
            ]
        )
    ]
    suffixes = ["begin", "step", *(["look"] if part == "status" else [])]
    for suffix in suffixes:
        extra = "" if suffix == "begin" else f", const struct {part}_in *i, struct {part}_out *o"
        lines = [f"static void {part}_{suffix}(struct {part}_state *s{extra}) {{", "  switch (ROWS) {"]
        for rows in sizes:
            name = f"{part}_{rows}"
            call = f"{name}_{suffix}(&s->of_{rows}"
            if suffix == "begin":
                lines.append(f"  case {rows}: {call}); return;")
            else:
                lines += [
                    f"  case {rows}: {{",
                    f"    struct {name}_in in = {{0}}; struct {name}_out out = {{0}};",
                    f'    _Static_assert(sizeof in == sizeof *i && sizeof out == sizeof *o, "{part}");',
                    "    if (i) memcpy(&in, i, sizeof in);",
                    f"    {call}, &in, &out);",
                    "    memcpy(o, &out, sizeof out);",
                    "    return;",
                    "  }",
                ]
        functions.append("\n".join([*lines, "  }", "}"]))
    return "\n".join(functions)


def _numbers(largest: MxuConfig) -> str:
    """Return the constants of ``unit.c`` and ``page.c``; those that depend on the size as expressions of it."""
    numbers = shared_constants(copies=1) | constants(largest)
    step, delay = numbers["ROW_STEP"], numbers.pop("CONTROL_DELAY")
    sizes = numbers.pop("ROWS"), numbers.pop("COLUMNS")
    numbers |= {
        "DEPTH": largest.depth,
        "WRITE_LATENCY": largest.write_latency,
        "MOST_SIDE": MOST_SIDE,
        "PERIOD": Stalls(0).period,
        "MOST_PASSES": max(map(len, PASSES.values())),
    }
    macros = {
        "MOST_ROWS": sizes[0],
        "MOST_COLUMNS": sizes[1],
        "MOST_CONTROL_DELAY": delay,
        "CONTROL_DELAY": f"({delay - (largest.element_rows - 1) * step} + (ELEMENT_ROWS - 1) * {step})",
    }
    return "\n".join([enumeration(numbers), *(f"#define {name} {value}" for name, value in macros.items())])
