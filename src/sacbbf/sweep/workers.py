"""Who works on a sweep's cells: the flags that say so, and the device, threads and number at a time that follow."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from sacbbf.agents.presets import SIZES, SizeName
from sacbbf.errors import UsageError
from sacbbf.run.devices import gpu_count, has_cuda, resolve_device
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.executor import Executor, LocalExecutor
from sacbbf.sweep.spec import Spec

DEVICES = ("auto", "cpu", "cuda", "mps")
VISIBLE = "CUDA_VISIBLE_DEVICES"  # CUDA's own list of the GPUs that a process may use


@dataclass(frozen=True)
class Workers:
    """Who does the work."""

    executor: Literal["local", "ray", "slurm"] = "local"
    """local: processes on this machine; ray: a Ray cluster; slurm: job arrays."""
    device: str = "auto"
    """Device of all cells: auto, cpu, cuda or mps. ray, slurm: the nodes'; auto asks for GPUs where this machine has
    one."""
    workers: int | None = None
    """Cells at a time. local: by default as many as have cores for their threads, on GPUs --per-gpu for each; ray: by
    default as many as fit the cluster; slurm: the array's limit, by default none."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Compile updates with torch.compile, of cells with at least 20,000 of them; --set compute.compile decides for all.
    auto: where this machine has a compiler."""
    retries: int = 2
    """How often a cell may fail in a row without getting on before it is given up; the rest goes on."""
    reuse: Path | None = None
    """A directory of runs: those that are finished and have the very settings of a cell (eval.baselines may differ) are
    copied, not trained again."""
    measure: bool = False
    """With --dry-run: time updates anew, instead of taking what was measured on this machine before."""
    per_gpu: int = 1
    """Cells that share a GPU."""
    cpus_per_run: int | None = None
    """ray, slurm: CPUs of each cell; by default its threads."""
    address: str | None = None
    """ray: address of the cluster, `auto` for the one this machine belongs to; by default a new one is started here."""
    slurm_partition: str | None = None
    """slurm: the partition."""
    slurm_account: str | None = None
    """slurm: the account that is charged."""
    slurm_qos: str | None = None
    """slurm: the quality of service."""
    slurm_memory: str | None = None
    """slurm: memory of a job, as in 16G; by default what the partition gives."""
    slurm_constraint: str | None = None
    """slurm: features that a node must have, as in a100 or "a100|h100"."""
    slurm_hours: float = 24.0
    """slurm: time limit of a job; one that reaches it is queued again and goes on."""
    slurm_setup: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """slurm: a line of the job's script before its work, as in "module load cuda/12"; may be given several times."""


def check_workers(args: Workers) -> None:
    """Raise UsageError for what makes no sense."""
    for name, least in (("retries", 0), ("workers", 1), ("per_gpu", 1), ("cpus_per_run", 1)):
        number = getattr(args, name)
        if number is not None and number < least:
            raise UsageError(f"{name} = {number}: must be at least {least}")
    if not args.slurm_hours > 0:
        raise UsageError(f"slurm_hours = {args.slurm_hours}: must be above 0")
    if args.reuse is not None and not args.reuse.is_dir():
        raise UsageError(f"reuse = {args.reuse}: must be a directory that holds runs")


def device_of(args: Workers) -> str:
    """Return the device of all cells: resolved here if they run here, else as it was given."""
    kind, _, number = args.device.partition(":")
    if kind == "cuda" and number:
        raise UsageError(
            f"device = {args.device!r}: all cells would share one GPU; give cuda, which spreads them over the GPUs "
            f"that the sweep sees ({VISIBLE}={number} in the environment lets it see that one only)"
        )
    if args.device not in DEVICES:
        raise UsageError(f"device = {args.device!r}: must be {', '.join(DEVICES[:-1])} or {DEVICES[-1]}")
    return resolve_device(args.device) if args.executor == "local" else args.device


def threads_of(size: SizeName, device: str, args: Workers) -> int:
    """Return the threads of each cell: what its size asks for, here no more than its share of the cores.

    On a cluster, where a size without a number of its own would take what a node has, it is the CPUs asked for.
    """
    asked = SIZES[size].threads
    if args.executor != "local":
        return asked or args.cpus_per_run or 1
    together = args.workers or len(gpu_names(device)) * args.per_gpu or 1
    return max(1, min(asked or _cores(), _cores() // together))


def cells_at_a_time(spec: Spec, args: Workers) -> int | None:
    """Return how many cells are worked on at a time; None if that is the cluster's to decide."""
    if args.workers is not None or args.executor != "local":
        return args.workers
    gpus = gpu_names(spec.device)
    return len(gpus) * args.per_gpu if gpus else max(1, _cores() // (spec.threads or _cores()))


def gpu_names(device: str) -> list[str]:
    """Return this machine's GPUs for cells on a device, by the names that CUDA lists them by; none on other devices."""
    if not _on_gpu(device):
        return []
    count = gpu_count()
    listed = os.environ.get(VISIBLE)
    names = [str(number) for number in range(count)] if listed is None else listed.split(",")
    return [name.strip() for name in names[:count]]  # CUDA stops at the first name that is none


def _on_gpu(device: str) -> bool:
    return device.startswith("cuda") or (device == "auto" and has_cuda())


def _cores() -> int:
    return os.cpu_count() or 1


def make_executor(directory: SweepDirectory, spec: Spec, args: Workers, cells: int, trust: bool = False) -> Executor:
    """Return the executor that the flags ask for; with `trust`, modules may come from the working directory."""
    if args.executor == "local":
        at_a_time = min(cells_at_a_time(spec, args) or 1, cells)
        return LocalExecutor(directory, at_a_time, gpu_names(spec.device), trust)
    cpus = args.cpus_per_run or spec.threads or 1
    on_gpu = _on_gpu(spec.device)
    if args.executor == "ray":
        from sacbbf.sweep.ray_executor import RayExecutor

        gpu_share = 1 / args.per_gpu if on_gpu else 0.0
        return RayExecutor(
            directory, address=args.address, workers=args.workers, cpus=cpus, gpus=gpu_share, trust=trust
        )
    from sacbbf.sweep.slurm_executor import SlurmExecutor

    return SlurmExecutor(
        directory,
        workers=args.workers,
        cpus=cpus,
        gpus=1 if on_gpu else 0,
        hours=args.slurm_hours,
        wishes=slurm_wishes(args),
        trust=trust,
    )


def slurm_wishes(args: Workers) -> dict[str, object]:
    """Return what the flags ask of Slurm beyond processors and time, by submitit's names; only what was given."""
    wishes = {
        "slurm_partition": args.slurm_partition,
        "slurm_account": args.slurm_account,
        "slurm_qos": args.slurm_qos,
        "slurm_mem": args.slurm_memory,
        "slurm_constraint": args.slurm_constraint,
        "slurm_setup": list(args.slurm_setup),
    }
    return {name: value for name, value in wishes.items() if value}
