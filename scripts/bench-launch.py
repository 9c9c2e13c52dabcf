#!/usr/bin/env python3
"""What launching costs, beside the MPI launchers that this machine has: bench-launch.py [REPETITIONS].

Three tables: `-np N true` and "start, join, barrier, exit" for 2, 8, 32 and 64 ranks; the output of 8 ranks that write 100 MB each, beside
cat moving the same bytes; the memory of launcher and keeper with 64 ranks. Commands take turns, so that a slow moment of the machine hits all of
them. Needs bin/fpmrun; Debian's mpich, libmpich-dev, openmpi-bin and libopenmpi-dev for the peers, of which a missing one is named and left out.
"""

import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FPMRUN = str(ROOT / "bin" / "fpmrun")
OPENMPI = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "tcp,self"]
WORLDS = (2, 8, 32, 64)
PATIENCE = 30  # seconds after which a peer that does not end is given up


def wall(command, **options):
    """Milliseconds of one command. Not by a time limit of the subprocess module, which looks for the end only now and then."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    watchdog = threading.Timer(PATIENCE, process.kill)
    watchdog.start()
    status = process.wait()
    took = 1e3 * (time.perf_counter() - begin)
    watchdog.cancel()
    if status:
        raise subprocess.CalledProcessError(status, command)
    return took


def shown(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def turns(commands, repetitions, **options):
    """Times of each command in milliseconds; a command that fails is named and has none."""
    times = {name: [] for name in commands}
    for _ in range(repetitions):
        for name, command in commands.items():
            if times[name] is None:
                continue
            try:
                times[name].append(wall(command, **options))
            except (OSError, subprocess.SubprocessError) as error:
                print(f"left out: {name}: {error}", file=sys.stderr)
                times[name] = None
    return {name: values for name, values in times.items() if values}


def compared(title, commands_of, repetitions):
    print(f"| {title} | fpmrun ms | mpiexec.hydra ms | ratio | mpirun.openmpi ms | ratio |\n|---|---|---|---|---|---|")
    for n in WORLDS:
        times = turns(commands_of(n), repetitions)
        row = [f"{n} ranks", shown(times["ours"])]
        for peer in ("hydra", "openmpi"):
            values = times.get(peer)
            row += [shown(values), f"{statistics.median(times['ours']) / statistics.median(values):.2f}"] if values else ["", ""]
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def output(work, repetitions):
    """Throughput of 8 x 100 MB of lines: through a pipe, and into files."""
    line = b"".join(b"%0*d\n" % (20 + 17 * i % 100, i) for i in range(1000))
    (work / "big").write_bytes((line * (100_000_000 // len(line) + 1))[:100_000_000])
    run = f"{FPMRUN} -np 8"
    rows = {
        "`cat` of all eight files into a pipe": "cat big big big big big big big big | cat",
        "eight `cat`, each through a pipe into one pipe": "(for i in 1 2 3 4 5 6 7 8; do cat big | cat & done; wait) | cat",
        "`fpmrun cat`, into a pipe": f"{run} cat big | cat",
        "`fpmrun --tag-output cat`, into a pipe": f"{run} --tag-output cat big | cat",
        "`cat` of each file into another": "for i in 1 2 3 4 5 6 7 8; do cat big >copy-$i; done",
        "`fpmrun --output-dir D cat`": f"{run} --output-dir copies cat big",
    }
    times = turns({name: ["bash", "-c", command] for name, command in rows.items()}, repetitions, cwd=work)
    print("| output of 8 x 100 MB | ms | MB/s |\n|---|---|---|")
    for name, values in times.items():
        print(f"| {name} | {shown(values)} | {800e3 / statistics.median(values):,.0f} |")
    print()


def memory(ranks):
    """Peak memory in MiB of launcher and keeper while that many ranks run."""
    job = subprocess.Popen([FPMRUN, "-np", str(ranks), "sh", "-c", "echo up; exec sleep 60"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for _ in range(ranks):
        job.stdout.readline()
    peaks = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        status = dict(field.split(":", 1) for field in (entry / "status").read_text().splitlines()) if (entry / "status").exists() else {}
        if entry.name == str(job.pid) or status.get("PPid", "").strip() == str(job.pid):
            peaks[status["Name"].strip()] = int(status["VmHWM"].split()[0]) / 1024
    job.terminate()
    job.wait()
    return peaks


def main():
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    print(f"{time.strftime('%F')}, {os.cpu_count()} CPUs, {model}, {repetitions} repetitions; median (lowest to highest)\n")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        subprocess.run(["go", "build", "-o", work / "hello", "./examples/hello"], cwd=ROOT, check=True)
        for peer in ("openmpi", "mpich"):
            if shutil.which(f"mpicc.{peer}"):
                subprocess.run([f"mpicc.{peer}", "-O2", "-o", work / peer, ROOT / "scripts/peers/init.c"], check=True)
        compared("`true`", lambda n: {
            "ours": [FPMRUN, "-np", str(n), "/bin/true"], "hydra": ["mpiexec.hydra", "-n", str(n), "/bin/true"],
            "openmpi": [*OPENMPI, "-np", str(n), "/bin/true"],
        }, repetitions)
        compared("start, join, barrier, exit", lambda n: {
            "ours": [FPMRUN, "-np", str(n), str(work / "hello")], "hydra": ["mpiexec.hydra", "-n", str(n), str(work / "mpich")],
            "openmpi": [*OPENMPI, *(["--mca", "mpi_yield_when_idle", "1"] if n > os.cpu_count() else []), "-np", str(n), str(work / "openmpi")],
        }, min(repetitions, 5))
        output(work, min(repetitions, 5))
    peaks = memory(64)
    print("| memory with 64 ranks | MiB |\n|---|---|")
    for name, peak in peaks.items():
        print(f"| {name} | {peak:.1f} |")


if __name__ == "__main__":
    main()
