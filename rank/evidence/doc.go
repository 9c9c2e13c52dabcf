// Package evidence reads what can make a step slow without being part of it: the Go collector, page faults and context switches over each step, and the
// host's load, the CPUs that the process may use and the clocks of its GPUs between points.
//
//	usage := evidence.NewUsage()
//	usage.Reset(len(steps))   // before the start signal: everything is allocated here
//	usage.Mark()              // at the start signal
//	usage.Mark()              // when each step has ended
//	steps := usage.Steps()    // after the last step
//
//	host := evidence.NewHost()
//	reading := host.Read()    // between points
//
// A mark costs one or two microseconds and allocates nothing. Everything else is for the time between points.
package evidence
