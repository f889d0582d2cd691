"""Names in exported files: what is refused, modules that never clash, ports that VHDL can name."""

import re
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from pygments.lexers.hdl import SystemVerilogLexer, VhdlLexer
from pygments.token import Keyword

from openmxu.catalog import CATALOG, build
from openmxu.export.integration import to_vhdl_template
from openmxu.export.names import PORTS, check_name, check_vhdl_name
from openmxu.export.verilog import to_verilog

from ...conftest import Command, slow, thorough
from .conftest import analyse


def keywords(lexer: Any, beside: str = "") -> list[str]:
    """Those of a language, by a lexer that has nothing to do with this project."""
    rules = [rule[0] for rules in lexer.tokens.values() for rule in rules if isinstance(rule, tuple)]
    words = {word for rule in rules for word in getattr(rule, "words", ()) if re.fullmatch("[a-z_0-9]+", word)}
    return sorted(
        word
        for word in words - set(beside.split())
        if all(kind in Keyword for kind, text in lexer().get_tokens(word) if text.strip())
    )


def test_keywords_are_refused() -> None:
    verilog = keywords(SystemVerilogLexer)
    assert len(verilog) > 230
    for word in verilog:
        with pytest.raises(ValueError, match=rf"name must not be a keyword of Verilog or SystemVerilog, '{word}'"):
            check_name("name", word)
    # Types are ordinary identifiers, and so are attributes.
    vhdl = keywords(
        VhdlLexer,
        "bit bit_vector boolean character delay_length file_open_kind file_open_status integer "
        "natural positive severity_level signed std_logic std_logic_vector std_ulogic "
        "std_ulogic_vector string time unsigned",
    )
    assert len(vhdl) > 80
    for word in vhdl:
        with pytest.raises(ValueError, match=rf"name must not be a keyword of VHDL, '{word.upper()}'"):
            check_vhdl_name("name", word.upper())


@pytest.mark.parametrize("name", ["", "2x2", "a-b", "a b", "a.b", "a\n", "é", "\\a "])
def test_what_no_language_can_name(name: str) -> None:
    for check, language in ((check_name, "Verilog"), (check_vhdl_name, "VHDL")):
        with pytest.raises(ValueError, match=f"prefix must be a {language} identifier, not "):
            check("prefix", name)


@pytest.mark.parametrize("name", ["a__b", "_a", "a_", "a$b"])
def test_what_vhdl_cannot_name(name: str) -> None:
    assert check_name("name", name) == name
    with pytest.raises(ValueError, match="name must be a VHDL identifier, not "):
        check_vhdl_name("name", name)


_KEYWORD = "must not be a keyword of"
_TAKEN = "name must differ from the ports of its module"
_UNITS = ", ".join(name for name, design in CATALOG.items() if design.family == "mxu")

