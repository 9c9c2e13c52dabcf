package gpu

import "time"

// start is the origin of the process's monotonic clock.
var start = time.Now()

// Monotonic is the time since this process's clock origin in nanoseconds. Stamps of one process can be
// compared with each other; stamps of two processes cannot.
func Monotonic() int64 { return int64(time.Since(start)) }

// Seconds converts a stamp of Monotonic.
func Seconds(ns int64) float64 { return float64(ns) / 1e9 }
