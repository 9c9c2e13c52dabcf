package gpu

import (
	"context"
	"time"
)

// Library is an engine that can time a vendor's library with the matrix products of its steps.
type Library interface {
	// Products is how long the library takes for the products of all layers for so many tokens, and for the LM head of so many rows: each with the fastest algorithm that it offers, one after
	// the other on the weights of all layers. No step may be in flight.
	Products(ctx context.Context, tokens, rows int) (time.Duration, error)
}

// What libraries reach of an H200's ceilings beside products, as measured: attention by cuDNN 9.19, 4,031 GB/s of the KV of 64 requests of 4,096 tokens and 553 TFLOP/s in a causal prefill of 8,192; a copy on the
// device, 4,282 GB/s read and written.
const (
	libraryRead = 4031e9 / 4650e9
	libraryMath = 553e12 / 787e12
	libraryCopy = 4282e9 / 4650e9
)

// Library is the least time of a step that is made of a vendor's kernels, whose products take so long: these, attention as fast as the best library's, and what is between them at the rate of copies. That is
// for each layer two norms that add a block's output to the residual stream (8 values a token and hidden dimension, read or written), the rotation with the way into the cache, and SwiGLU.
func (r *Roofline) Library(step *Step, products time.Duration) time.Duration {
	return products + time.Duration(1e9*(r.attention(step, libraryRead, libraryMath)+float64(step.Tokens())*r.between/(libraryCopy*r.device.ReadRate)))
}
