"""Layouts as DEF files."""

from openmxu.layout.drawing.exchange import write_def
from openmxu.layout.technology import technology

from .small_layout import small


def test_the_statements_of_a_small_layout() -> None:
    text = write_def(*small(), technology("ihp_sg13g2"))
    assert "DIEAREA ( 0 0 ) ( 4800 7560 ) ;\nTRACKS X 0 DO 11 STEP 480 LAYER Metal2 ;" in text
    assert "- u0 inv + PLACED ( 960 0 ) N ;\n- u1 inv + PLACED ( 480 3780 ) FS ;" in text
    assert "- out + NET n + LAYER Metal2 ( -100 -155 ) ( 100 155 ) + PLACED ( 1440 0 ) N ;" in text
    net = text[text.index("\nNETS 1 ;") :].split()
    assert " ".join(net[3:-4]) == (
        "- n ( u0 Y ) ( PIN out ) + ROUTED Metal2 ( 1440 0 155 ) ( 1440 840 155 ) "
        "NEW Metal3 ( 960 840 155 ) ( 1440 840 155 ) "
        "NEW Metal3 ( 1440 840 ) via_1 NEW Metal2 ( 1440 420 ) pin_210_290 ;"
    )
