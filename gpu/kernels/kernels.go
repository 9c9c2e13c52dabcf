// Package kernels holds the CUDA C++ of the CUDA engine as text. It is compiled on the machine it runs on, by NVRTC, for the GPU there; no
// header of the CUDA toolkit is included. Compile options give the macros:
//
//	HEAD_SIZE   values per attention head, a multiple of 8 and at most 256
//
// Every kernel takes one structure by value, whose layout package cuda repeats.
package kernels

import (
	"embed"
	"strings"
)

//go:embed base.h hopper.h *.cu
var files embed.FS

// parts in the order in which they are one text.
var parts = []string{"base.h", "hopper.h", "layer.cu", "linear.cu", "attention.cu", "attention_tensor.cu", "attention_wide.cu", "attention_generic.cu", "sample.cu", "random.cu", "roofline.cu", "progress.cu"}

// Names of the kernels that there are for every head size.
var Names = []string{"embed", "rms_norm", "keys", "gate", "attention", "argmax", "publish", "finite", "weights", "pool", "sweep", "mark",
	"linear_plain_8", "linear_plain_16", "linear_float_8", "linear_float_16", "linear_add_8", "linear_add_16", "linear_gate_8", "linear_gate_16", "linear_rotate_8", "linear_rotate_16"}

// Wide is the attention of many new tokens, for head sizes 64 and 128.
const Wide = "attention_wide"

// Source is the text of all kernels.
func Source() string {
	var b strings.Builder
	for _, name := range parts {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // it is embedded
		}
		b.WriteString("#line 1 \"" + name + "\"\n")
		b.Write(text)
	}
	return b.String()
}
