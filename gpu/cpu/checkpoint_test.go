package cpu

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
	"github.com/fpmrun/fpmrun/gpu/model/modeltest"
)

// The same weights from a checkpoint, in one file or several, whole or split, give the same bits as from their source.
func TestCheckpointEqualsItsSource(t *testing.T) {
	for _, f := range families {
		g := geometry(t, f.name, f.overrides)
		tokens := prompt(g, 1, 20)
		run := func(cfg gpu.Config, tp int) []float32 {
			cfg.Threads = 1
			w := start(t, cfg, tp)
			w.run(0, w.open(nil, 20), tokens, 0)
			return slices.Clone(w.logits(0))
		}
		list, err := modeltest.Tensors(g, config(g).Weights, "BF16")
		if err != nil {
			t.Fatal(err)
		}
		for _, files := range []int{1, 3} {
			dir := t.TempDir()
			if err := modeltest.WriteFolder(dir, f.name, f.overrides, list, files); err != nil {
				t.Fatal(err)
			}
			stored, err := model.Load(dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			c, err := model.OpenCheckpoint(dir, stored)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, tp := range []int{1, 2} {
				t.Run(fmt.Sprintf("%s/files%d/tp%d", f.name, files, tp), func(t *testing.T) {
					cfg := config(stored)
					cfg.Weights = c
					if !bitsEqual(run(cfg, tp), run(config(g), tp)) {
						t.Error("the logits differ from those with the weights' source")
					}
				})
			}
		}
	}
}
