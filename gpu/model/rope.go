package model

import "math"

// Names of the supported rotary embedding types.
const (
	RopeDefault = "default"
	RopeLinear  = "linear"
	RopeDynamic = "dynamic"
	RopeLlama3  = "llama3"
	RopeYarn    = "yarn"
)

// Rope is a rotary position embedding: how fast each pair of values turns per position. Pair i of a head is
// values i and i + Dim/2 (Hugging Face's half-split layout).
type Rope struct {
	Type   string
	Dim    int     // rotated values per head
	Theta  float64 // base of the frequencies
	Factor float64 // how many times longer than OriginalMax sequences may be; 1 for the default type

	OriginalMax int // positions the model was trained with before scaling
	// Length is the sequence length that dynamic frequencies are made for, in tokens; see ForLength. Other
	// types ignore it.
	Length int

	LowFreq, HighFreq    float64 // llama3: bounds of the blend, in turns over OriginalMax
	BetaFast, BetaSlow   float64 // yarn: bounds of the ramp, in turns over OriginalMax
	Mscale, MscaleAllDim float64 // yarn: terms of the attention factor, 0 when not given
	Attention            float64 // yarn: attention factor when given, else 0
	Truncate             bool    // yarn: the ramp's bounds are rounded outwards to whole pairs
}

// ForLength returns the embedding for sequences of up to n tokens. Only the dynamic type depends on it: its
// base grows with n beyond OriginalMax. One base is used for the whole of a run, so that keys in the cache
// stay valid while a sequence grows.
func (r Rope) ForLength(n int) Rope {
	r.Length = max(n, r.OriginalMax)
	return r
}

// Base is the base of the frequencies, in the dynamic type enlarged for Length.
func (r Rope) Base() float64 {
	if r.Type != RopeDynamic || r.Length <= r.OriginalMax {
		return r.Theta
	}
	// "NTK-aware" scaling as in Hugging Face transformers' dynamic type.
	stretch := r.Factor*float64(r.Length)/float64(r.OriginalMax) - (r.Factor - 1)
	return r.Theta * math.Pow(stretch, float64(r.Dim)/float64(r.Dim-2))
}

// Frequencies returns the angle each pair turns per position, in radians: (Dim/2).
func (r Rope) Frequencies() []float64 {
	base := r.Base()
	freqs := make([]float64, r.Dim/2)
	for i := range freqs {
		freqs[i] = 1 / math.Pow(base, float64(2*i)/float64(r.Dim))
	}
	switch r.Type {
	case RopeLinear:
		for i := range freqs {
			freqs[i] /= r.Factor
		}
	case RopeLlama3:
		r.llama3(freqs)
	case RopeYarn:
		r.yarn(freqs)
	}
	return freqs
}

// llama3 divides slow pairs by Factor, leaves fast ones and blends between (Llama 3.1's scaling).
func (r Rope) llama3(freqs []float64) {
	for i, f := range freqs {
		turns := float64(r.OriginalMax) * f / (2 * math.Pi)
		switch {
		case turns > r.HighFreq:
		case turns < r.LowFreq:
			freqs[i] = f / r.Factor
		default:
			smooth := (turns - r.LowFreq) / (r.HighFreq - r.LowFreq)
			freqs[i] = (1-smooth)*f/r.Factor + smooth*f
		}
	}
}

// yarn ramps from plain to interpolated frequencies (Peng et al., "YaRN", 2023, section 3.2).
func (r Rope) yarn(freqs []float64) {
	low, high := r.yarnRamp()
	for i, f := range freqs {
		ramp := min(max((float64(i)-low)/(high-low), 0), 1)
		freqs[i] = f/r.Factor*ramp + f*(1-ramp)
	}
}

// yarnRamp is the pair where interpolation begins and the one from which it is complete.
func (r Rope) yarnRamp() (low, high float64) {
	pair := func(turns float64) float64 {
		return float64(r.Dim) * math.Log(float64(r.OriginalMax)/(turns*2*math.Pi)) / (2 * math.Log(r.Theta))
	}
	low, high = pair(r.BetaFast), pair(r.BetaSlow)
	if r.Truncate {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(r.Dim-1))
	if high <= low {
		high = low + 0.001
	}
	return low, high
}

// yarnMscale is YaRN's temperature term for a context stretched by factor.
func yarnMscale(factor, mscale float64) float64 {
	if factor <= 1 {
		return 1
	}
	return 0.1*mscale*math.Log(factor) + 1
}

// AttentionFactor is what cosines and sines are multiplied by: 1 for all types but yarn.
func (r Rope) AttentionFactor() float64 {
	switch {
	case r.Type != RopeYarn:
		return 1
	case r.Attention != 0:
		return r.Attention
	case r.Mscale != 0 && r.MscaleAllDim != 0:
		return yarnMscale(r.Factor, r.Mscale) / yarnMscale(r.Factor, r.MscaleAllDim)
	}
	return yarnMscale(r.Factor, 1)
}
