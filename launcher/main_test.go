package launcher

import (
	"os"
	"testing"
)

// TestMain lets the test program be the keeper of jobs that tests run.
func TestMain(m *testing.M) {
	if IsKeeper(os.Args) {
		os.Exit(KeeperMain())
	}
	os.Exit(m.Run())
}
