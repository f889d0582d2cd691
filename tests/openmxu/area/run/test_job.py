"""What a job came to, as it is kept in the cache: releases before and after this one can read it."""

import json

from openmxu.area.run.job import Counted


def test_fields_of_other_releases() -> None:
    counted = Counted({"design": {"num_memory_bits": 0}}, 7, 1.5, "a note")
    for each in (counted, Counted({}, 0, None, packed="abc")):
        assert Counted.from_json(each.to_json()) == each
    kept = json.loads(counted.to_json())
    assert set(kept) == {"statistics", "depth", "delay", "note"}, "0.1.0 takes no other"
    assert Counted.from_json(json.dumps(kept | {"something": 1}).encode()) == counted
