package launcher

import (
	"os"
	"testing"

	"github.com/fpmrun/fpmrun/launcher/keeper"
)

// TestMain lets the test program be the keeper of jobs that tests run.
func TestMain(m *testing.M) {
	if keeper.IsKeeper(os.Args) {
		os.Exit(keeper.Main(os.Args))
	}
	os.Exit(m.Run())
}
