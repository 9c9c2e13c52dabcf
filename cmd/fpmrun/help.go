package main

// helpText is what --help prints. It fits a terminal of 80 columns and 50 lines.
const helpText = `Usage: fpmrun [flags] [--] PROGRAM [ARG...] [: [flags] PROGRAM [ARG...]]...
       fpmrun bench [flags] [-- --suggest] [OPERATION:BYTES...]
       fpmrun sweep FILE.yaml; fpmrun completion bash|zsh|fish

Starts one process per rank, watches them, and leaves nothing behind. Ranks:
  -np N, -n N            ranks (one per visible GPU, else 1); gpu, cpu;
                         --nproc-per-node N: on each of several nodes
  --dp N --tp N --pp N --pcp N   topology; the product is the number of ranks
  -x NAME[=VALUE]        set, or pass on, a variable; --env-file FILE: many
  --wdir DIR             start ranks there; -m: PROGRAM is a Python module
  --gpus-per-rank N      GPUs of its own for each rank, inside what is visible;
                         --oversubscribe-gpu: ranks may share them
  --gpu-visibility all   it sees all, its own first: no longer at LOCAL_RANK
  --gpu-map LIST         which ones, in the order of the ranks
  --bind-to WORD         CPUs: none, core, numa, gpu; --report-bindings
  --map-by ppr:N:WORD    N ranks per node, numa or gpu; --rank-by numa: in turn
Input and output
  --tag-output           begin each line with its rank; --timestamp: the time
  --output-dir DIR       write rank-0003.out and .err; --tee: console as well;
                         --redirects 1: stdout only, 2: stderr only
  --show RANKS           only these reach the console, such as 0,2-3
  --stdin RANK           rank that reads stdin (0); all or none
  --pty                  stdout is a terminal, so that C prints line by line
  --flush-partial D      print a line without newline after D (100ms); 0: never
  --output-spill SIZE    on disk for what the console does not take (2G), then
                         --on-slow-console block (as it is), or drop output
Failure and end
  --on-failure WORD      of one rank: stop the others (stop), wait, ignore
  --restarts N           start all ranks again, at most N times, after a failure
  --timeout D            stop the job after D, status 124
  --kill-grace D         from --kill-signal NAME (TERM) to SIGKILL (10s)
  --join-timeout D       that nodes and ranks may take to find each other (2m)
Several nodes
  --via WORD             srun: on those of the Slurm allocation (auto), or local
  --nnodes N --node-rank R --rendezvous HOST:PORT --token-file FILE
                         by hand, the same on each; HOST is node 0's
  --iface NAME|CIDR      that ranks meet on; --tls on, off, auto: encryption
Looking
  --events FILE|fd:N     as JSON lines; --status-interval D: a line of liveness
  --on-quit WORD         of SIGQUIT: report every rank's state; dump: send it on
  --dry-run              print what would be started; --json: as JSON

After ':' come a further program and its own -np, -x, --wdir and GPU flags. D is
90s, 15m or a number of seconds. mpirun's and torchrun's names are accepted.

Exit status: 0 when every rank exited with 0, else the first failing rank's
(128 + signal when it was killed); 124 after --timeout; 126 or 127 when PROGRAM
cannot be started; 128 + signal when fpmrun was stopped; 2 wrong command line.
`
