"""``If``, ``Loop``, ``Scan``, ``SequenceMap`` around products: onnxruntime is the oracle."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make setup-models")

from openmxu_sim.onnx import Network, evaluator  # needs ONNX

from . import graphs

W = np.array([[0, 1], [1, 1]], np.float32)
A, X = np.array([[1, 2]], np.float32), np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def _agree(text: str, inputs: dict[str, Any], **constants: Any) -> Network:
    network, _ = graphs.agree(graphs.model(text, **constants), inputs, operand="fp32")
    return network


_BODIES = {
    "as the state": "o = Identity (t)",
    "rank 0": "o = ReduceSum <keepdims = 0> (t)",
    "rank 1": "o = Squeeze (t)",
    "rank 3": "z = Constant <value_ints = [0]> () o = Unsqueeze (t, z)",
    "integers": "o = Mul (i, i)",
    "an outer name": "o = MatMul (a, w)",
    "a branch": "p = Greater (i, one) o = If (p) <then_branch = m () => (e) { e = MatMul (t, w) },"
    "else_branch = m () => (e) { e = Add (t, a) }>",
}


@pytest.mark.parametrize("inputs", ["n, go, a", "n, , a", ", go, a"])
@pytest.mark.parametrize("result", _BODIES)
@pytest.mark.parametrize("size", ["[k, 2]", "[]"])
def test_loops(inputs: str, result: str, size: str) -> None:
    """Bounds from -1 on, conditions at the start, and one that the body ends."""
    text = f"""graph (float[1, 2] a, int64 n, bool go) => (y, ys) {{
        y, ys = Loop <body = b (int64 i, bool c, float{size} s) => (bool d, float{size} t, o) {{
            t = MatMul (s, w) d = Less (i, two) {_BODIES[result]} }}> ({inputs})
    }}"""
    constants = {"w": W, "one": np.array(1), "two": np.array(2)}
    cases = [(n, True) for n in (-1, 0, 9)] + [(9, False)]
    model = graphs.model(text, **constants)
    for n, go in cases:
        graphs.agree(model, {"a": A, "n": np.array(n), "go": np.array(go)}, operand="fp32")


def test_products_of_a_loop() -> None:
    text = """graph (float[1, 2] a, int64 n) => (y) {
        y = Loop <body = b (int64 i, bool c, float[1, 2] s) => (bool c2, float[1, 2] t) {
            [inner] t = MatMul (s, w) c2 = Identity (c) }> (n, , a)
    }"""
    network = _agree(text, {"a": A, "n": np.array(5)}, w=W)
    assert list(network.work.values()) == [5]


@pytest.mark.parametrize("size", ["", "[1]", "[1, 1]"])
def test_ranks_of_what_a_loop_counts(size: str) -> None:
    text = f"""graph (float[1, 2] a, int64 n) => (y, places, conditions) {{
        y, places, conditions = Loop <body = b (int64{size} i, bool{size} c, float[1, 2] s) =>
            (bool d, float[1, 2] t, o, p) {{ t = MatMul (s, w) d = Squeeze (c) o = Add (i, i) p = Not (c) }}> (n, , a)
    }}"""
    _agree(text, {"a": A, "n": np.array(3)}, w=W)


@pytest.mark.parametrize("length", [3, 0])
def test_sequences_in_a_loop(length: int) -> None:
    text = """graph (float[1, 2] a, int64 n) => (y) {
        empty = SequenceEmpty ()
        rows = Loop <body = b (int64 i, bool c, seq(float[k, 2]) s) => (bool c2, seq(float[k, 2]) t) {
            p = MatMul (a, w) j = CastLike (i, p) q = Add (p, j)
            t = SequenceInsert (s, q) c2 = Identity (c) }> (n, , empty)
        more = SequenceInsert (rows, a)
        y = ConcatFromSequence <axis = 0> (more)
    }"""
    _agree(text, {"a": A, "n": np.array(length)}, w=W)


@pytest.mark.parametrize(
    ("attributes", "size"),
    [
        ("", "[1, 4]"),
        ("scan_input_axes = [1], scan_output_axes = [0, 1]", "[2, 4]"),
        ("scan_input_axes = [-1], scan_output_axes = [-1, -1]", "[2, 3]"),
        ("scan_input_directions = [1], scan_output_directions = [0, 1]", "[3, 4]"),
        ("scan_input_axes = [2], scan_input_directions = [1], scan_output_directions = [1, 1]", "[]"),
    ],
)
def test_scans(attributes: str, size: str) -> None:
    text = f"""graph (float[1, 2] a, float[2, 3, 4] x) => (y, sums, ps) {{
        y, sums, ps = Scan <num_scan_inputs = 1{", " * bool(attributes)}{attributes}, body =
            b (float[1, 2] s, float{size.replace("1, 4", "3, 4")} r) => (float[1, 2] t, float[] u, float[1, 2] p) {{
                p = MatMul (s, w) u = ReduceSum <keepdims = 0> (r) t = Add (p, u) }}> (a, x)
    }}"""
    _agree(text, {"a": A, "x": X}, w=W)


def test_a_scan_of_nothing() -> None:
    """It is refused by onnxruntime; ONNX gives the states, and no results."""
    text = """graph (float[1, 2] a, float[n, 2] x) => (y, ps) {
        y, ps = Scan <num_scan_inputs = 1, scan_output_axes = [1], body = b (float[1, 2] s, float[2] r) =>
            (float[1, 2] t, float[1, 2] p) { p = MatMul (s, w) t = Add (p, r) }> (a, x)
    }"""
    found = Network(graphs.model(text, w=W)).run({"a": A, "x": np.zeros((0, 2), np.float32)})
    assert (found["y"] == A).all()
    assert (found["ps"].shape, found["ps"].dtype) == ((1, 0, 2), np.float32)


def test_members_of_a_sequence() -> None:
    """The body reads a weight of the graph around it."""
    text = """graph (float[2, 3, 4] x) => (y) {
        parts = SplitToSequence <axis = 0> (x)
        more = SequenceMap (parts, z) <body = b (float[1, 3, 4] e, float[4, 2] f) => (float[1, 3, 2] g)
            { g = MatMul (e, f) }>
        y = ConcatFromSequence <axis = 0> (more)
    }"""
    _agree(text, {"x": X}, z=np.arange(8, dtype=np.float32).reshape(4, 2))


_ENDLESS = """graph (float[1, 2] a) => (y{outer}) {{
    y{outer} = Loop <body = b (int64 i, bool c, float[1, 2] s) => (bool d, float[1, 2] t{inner}) {{
        t = Neg (s) d = Identity (c) {node} }}> ({bound}, , a)
}}"""


@pytest.mark.parametrize(("scan", "bound"), [(False, "n"), (True, "n"), (True, "")])
def test_loops_that_do_not_end(monkeypatch: pytest.MonkeyPatch, scan: bool, bound: str) -> None:
    """Too many iterations, or too much to stack."""
    limits = {"MOST_ITERATIONS": 1 << 20, "MOST_BYTES": 80} if scan else {"MOST_ITERATIONS": 9}
    for name, limit in limits.items():
        monkeypatch.setattr(evaluator, name, limit)
    parts = (
        {"outer": ", ys", "inner": ", o", "node": "o = Relu (t)"}
        if scan
        else dict.fromkeys(("outer", "inner", "node"), "")
    )
    network = Network(graphs.model(_ENDLESS.format(**parts, bound=bound), n=np.array(1 << 62)))
    for _ in range(2):
        with pytest.raises(
            ValueError, match=r"^Loop y must end within \d+ iterations, and have and stack at most \d+ bytes; "
        ):
            network.run({"a": A})


@pytest.mark.parametrize(
    "nodes",
    [
        "y = Scan <num_scan_inputs = 1, body = b (float[0] r) => (float[0] s) { s = Neg (r) }> (rows)",
        """y = Scan <num_scan_inputs = 1, body = b (float[2] r) => (float[2, 2] s) {
            s = Scan <num_scan_inputs = 1, body = d (float[2] p) => (float[2] q) { q = Neg (p) }> (x) }> (x)""",
        """m = SplitToSequence <axis = 0> (x) n = SequenceInsert (m, x) y = SequenceInsert (n, x)
        z = SequenceMap (y) <body = b (float[k, 2] r) => (float[k, 2] s) { s = Neg (r) }>""",
    ],
)
def test_iterations_of_scans_and_maps(monkeypatch: pytest.MonkeyPatch, nodes: str) -> None:
    monkeypatch.setattr(evaluator, "MOST_ITERATIONS", 3)
    network = Network(graphs.model(f"graph (float[2, 2] x) => (y) {{ {nodes} }}", rows=np.zeros((4, 0), np.float32)))
    with pytest.raises(ValueError, match=r"^(Scan|SequenceMap) \w must end within 3 iterations, "):
        network.run({"x": W})


_SAME = ", ".join(f"{each}_branch = b () => (z) {{ z = Neg (x) }}" for each in ("then", "else"))
_SCAN = "Scan <{}, body = b (float[2] r) => (float[2] s) {{ s = Neg (r) }}> (x)"


@pytest.mark.parametrize("last", ["y = If (t) <{}>", "y = If (t) <{}> z = Neg (x)"])
def test_names_of_branches(last: str) -> None:
    """They may be those of both, and of what comes later, as in onnxruntime."""
    _agree(f"graph (float[2, 2] x) => (y) {{ {last.format(_SAME)} }}", {"x": W}, t=np.array(True))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("y = MatMul (x, nowhere)", "nowhere must be a tensor that is computed before it is read"),
        *((nodes, f"tensors must have different names, also in graphs around them, not {name} twice")
          for nodes, name in (("y = Relu (x) y = Neg (x)", "y"), ("t = Not (t) y = Neg (x)", "t"),
                              (f"z = Neg (x) y = If (t) <{_SAME}>", "z"))),
        *(("y = " + _SCAN.format(f"num_scan_inputs = 1, scan_{each}"), "(Scan y must|model cannot be run:) .*")
          for each in ("input_directions = [2]", "output_directions = [-1]", "input_axes = [0, 1]",
                       "output_directions = [0, 0]")),
        ("y = " + _SCAN.format("num_scan_inputs = 2"), ".*"),
        ("y = If (t) <then_branch = b () => (e) { e = Neg (x) }>", ".*"),
        (f"p, q = If (t) <{', '.join(f'{each}_branch = b () => (e) {{ e = Neg (x) }}' for each in ('then', 'else'))}> "
         "y = Neg (p)", "model cannot be run: .*"),
        ("y = Loop <body = b (int64 i, bool c) => (bool d) { d = Identity (c) }> (n, t, x)", "model cannot be run: .*"),
        ("y = Loop <body = b (int64 i, bool c, float[2, 2] s) => (bool c2, float[2, 2] s2)"
         "{ c2 = Identity (c) s2 = Neg (s) }> (n, two, x)", "model cannot be run: .*"),
        ("y = Scan <num_scan_inputs = 2, body = b (float[2] r, float[2] s) => (float[2] y) { y = Add (r, s) }> (x, v)",
         "model cannot be run: .*"),
        ("y = own.F (x)", "F y must be an operator of ONNX, not of own"),
    ],
)  # fmt: skip
def test_mistakes(nodes: str, message: str) -> None:
    constants = {
        "t": np.array(False),
        "n": np.array(3),
        "two": np.array([True, False]),
        "v": np.ones((3, 2), np.float32),
    }
    with pytest.raises(ValueError, match=f"^{message}$"):
        Network(graphs.model(f"graph (float[2, 2] x) => (y) {{ {nodes} }}", **constants)).run({"x": W})
