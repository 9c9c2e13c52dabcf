// Package state is the layout of the two small files through which a launcher and its ranks
// see each other without a system call per operation: the state pages, one per rank, and the
// job page, one per job and host.
//
// # State page
//
// The launcher makes one file with a page for each rank of the host in the job's private folder, before it starts
// them, and passes its path in FPM_STATE_FILE; a rank's page is the one with its local rank:
//
//	err := state.Create(path, ranks)   // 64 KiB of zeros for each, mode 0600, headers written
//
// The rank maps it and the collective layer writes it:
//
//	page, err := state.Open(path, localRank) // claims the page: pid set, everything else cleared
//	page.Start(rank, size, runID)      // joining
//	page.SetPhase(state.Joined)
//	slot := page.Begin("barrier", group, seq)
//	page.Arrived(slot, 3)              // world rank 3 is known to have arrived
//	page.Waiting(slot, 5)              // about to sleep until world rank 5 says something
//	page.End(slot, state.KindNone, 0)
//	page.Fail(state.KindPeerLost, 5, "collective: barrier #17: rank 5 lost: connection reset")
//
// The launcher reads it at any time, also while the rank is stopped, hangs in C, or is dead:
//
//	snap, err := state.Read(path, localRank)
//
// A Snapshot whose PID is 0 belongs to a process that never used the collective library (the
// words for the report are then 'does not use the collective library'). Open may be called by
// several processes one after the other (`sh -c 'hello; hello'`); the last one owns the page.
// A rank without a page uses NewPrivate, so that its flight recorder exists all the same.
//
// All integers are little endian, times are Unix nanoseconds, names are zero padded:
//
//	offset  size  field
//	     0     8  magic "fpmstate"
//	     8     4  version (1)
//	    12     4  size of the page in bytes (65536)
//	    16     8  sequence lock: odd while a write is under way
//	    24     4  pid, 0 = never mapped
//	    28     4  rank
//	    32     4  world size
//	    36     4  phase (Phase)
//	    40     8  time of Open
//	    48     8  time of the last write
//	    56     8  operations finished since Open
//	    64     8  operations begun while all slots were taken (they have no slot)
//	    72     4  last error: kind (Kind), 0 = none
//	    76     4  last error: blamed world rank, -1 = nobody
//	    80     8  last error: time
//	    88     2  last error: length of the text
//	    90   550  last error: text, cut at a rune
//	   640    64  run id
//	  1024 16384  flight recorder: 256 entries of 64 bytes, entry i % 256 for the i-th finished operation:
//	              op 20, kind 4, group 8, sequence 8, start 8, duration in ns 8, payload bytes 8
//	 20480 16384  16 slots of 1024 bytes, one per operation in flight: used 4, waiting for world
//	              rank 4 (-1 = nobody), op 24, group 8, sequence 8, since 8, number of arrivals 4,
//	              unused 68, bitmap of the world ranks known to have arrived 512 (ranks below 4096)
//
// Writers take the sequence lock (one process, a mutex inside it). Read copies the page between
// two equal, even values of the lock; when the writer died or was stopped in the middle of a write it
// returns what it has with Torn set. Read never trusts the content: Decode is a fuzz target.
//
// # Job page
//
// One file per job and host, made by the launcher (on further hosts by its agent), path in FPM_JOB_FILE:
//
//	job, err := state.CreateJob(path, worldSize)
//	job.SetExit(1, state.Exit{Status: 0})            // rank 1 exited with status 0
//	job.SetExit(2, state.Exit{Status: 9, Signalled: true})
//	job.Pause(); job.Resume()                        // SIGTSTP, SIGCONT
//
// Ranks map it read-only with OpenJob and poll Generation, one load; when it changed they look at Exit
// and Paused. Every field is a word of its own, so the job page needs no lock:
//
//	offset  size  field
//	     0     8  magic "fpmjob\x00\x00"
//	     8     4  version (1)
//	    12     4  world size
//	    16     8  generation, incremented after every change
//	    24     8  paused since (0 = running)
//	    32     8  time spent in finished pauses, ns
//	  4096  8 n   per rank: 0 = has not exited, else 1<<32 | signalled<<31 | status
package state