_MISTAKES = {
    "mxu --rows 1 --columns 1 -o x.v": {
        "--name module": f"name {_KEYWORD} Verilog or SystemVerilog, 'module'",
        "--prefix logic": f"prefix {_KEYWORD} Verilog or SystemVerilog, 'logic'",
        "--prefix 1": "prefix must be a Verilog identifier, not '1'",
        "--name pe_bf16_flush_s1": "name must differ from the modules inside, not 'pe_bf16_flush_s1'",
        "--name my_bank --prefix my": "names of modules must differ, and two would be 'my_bank'",
        "--name entity --ports flat": f"name {_KEYWORD} VHDL, 'entity'",
        "--name signal --bus axi --template x.vhd": f"name {_KEYWORD} VHDL, 'signal'",
        "--name my__unit --ports flat": "name must be a VHDL identifier, not 'my__unit'",
        "--ports vhdl": "ports must be one of nested, flat, not 'vhdl'",
        "--template x.vhd": "ports must be 'flat' for a template in VHDL, which cannot name weights__payload",
        "--name Results__Valid": f"{_TAKEN}, not 'Results__Valid'",
        "--name results_valid --ports flat": f"{_TAKEN}, not 'results_valid'",
        "--name CLK --ports flat --template x.vhd": f"{_TAKEN}, not 'CLK'",
        "--name aclken --bus axi --clock-enable --template y.v": f"{_TAKEN}, not 'aclken'",
        "--name STD_Logic --ports flat --template x.vhd": "name must not be a type of ports in VHDL, 'STD_Logic'",
        "--name std_logic_vector --bus axi --template x.vhd": "name must not be a type of ports in VHDL, "
        "'std_logic_vector'",
        "--memories Wrapped": "memories must be one of inline, wrapped, not 'Wrapped'; did you mean wrapped?",
        "--template x.v": "outputs must be different files, not two times x.v",
        "--bus wishbone": "bus must be 'none' or 'axi', not 'wishbone'",
        "--bus axi --operand e4f2 --source e4f2": "source must be a format of whole bytes on AXI4-Stream, not e4f2",
        "--splitter --operand fp16": "splitter must be False unless fp32 is converted into bf16, not fp32 into fp16",
    },
    "": {
        "mxu --core x.core": "core must be in the folder of the Verilog file, which -o names, not x.core",
        "product --clock-enable -o y.v": "clock_enable must be False for a design without registers, not True",
        "adder --bench verilog -o unit": f"bench applies only to a unit ({_UNITS}), not to adder",
    },
    "mxu --rows 1 --columns 1 --depth 2 --bench": {
        "vhdl -o unit": "bench must be one of cocotb, verilog, not 'vhdl'",
        "verilog": "bench needs a folder for its files, which -o names",
        "verilog -o unit --core unit/mxu.core": "bench writes a core file and an instance itself: "
        "leave out --core and --template",
        "verilog -o unit --name a$b": "name must be without $ where files of a bench are called after it, not 'a$b'",
        "verilog -o file": "output must be a directory that can be written, not 'file': File exists",
        "verilog -o unit --rows 0": "rows must be an integer from 1 to 65536, not 0",
    },
}


_ALIKE = ("--name std_logic_vector ", "--name aclken ", "--name results_valid ")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (slow if options.startswith(_ALIKE) else pytest.param)(f"{first} {options}", said)
        for first, rows in _MISTAKES.items()
        for options, said in rows.items()
    ],
)
def test_mistakes(arguments: str, complaint: str, command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    assert command(f"verilog {arguments}") == (2, "", f"openmxu verilog: {complaint}\n")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "kept")]


def modules(text: str) -> dict[str, str]:
    return dict(re.findall(r"^module (\S+?)\((.*?)^endmodule$", text, re.MULTILINE | re.DOTALL))


_CHOICES = {
    "rows": [1, 2, 3],
    "columns": [1, 2, 3],
    "stages": [1, 2, 6],
    "operand": ["bf16", "fp16", "e4f3"],
    "source": ["fp32", "operand"],
    "result": ["fp32", "operand"],
    "subnormals": ["flush", "ieee"],
    "depth": [2, 4, 16],
    "splitter": [False, True],
    "status": [False, True],
    "bus": ["none", "axi"],
}


def unit(choices: dict[str, Any]) -> Any:
    if choices["splitter"]:
        choices = choices | {"operand": "bf16", "source": "fp32"}
    formats = {name: choices["operand"] for name in ("source", "result") if choices[name] == "operand"}
    return build("mxu", **choices | formats)


@pytest.mark.parametrize("count", [1, slow(2), thorough(6)])
def test_modules_of_one_name_are_the_same(count: int) -> None:
    """In pairs of units of all sorts that differ in one parameter, under the same name and under others."""
    generator = Random(count)
    seen: dict[str, str] = {}
    digests = set()
    for _ in range(count):
        choices = {name: generator.choice(values) for name, values in _CHOICES.items()}
        changed = generator.choice(list(_CHOICES))
        for value in generator.sample(_CHOICES[changed], 2):
            choices[changed] = value
            name = generator.choice(["one", "other"])
            found = modules(to_verilog(unit(choices), name=name))
            del found[name]
            for module, text in found.items():
                assert re.fullmatch(rf"{name}_[0-9a-f]{{8}}_\w+", module)
                assert seen.setdefault(module, text) == text, (module, choices)
                digests.add(module.partition("_")[2][:8])
    assert count < len(digests) <= 2 * count


