"""The sum over GPUs against torch in float64, with a process for each GPU. Run it with `driver test`."""

import os
import socket

import kernels
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from gradients import verify_no_gradient

COUNTS = [1, 7, 8, 1000, 4099, 1 << 18, (1 << 20) + 3]
TYPES = [torch.float32, torch.float16, torch.bfloat16]
CAPACITY = 1 << 20

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs that reach each other")


def _get():
    return kernels.get_kernel("[[ repo_id ]]", version=1)


def _input(rank, count, dtype):
    generator = torch.Generator(device="cuda").manual_seed(1000 * count + rank)
    return torch.randn(count, device="cuda", generator=generator).to(dtype)


def _worker(rank, ranks, port, task):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=torch.device("cuda", rank))
    try:
        task(rank, ranks, _get())
    finally:
        dist.destroy_process_group()


def _on_all(task, ranks):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.spawn(_worker, (ranks, port, task), nprocs=ranks)


def _check(kernel, group, rank, ranks, count, dtype, two_shot):
    inputs = [_input(peer, count, dtype) for peer in range(ranks)]
    x, guarded = inputs[rank].clone(), torch.full((count + 64,), float("nan"), dtype=dtype, device="cuda")
    guard = 32
    out = guarded[guard : guard + count]
    kernel.[[ module ]](x, group, out, two_shot=two_shot)
    wanted = sum(value.double() for value in inputs)
    # Additions in float32, each off by half a unit of a sum that is at most `bound`, and one rounding to the type.
    bound = sum(value.double().abs() for value in inputs)
    allowed = ranks * 2.0**-24 * bound + torch.finfo(dtype).eps / 2 * wanted.abs() + torch.finfo(dtype).smallest_normal
    assert ((out.double() - wanted).abs() <= allowed).all(), (count, dtype, two_shot)
    assert torch.equal(x, inputs[rank])
    assert guarded[:guard].isnan().all()
    assert guarded[guard + count :].isnan().all()
    first = out.clone()
    dist.broadcast(first, 0)
    assert torch.equal(first, out), "not the same bits on all ranks"


def _all_sizes(rank, ranks, kernel):
    group = kernel.Group(capacity=CAPACITY)
    for two_shot in (False, True):
        for dtype in TYPES:
            for count in COUNTS:
                _check(kernel, group, rank, ranks, count, dtype, two_shot)
    # Sizes and algorithms in any order: what one call leaves is right for the next.
    generator = torch.Generator().manual_seed(1)
    for _ in range(60):
        count = int(torch.randint(1, 1 << 17, (1,), generator=generator))
        _check(kernel, group, rank, ranks, count, torch.bfloat16, bool(torch.randint(2, (1,), generator=generator)))
    assert kernel.[[ module ]](torch.empty(0, device="cuda"), group).numel() == 0


def _without_waiting(rank, ranks, kernel):
    group = kernel.Group(capacity=CAPACITY)
    x = torch.full((5000,), float(rank + 1), device="cuda")
    outs = []
    for i in range(200):
        if i % 7 == rank:
            torch.cuda._sleep(200_000)  # ranks come at different times
        outs.append(kernel.[[ module ]](x + i, group, two_shot=bool(i % 3 == 0)))
    for i, out in enumerate(outs):
        assert (out == ranks * (ranks + 1) / 2 + ranks * i).all(), i


def _in_a_graph(rank, ranks, kernel):
    group = kernel.Group(capacity=CAPACITY)
    x = torch.zeros(3000, device="cuda")
    out = torch.empty_like(x)
    kernel.[[ module ]](x, group, out)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for two_shot in (False, True, False):  # an odd number: the buffers change places between replays
            kernel.[[ module ]](x, group, out, two_shot=two_shot)
    for replay in range(20):
        x.fill_(replay + rank)
        graph.replay()
        assert (out == ranks * replay + ranks * (ranks - 1) / 2).all(), replay


def _refused(rank, ranks, kernel):
    group = kernel.Group(capacity=1024)
    with pytest.raises(RuntimeError, match="no kernel for"):
        kernel.[[ module ]](torch.zeros(4, dtype=torch.float64, device="cuda"), group)
    with pytest.raises(ValueError, match="multiple of 16"):
        kernel.Group(capacity=24)
    verify_no_gradient(lambda x: kernel.[[ module ]](x, group), [torch.zeros(8, device="cuda")])
    whole = torch.arange(1025.0, device="cuda")
    assert torch.equal(kernel.[[ module ]](whole[1:], group), ranks * whole[1:])  # not aligned, and in parts
    assert torch.equal(kernel.[[ module ]](whole, group, whole.clone()), ranks * whole)


@pytest.mark.parametrize("task", [_all_sizes, _without_waiting, _in_a_graph, _refused], ids=lambda task: task.__name__)
@pytest.mark.parametrize("ranks", sorted({2, min(torch.cuda.device_count(), 8)}))
def test_sum(task, ranks):
    _on_all(task, ranks)
