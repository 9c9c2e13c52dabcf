"""Sums a vector over all ranks with PyTorch; the ranks find each other through the environment alone.

    fpmrun -np 4 python3 examples/torch_allreduce.py

The same file runs under torchrun. On GPUs, `fpmrun -np 4 python3 examples/torch_allreduce.py nccl` leaves every rank all GPUs and takes the one
at LOCAL_RANK, as under torchrun.
"""

import os
import sys

import torch
import torch.distributed as dist

backend = sys.argv[1] if len(sys.argv) > 1 else "gloo"
device = torch.device("cpu")
if backend == "nccl":
    # With --gpus-per-rank the rank's own GPU is the first one that it sees.
    device = torch.device("cuda", int(os.environ.get("FPM_LOCAL_GPU", os.environ["LOCAL_RANK"])))
    torch.cuda.set_device(device)

dist.init_process_group(backend, init_method="env://")
rank, world = dist.get_rank(), dist.get_world_size()

# Element i of rank r is r * 1000 + i: every rank can tell whether the sum is right.
values = torch.arange(1000, dtype=torch.float64, device=device) + 1000 * rank
dist.all_reduce(values)
want = world * torch.arange(1000, dtype=torch.float64, device=device) + 1000 * world * (world - 1) / 2
if not torch.equal(values, want):
    sys.exit(f"rank {rank}: the sum is wrong")
dist.barrier()
if rank == 0:
    print(f"sum over {world} ranks is right; the last element is {values[-1].item():.0f}")
dist.destroy_process_group()
