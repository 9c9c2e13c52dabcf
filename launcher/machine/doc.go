// Package machine describes a host's CPUs and GPUs, and places ranks on them.
//
// A [Machine] is read from the kernel ([Read]) and from the lines of fpmgpu ([Machine.AddGPUs]), or written as text ([Parse]), so
// that placement can be tested for machines that are not there:
//
//	allowed 0-15          CPUs that this process may use
//	quota 4.5             CPUs' worth of time that its cgroup gets
//	node 0 0-7            NUMA node and its CPUs
//	node 1 8-15
//	core 0,8              hyper-threads of one core; without such lines each CPU is a core
//	gpu 0 GPU-aaaa node=0 name=NVIDIA H200
//	mig 0 MIG-bbbb        slice of GPU 0, which then runs no programs as a whole
//
// [Place] is a pure function from a machine and a [Request] to the CPUs and GPUs of each rank.
package machine
