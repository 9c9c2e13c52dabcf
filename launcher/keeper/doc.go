// Package keeper is the parent of all ranks of a job on one node, a process of its own, and its dialogue with the process that starts it, the front. It starts ranks
// as it is told, says what happens to them, and when it is told to finish, or the front is gone, kills whatever is left of them.
//
// It is loaded for every job, so it depends on little.
package keeper
