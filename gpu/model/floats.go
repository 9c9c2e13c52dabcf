package model

import (
	"encoding/binary"
	"math"
	"runtime"
	"sync"
)

// floats decodes little-endian values of the types that weights may have to float32, exactly; src holds len(dst) values.
var floats = map[string]func(dst []float32, src []byte){
	"F32": func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	},
	"BF16": func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		}
	},
	fp8Type: func(dst []float32, src []byte) { // to be scaled
		for i := range dst {
			dst[i] = float8[src[i]]
		}
	},
	"F16": func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = float16(binary.LittleEndian.Uint16(src[2*i:]))
		}
	},
}

// float16 is the value of an IEEE 754 binary16. Its exponent and fraction, moved to their places in a float32, are too
// small by a factor of 2^112, which also puts the subnormal numbers right.
func float16(h uint16) float32 {
	sign, rest := uint32(h)>>15<<31, uint32(h&0x7FFF)<<13
	if rest >= 0x1F<<23 { // infinite or not a number
		return math.Float32frombits(sign | 0xFF<<23 | rest&(1<<23-1))
	}
	return math.Float32frombits(sign | math.Float32bits(math.Float32frombits(rest)*0x1p112))
}

// eachRow calls task for each of rows rows of cols values, in several goroutines where that pays.
func eachRow(rows, cols int, task func(row int)) {
	const worth = 1 << 16 // values that pay for a goroutine
	parts := min(runtime.GOMAXPROCS(0), rows*cols/worth+1, max(rows, 1))
	if parts == 1 {
		for row := range rows {
			task(row)
		}
		return
	}
	var wg sync.WaitGroup
	for p := range parts {
		lo, hi := rows*p/parts, rows*(p+1)/parts
		wg.Go(func() {
			for row := lo; row < hi; row++ {
				task(row)
			}
		})
	}
	wg.Wait()
}
