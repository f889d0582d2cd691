"""What a job came to, as it is kept in the cache: releases before and after this one can read it."""

import json

from openmxu.area.run.job import Counted

_COUNTED = Counted({"design": {"num_memory_bits": 0}}, 7, 1.5, "a note")


def test_round_trip() -> None:
    for counted in (_COUNTED, Counted({}, 0, None, packed="abc")):
        assert Counted.from_json(counted.to_json()) == counted


def test_fields_of_other_releases() -> None:
    kept = json.loads(_COUNTED.to_json())
    assert set(kept) == {"statistics", "depth", "delay", "note"}, "0.1.0 takes no other"
    assert Counted.from_json(json.dumps(kept | {"something": 1}).encode()) == _COUNTED
