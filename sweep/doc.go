// Package sweep runs fpmbench many times, once for each cell of a matrix over its flags, and goes on where it was when it is started again.
//
//	f, err := sweep.Read("sweep.yaml")
//	cells, err := f.Cells()
//	report, err := (&sweep.Runner{Cells: cells, Output: f.Output, Programs: programs, Environ: environ, Log: os.Stderr}).Run(ctx)
//
// A File is what a user writes. Its Cells are runs: the command lines of fpmrun and fpmbench and a folder of the cell's own. A Runner starts them one after
// the other, as processes of fpmrun, and keeps in sweep.json what has become of each.
//
// A run is finished when fpmrun exited with 0 and fpmstat check found no fault in its documents; their names and digests are written down then, and a run
// whose documents are still those is never started again. Every launch is told to go on with what its folder holds, so that a run which was killed
// measures only what it lacks.
//
// A Runner holds the lock of its folder, and so do all processes that it starts: nobody begins in a folder in which the ranks of a killed sweep still
// live. When the process of the Runner dies, the kernel kills its fpmrun, whose keeper kills the ranks.
package sweep
