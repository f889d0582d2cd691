"""Two processes train one model on units of their own, whole or in shards; run by a test."""

import sys

import torch
import torch.distributed
from torch.distributed.fsdp import fully_shard

import openmxu_sim.torch as mxu


def _model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))


def main(rank: int, meeting: str) -> None:
    """Gradients are the averages of those that each process has by itself."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    inputs = torch.randn(2, 12, 16, generator=torch.Generator().manual_seed(1))
    alone = [_model(), _model()]
    with mxu.unit():
        for own, given in zip(alone, inputs, strict=True):
            own(given).square().sum().backward()
    for model in (torch.nn.parallel.DistributedDataParallel(_model()), fully_shard(_model())):
        with mxu.unit() as unit:
            model(inputs[rank]).square().sum().backward()
        assert sum(unit.work.values()) == 5
        for found, *each in zip(model.parameters(), *(own.parameters() for own in alone), strict=True):
            gradient = found.grad.full_tensor() if hasattr(found.grad, "full_tensor") else found.grad
            assert torch.equal(gradient, each[0].grad / 2 + each[1].grad / 2)
    torch.distributed.destroy_process_group()
    print("agreed", flush=True)


if __name__ == "__main__":
    torch.multiprocessing.spawn(main, (sys.argv[1],), 2)
