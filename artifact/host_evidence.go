package artifact

// PointEvidence is what a rank's process, host and devices did around and during a measured point, so that a slow sample can be explained.
type PointEvidence struct {
	BenchmarkID int            `json:"benchmark_id"`
	Before      HostReading    `json:"before"` // when the point was prepared, before the group's start signal
	After       HostReading    `json:"after"`  // when all ranks had exchanged their results
	Steps       []StepEvidence `json:"steps"`  // one for each raw sample
}

// StepEvidence counts what happened to the process, all its threads together, from the end of the step before to the end of this one; for the first step of
// a point from the start signal.
type StepEvidence struct {
	ForwardIndex        int   `json:"forward_index"`
	CollectorCycles     int   `json:"collector_cycles"` // of the Go collector; those that ended in the step
	MinorFaults         int   `json:"minor_page_faults"`
	MajorFaults         int   `json:"major_page_faults"`
	VoluntarySwitches   int   `json:"voluntary_context_switches"`
	InvoluntarySwitches int   `json:"involuntary_context_switches"`
	CPUTime             Float `json:"cpu_seconds"` // user and system
}

// HostReading is the host and the rank's devices at one moment. What cannot be read is left out.
type HostReading struct {
	Load     *Float       `json:"load_1m,omitempty"`
	Runnable *int         `json:"runnable,omitempty"` // threads on the host that run or could
	CPUs     string       `json:"allowed_cpus,omitempty"`
	Governor string       `json:"governor,omitempty"`  // of the first allowed CPU
	GPUs     []GPUReading `json:"gpus,omitempty"`      // of the rank's engine on this host
	GPUError string       `json:"gpu_error,omitempty"` // why there is no reading of them
}

// GPUReading is how a GPU runs at one moment, as NVIDIA's management library tells it.
type GPUReading struct {
	UUID        string   `json:"uuid"`
	SM          *int     `json:"sm_mhz,omitempty"`
	Memory      *int     `json:"memory_mhz,omitempty"`
	Power       *Float   `json:"power_w,omitempty"`
	Temperature *int     `json:"temperature_c,omitempty"`
	Throttle    []string `json:"throttle"` // why its clocks are lower than they could be; empty when they are not, null when unknown
}
