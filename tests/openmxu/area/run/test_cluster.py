"""The same jobs on a Dask cluster: of two processes on this machine, one of which is killed."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openmxu.area import report
from openmxu.area.subject.points import ADDER, MULTIPLIER, chosen_points
from openmxu.runtime import cache

distributed = pytest.importorskip("distributed")

POINTS = chosen_points([MULTIPLIER, ADDER], ["e4f3", "e5f4", "e3f2", "e4f2"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two workers, each a process that is started again if it dies."""
    folder = str(tmp_path_factory.mktemp("dask"))
    with distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None, local_directory=folder) as cluster:
        yield cluster


@pytest.mark.slow
def test_a_lost_worker_loses_nothing(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []

    def kill(line: str) -> None:
        """As soon as there is a result, so that both workers have jobs."""
        if line.startswith("[1/") and not killed:
            victim = next(iter(cluster.workers.values())).pid
            killed.append(victim)
            os.kill(victim, signal.SIGKILL)

    monkeypatch.setattr(cache, "directory", lambda: tmp_path / "there")  # nothing that was measured before
    found = report(tmp_path / "a", targets=["generic"], points=POINTS, cluster=cluster.scheduler_address, progress=kill)
    assert killed
    assert len(found.results) == len(POINTS) == 8
    assert not found.failed
    monkeypatch.setattr(cache, "directory", lambda: tmp_path / "here")
    again = report(tmp_path / "b", targets=["generic"], points=POINTS)
    assert [(each.point, each.area) for each in again.results] == [(each.point, each.area) for each in found.results]


@pytest.mark.slow
def test_failures_come_back(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "directory", lambda: tmp_path / "there")  # nothing that was measured before
    found = report(tmp_path, targets=["generic"], points=POINTS[:2], cluster=cluster.scheduler_address, limit=0.01)
    assert [result.error for result in found.failed] == ["Yosys: no result within 0.01 s"] * 2


def test_no_scheduler(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"^cluster must be the address of a Dask scheduler, .* not 'nonsense://here'"):
        report(tmp_path, targets=["generic"], points=POINTS[:1], cluster="nonsense://here")


def test_a_peer_that_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts connections, as anything may that listens at the port."""
    monkeypatch.setattr("openmxu.area.run.cluster._PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        lines: list[str] = []
        with pytest.raises(OSError, match=rf"^cluster must be .*, not '{address}': no answer within 1.0 s$"):
            report(tmp_path, targets=["generic"], points=POINTS[:1], cluster=address, progress=lines.append)
    assert lines == [f"connecting to {address}"]
