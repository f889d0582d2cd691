"""The queue between a buffer and the unit: nothing is lost, doubled or late, whoever waits."""

import random

import pytest

from openmxu.unit.queue import Queue

from ..testbenches import run


@pytest.mark.parametrize(("gives", "takes"), [(1.0, 1.0), (0.5, 0.5), (0.9, 0.2), (0.2, 0.9), (1.0, 0.5)])
def test_queue(gives: float, takes: float) -> None:
    queue = Queue(8)
    rng = random.Random(f"{gives} {takes}")
    sent: list[int] = []
    taken: list[int] = []
    offered: list[tuple[int, int]] = []

    async def both(context):  # type: ignore[no-untyped-def]
        held = False
        for _ in range(2000):
            if not held:
                context.set(queue.i.valid, int(rng.random() < gives))
                context.set(queue.i.payload, rng.randrange(256))
            context.set(queue.o.ready, int(rng.random() < takes))
            valid, ready = context.get(queue.o.valid), context.get(queue.o.ready)
            # What is offered stays until it is taken.
            if offered and offered[-1][1] < 0:
                assert (valid, context.get(queue.o.payload)) == (1, offered[-1][0])
            if valid:
                offered.append((context.get(queue.o.payload), 1 if ready else -1))
                if ready:
                    taken.append(context.get(queue.o.payload))
            if context.get(queue.i.valid) and context.get(queue.i.ready):
                sent.append(context.get(queue.i.payload))
            held = bool(context.get(queue.i.valid) and not context.get(queue.i.ready))
            # Whether there is room does not depend on whether a beat is taken in the same cycle.
            room = context.get(queue.i.ready)
            context.set(queue.o.ready, 1 - ready)
            assert context.get(queue.i.ready) == room
            context.set(queue.o.ready, ready)
            await context.tick()

    run(queue, both)
    assert taken == sent[: len(taken)]
    assert len(sent) - len(taken) <= 2
    assert len(taken) >= (1999 if gives == takes == 1 else 2000 * gives * takes - 100)
