// Package kernels holds the CUDA C++ of the CUDA engine as text. It is compiled on the machine it runs on, by NVRTC, for the GPU there; no
// header of the CUDA toolkit is included. Compile options give the macros:
//
//	HEAD_SIZE   values per attention head, a multiple of 8 and at most 256
//
// Every kernel takes one structure by value, whose layout package cuda repeats.
package kernels

import (
	"embed"
	"slices"
	"strings"
)

//go:embed base.h hopper.h *.cu
var files embed.FS

// parts in the order in which they are one text.
var parts = []string{"base.h", "hopper.h", "layer.cu", "linear.cu", "chain.cu", "chain_cluster.cu", "attention.cu", "attention_tensor.cu", "attention_few.cu", "attention_wide.cu", "attention_hopper.cu", "attention_generic.cu", "sample.cu", "random.cu", "roofline.cu", "progress.cu"}

// Names of the kernels that there are for every head size and device.
var Names = []string{"embed", "rms_norm", "keys", "gate", "attention", "argmax", "publish", "finite", "weights", "pool", "sweep", "mark", "chain_8", "chain_16"}

// Attention for head sizes 64 and 128: of few tokens, and of many new tokens, Wide everywhere, Hopper on compute capability 9.0.
const (
	Few    = "attention_few"
	Wide   = "attention_wide"
	Hopper = "attention_hopper"
)

// NamesFor are the names of all kernels that there are for a head size, on compute capability 9.0 or elsewhere.
func NamesFor(headSize int, hopper bool) []string {
	names := slices.Clone(Names)
	if hopper {
		names = append(names, "chain_held_8", "chain_held_16", "chain_cluster_16", "chain_cluster_32", "chain_cluster_64")
	}
	if headSize == 64 || headSize == 128 {
		names = append(names, Few, Wide)
		if hopper {
			names = append(names, Hopper)
		}
	}
	return names
}

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
