"""The sum over all GPUs of this machine, beside NCCL's: `driver run . -- python example.py`."""

import os
import socket

import kernels
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

SIZES = [1 << power for power in range(13, 27)]
"""8 kB to 64 MB."""


def microseconds(function, calls=50):
    """The time of a call on the GPU: the median of five graphs of many calls."""
    function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            function()
    times = []
    for _ in range(6):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        dist.barrier()
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(1000 * begin.elapsed_time(end) / calls)
    return sorted(times[1:])[2]


def worker(rank, ranks, port):
    """What a rank does; the first one prints."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=torch.device("cuda", rank))
    kernel = kernels.get_kernel("[[ repo_id ]]", version=1)
    group = kernel.Group(capacity=SIZES[-1])
    if rank == 0:
        print(f"{ranks} x {torch.cuda.get_device_name()}, bfloat16, microseconds of a call in a CUDA graph")
        print(f"{'bytes':>10} {'one shot':>9} {'two shots':>9} {'NCCL':>9}")
    for size in SIZES:
        x = torch.randn(size // 2, device="cuda", dtype=torch.bfloat16)
        out, of_nccl = torch.empty_like(x), x.clone()
        times = [
            microseconds(lambda two_shot=two_shot: kernel.[[ module ]](x, group, out, two_shot=two_shot))
            for two_shot in (False, True)
        ]
        times.append(microseconds(lambda: dist.all_reduce(of_nccl)))
        if rank == 0:
            print(f"{size:>10} {times[0]:>9.1f} {times[1]:>9.1f} {times[2]:>9.1f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    count = min(torch.cuda.device_count(), 8)
    if count < 2:
        print("this machine has fewer than two GPUs: nothing to add up")
    else:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            number = free.getsockname()[1]
        multiprocessing.spawn(worker, (count, number), nprocs=count)
