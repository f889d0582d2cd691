"""A cell library with round numbers, as Liberty text: delays and energies can be followed by hand.

At a load of L pF a gate takes 0.1 + 10·L ns to rise and half of that to fall, whatever the slew of its input; a supply
of 2 V makes half of the charge of L pF 2·L pJ.
"""

LOAD = 0.01
"""pF of each input pin."""

HEAD = """
  delay_model : table_lookup; time_unit : "1ns"; voltage_unit : "1V"; capacitive_load_unit(1, pf); nom_voltage : 2.0;
  input_threshold_pct_rise : 50; input_threshold_pct_fall : 50; output_threshold_pct_rise : 50;
  output_threshold_pct_fall : 50; slew_lower_threshold_pct_rise : 20; slew_lower_threshold_pct_fall : 20;
  slew_upper_threshold_pct_rise : 80; slew_upper_threshold_pct_fall : 80;
  lu_table_template(both) {
    variable_1 : input_net_transition; variable_2 : total_output_net_capacitance; index_1("0, 1"); index_2("0, 1");
  }
  power_lut_template(energy) {
    variable_1 : total_output_net_capacitance; variable_2 : input_transition_time; index_1("0, 1"); index_2("0, 1");
  }
"""


def table(kind: str, start: float, slope: float, template: str = "both") -> str:
    low, high = start, start + slope
    rows = f'"{low}, {high}", "{low}, {high}"' if template == "both" else f'"{low}, {low}", "{high}, {high}"'
    return f"{kind}({template}) {{ values({rows}); }}"


def _arc(pin: str, sense: str, kind: str = "combinational", *, slow: float = 1.0) -> str:
    delays = table("cell_rise", slow * 0.1, slow * 10) + table("cell_fall", slow * 0.05, slow * 5)
    slews = table("rise_transition", 0.1, 10) + table("fall_transition", 0.05, 5)
    return f'timing() {{ related_pin : "{pin}"; timing_sense : {sense}; timing_type : {kind}; {delays} {slews} }}'


def _power(pin: str, rise: float, fall: float, more: str = "") -> str:
    related = f'related_pin : "{pin}";' if pin else ""
    tables = table("rise_power", rise, 0, "energy") + table("fall_power", fall, 0, "energy")
    return f"internal_power() {{ {related} {more} {tables} }}"


def cell(name: str, area: float, body: str) -> str:
    return f"cell({name}) {{ area : {area}; {body} }}\n"


def _input(pin: str, more: str = "") -> str:
    return f"pin({pin}) {{ direction : input; capacitance : {LOAD}; {more} }}"


def gate(name: str, area: float, pins: str, function: str, sense: str = "negative_unate", *, slow: float = 1.0) -> str:
    """A gate that takes 0.003 pJ within to rise and 0.001 pJ to fall, and 0.0005 pJ for each edge of an input."""
    arcs = "".join(_arc(pin, sense, slow=slow) + _power(pin, 0.003, 0.001) for pin in pins)
    inputs = "".join(_input(pin, _power("", 0.0005, 0.0005)) for pin in pins)
    return cell(name, area, f'{inputs} pin(Y) {{ direction : output; function : "{function}"; {arcs} }}')


def flip_flop(name: str = "DFF") -> str:
    """One that takes 0.02 pJ for each edge of its clock, twice that for a rising one with another bit to store."""
    clock = _power("", 0.02, 0.02) + _power("", 0.04, 0.02, 'when : "(D * !Q) + (!D * Q)";')
    stored = 'ff(IQ, IQN) { clocked_on : "C"; next_state : "D"; }' + _input("C", f"clock : true; {clock}") + _input("D")
    output = _arc("C", "non_unate", "rising_edge") + _power("C", 0.01, 0.005)
    return cell(name, 6, stored + f'pin(Q) {{ direction : output; function : "IQ"; {output} }}')


def with_reset() -> str:
    plain = flip_flop("DFFR")
    return plain.replace('"D"; }', '"D"; clear : "!R"; }').replace("pin(Q)", _input("R") + "pin(Q)")


GATES = (
    gate("INV", 0.5, "A", "!A")
    + gate("NAND2", 1, "AB", "!(A B)")
    + gate("NOR2", 1, "AB", "!(A+B)")
    + gate("XOR2", 2.5, "AB", "A^B", "non_unate")
    + gate("AND2", 1.5, "AB", "A B", "positive_unate", slow=4.5)
)


def library(cells: str = GATES + flip_flop(), head: str = HEAD, name: str = "round") -> bytes:
    return f"library({name}) {{ {head} {cells} }}".encode()