@pytest.mark.slow
def test_the_same_unit_has_the_same_names_whatever_its_ports_are_called() -> None:
    nested, flat = (modules(to_verilog(build("mxu_2x2"), ports=ports)) for ports in PORTS)
    assert nested.pop("mxu") != flat.pop("mxu")
    assert nested == flat


def test_names_that_the_command_is_given(tmp_path: Path, command: Command) -> None:
    assert command("verilog mxu_2x2 -o x.v --name its --prefix my")[0] == 0
    found = modules((tmp_path / "x.v").read_text())
    assert {module.partition("_")[0] for module in found} == {"its", "my"}
    assert "my_bank_emission" in found
    assert "\nmodule significand_product_3(" in command("verilog product --width 3")[1]


class _Named(wiring.Component):
    """Ports of given names, and a wire inside that is called ``a_b``."""

    def __init__(self, *outputs: str) -> None:
        self._outputs = outputs
        super().__init__({"i": In(1)} | {name: Out(1) for name in outputs})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        inside = Signal(name="a_b")
        m.d.sync += inside.eq(self.i)
        m.d.comb += [getattr(self, name).eq(~inside) for name in self._outputs]
        return m


def test_flat_ports_and_wires_inside() -> None:
    """A port takes the name, the wire another one; two ports cannot have the same."""
    text = to_verilog(_Named("a__b"), name="it", ports="flat")
    assert "  output a_b;\n" in text
    assert "  reg \\a_b$inside ;\n" in text
    with pytest.raises(ValueError, match="ports must differ when joined by '_', not "):
        to_verilog(_Named("a__b", "A_b"), name="it", ports="flat")


@pytest.mark.parametrize(
    ("name", "overrides", "ports"),
    [
        ("mxu_2x2_status", {"splitter": True}, "flat"),
        slow("mxu_2x2_axi", {}, "nested"),
        ("stream_adder", {}, "flat"),
        slow("array_4x4", {}, "nested"),
        ("product", {}, "nested"),
    ],
)
def test_vhdl_reads_the_template(name: str, overrides: dict[str, Any], ports: str, tmp_path: Path) -> None:
    """As VHDL-93, and every port of the module is in it."""
    component = build(name, **overrides)
    text = to_verilog(component, name="it", ports=ports)
    template = to_vhdl_template(component, text, name="it", ports=ports)
    module = text[text.rindex("\nmodule it(") :]
    types = {
        port: (flow, f"std_logic_vector({high} downto 0)" if high else "std_logic")
        for flow, high, port in re.findall(r"^  (in|out)put (?:\[(\d+):0\] )?(\w+);$", module, re.MULTILINE)
    }
    assert sorted(types) == sorted(re.findall(r"\w+", module[module.index("(") : module.index(";")]))
    declared = re.findall(r"^      (\w+) : (\w+) (.*?);?$", template, re.MULTILINE)
    assert sorted(declared) == sorted((port, *kind) for port, kind in types.items())
    signals = re.findall(r"^  signal (\w+) : (.*?);", template, re.MULTILINE)
    assert dict(signals) == {port: kind for port, (_, kind) in types.items()}
    if shutil.which("ghdl") is None:
        pytest.skip("GHDL is not installed: the template has not been analysed")
    assert analyse(template, tmp_path) == ""


@pytest.mark.skipif(shutil.which("ghdl") is None, reason="GHDL is not installed")
@pytest.mark.parametrize("name", ["ieee", "work", "std", "std_logic_1164", "template", "std_ulogic", "boolean"])
def test_vhdl_reads_the_template_of_any_other_name(name: str, tmp_path: Path) -> None:
    """Libraries, packages, other types: the template does without what they hide."""
    component = build("adder")
    analyse(to_vhdl_template(component, to_verilog(component, name=name), name=name), tmp_path)
