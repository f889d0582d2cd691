"""A solver in a process of its own: SMT-LIB text in, answer and values out.

See :mod:`openmxu_evidence.formal.solvers`.
"""

import json
import sys
from importlib import import_module

Answer = tuple[str, dict[str, str]]


def _z3(text: str) -> Answer:
    z3 = import_module("z3")
    solver = z3.SolverFor("QF_BVFP")
    solver.from_string(text)
    answer = str(solver.check())
    if answer != "sat":
        return answer, {}
    model = solver.model()
    return answer, {value.name(): hex(model[value].as_long()) for value in model.decls() if not value.arity()}


def _bitwuzla(text: str) -> Answer:
    bitwuzla = import_module("bitwuzla")
    options = bitwuzla.Options()
    options.set(bitwuzla.Option.PRODUCE_MODELS, True)
    parser = bitwuzla.Parser(bitwuzla.TermManager(), options)
    parser.parse(text, True, False)
    solver = parser.bitwuzla()
    answer = str(solver.check_sat())
    if answer != "sat":
        return answer, {}
    values = {str(term): solver.get_value(term).value(16) for term in parser.get_declared_funs()}
    return answer, {name: "0x" + value for name, value in values.items()}


_SOLVERS = {"z3": _z3, "bitwuzla": _bitwuzla}


def main() -> None:
    """Run the solver that the command line names on standard input."""
    answer, values = _SOLVERS[sys.argv[1]](sys.stdin.read())
    json.dump({"answer": answer, "values": values}, sys.stdout)


if __name__ == "__main__":
    main()
