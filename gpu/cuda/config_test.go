package cuda

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// The tensor cores' attention takes 16 keys of a block at a time; the generic one takes any.
func TestBlockSizes(t *testing.T) {
	for _, c := range []struct {
		head, size int
		fits       bool
	}{{128, 16, true}, {64, 48, true}, {128, 8, false}, {64, 24, false}, {96, 1, true}} {
		g, err := model.Load("llama-3.1-8b", fmt.Appendf(nil, `{"head_dim":%d}`, c.head))
		if err != nil {
			t.Fatal(err)
		}
		err = validate(&gpu.Config{Geometry: g, Weights: model.Random(5, g), Blocks: 4, BlockSize: c.size, MaxBatchedTokens: 8, MaxSeqs: 2, MaxModelLen: 8, Graph: gpu.GraphConfig{Mode: "NONE"}})
		if (err == nil) != c.fits || err != nil && (!errors.Is(err, gpu.ErrConfig) || !strings.Contains(err.Error(), "--block-size")) {
			t.Errorf("head_dim %d, blocks of %d: %v", c.head, c.size, err)
		}
	}
}
