package cuda

import (
	"errors"
	"fmt"

	"github.com/fpmrun/fpmrun/gpu"
	"github.com/fpmrun/fpmrun/gpu/model"
)

// Name is the engine's name.
const Name = "cuda"

// Check reports what this engine cannot run of a model.
func Check(g *model.Geometry) error {
	var errs []error
	refuse := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf("%w model %s on the CUDA engine: "+format, append([]any{gpu.ErrConfig, g.Name}, args...)...))
		}
	}
	refuse(g.MLA != nil, "it has latent attention (kv_lora_rank), the CPU engine runs it")
	refuse(g.Experts != nil, "it has routed experts, the CPU engine runs it")
	if g.MLA == nil {
		refuse(g.HeadDim%8 != 0 || g.HeadDim > 256, "head_dim %d, want a multiple of 8 up to 256", g.HeadDim)
		refuse(g.Heads/g.KVHeads > tileRows, "%d query heads for each KV head, want at most %d", g.Heads/g.KVHeads, tileRows)
		refuse(g.Rope.Dim > g.HeadDim, "%d rotated values in heads of %d", g.Rope.Dim, g.HeadDim)
	}
	refuse(g.Hidden%8 != 0 || g.Intermediate%8 != 0, "hidden_size %d and intermediate_size %d, want multiples of 8", g.Hidden, g.Intermediate)
	return errors.Join(errs...)
}

func validate(cfg *gpu.Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	errs := []error{Check(cfg.Geometry)}
	if tensorHeads(cfg.Geometry.HeadDim) && cfg.BlockSize%blockKeys != 0 {
		errs = append(errs, fmt.Errorf("%w with %d tokens per block (--block-size) on the CUDA engine: head_dim %d needs a multiple of %d", gpu.ErrConfig, cfg.BlockSize, cfg.Geometry.HeadDim, blockKeys))
	}
	if cfg.TP != nil && cfg.TP.Size() > 1 {
		errs = append(errs, fmt.Errorf("%w tensor parallel (--tp %d) on the CUDA engine: it uses one GPU; use --dp", gpu.ErrConfig, cfg.TP.Size()))
	}
	return errors.Join(errs...)
}
