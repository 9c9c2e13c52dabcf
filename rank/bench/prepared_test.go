package bench

import "testing"

// That the engine is ready is told once, before anything ran.
func TestPreparedIsTold(t *testing.T) {
	calls, before := 0, -1
	outcomes, _ := runAll(t, 1, func(_ int, c *Config, f *fake) {
		c.Prepared = func() {
			calls++
			before = len(f.steps)
		}
	})
	if err := outcomes[0].err; err != nil || calls != 1 || before != 0 {
		t.Errorf("told %d times, after %d steps; %v", calls, before, err)
	}
}
