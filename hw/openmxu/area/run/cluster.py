"""The workers of a Dask cluster, for work that takes one machine long."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from openmxu.runtime.extras import install

_PATIENCE = 10
"""Seconds to wait for a scheduler, and for a worker."""

_SHARE = 2
"""Calls at a time for each thread, so that no thread waits for its next call."""


class LostError(RuntimeError):
    """The cluster did not finish a call."""


@dataclass(frozen=True)
class Cluster:
    """A cluster that has workers."""

    client: Any
    """Dask's client."""
    jobs: int
    """Number of calls at a time that keeps it busy."""

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function on a worker, which needs the same package. If a worker is lost, another one repeats it."""
        from distributed import CancelledError, KilledWorker  # noqa: PLC0415  # an extra, which nothing else needs

        # Not a function of its arguments alone: how long it may take depends on the machine.
        future = self.client.submit(function, *arguments, pure=False)
        try:
            return future.result()
        except (KilledWorker, CancelledError) as error:
            raise LostError(f"the cluster lost the job: {type(error).__name__}: {error}") from None


async def _greeting(address: str) -> None:
    """Connect to a scheduler, and wait until it says what it is."""
    from distributed.comm import connect  # noqa: PLC0415  # an extra, which nothing else needs
    from distributed.security import Security  # noqa: PLC0415  # the same

    safe = Security().get_connection_args("client")
    comm = await asyncio.wait_for(connect(address, timeout=_PATIENCE, **safe), 2 * _PATIENCE)
    comm.abort()


@contextmanager
def connected(address: str, tell: Callable[[str], None]) -> Iterator[Cluster]:
    """The cluster of a Dask scheduler, such as ``tcp://host:8786``."""
    try:
        from distributed import Client  # noqa: PLC0415  # an extra, which nothing else needs
        from distributed.comm import get_address_host_port  # noqa: PLC0415  # the same
    except ModuleNotFoundError:
        raise OSError(f"cluster needs distributed, which is not installed: {install('cluster')}") from None
    try:
        get_address_host_port(address)
        tell(f"connecting to {address}")
        # A client waits for the first words of a peer without an end. A thread: the caller may have a loop that runs.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, _greeting(address)).result()
        client = Client(address, timeout=_PATIENCE)
    except (OSError, ValueError, TypeError) as error:  # the last without certificates of Dask's configuration
        reason = str(error) or f"no answer within {2 * _PATIENCE} s"
        raise OSError(
            f"cluster must be the address of a Dask scheduler, as in tcp://host:8786, not {address!r}: "
            f"{reason.splitlines()[0]}"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError:
            raise OSError(f"cluster must have workers; the scheduler {address} has none") from None
        yield Cluster(client, _SHARE * sum(client.ncores().values()))
