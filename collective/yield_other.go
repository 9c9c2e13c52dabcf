//go:build !linux

package collective

import "runtime"

// yield lets another goroutine run.
func yield() { runtime.Gosched() }
