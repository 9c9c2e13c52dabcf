package model

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
)

// ropeKeys are the parameters each rope type has beyond its name and base.
var ropeKeys = map[string][]string{
	RopeDefault: nil,
	RopeLinear:  {"factor"},
	RopeDynamic: {"factor", "original_max_position_embeddings"},
	RopeLlama3:  {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"},
	RopeYarn: {"factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
		"attention_factor", "truncate"},
}

// parseRope reads rope_theta and rope_scaling, or rope_parameters, which replaced both in newer files. When
// a file has both forms they must agree.
func parseRope(c *config, dim int, defaultTheta float64, maxPositions int) Rope {
	theta := c.float("rope_theta", defaultTheta)
	scaling, params := c.object("rope_scaling"), c.object("rope_parameters")
	from := scaling
	if params != nil {
		from = params
		given := params.float("rope_theta", theta)
		if c.has("rope_theta") && given != theta {
			params.fail("rope_theta", "differs from the key %q = %v in the same file", "rope_theta", theta)
		}
		theta = given
		if scaling != nil && !sameScaling(scaling, params) {
			c.fail("rope_scaling", "differs from the key %q in the same file; keep one of them", "rope_parameters")
		}
	}
	if theta <= 1 {
		c.fail("rope_theta", "want a number above 1")
		theta = defaultTheta
	}
	r := Rope{Type: RopeDefault, Dim: dim, Theta: theta, Factor: 1, OriginalMax: maxPositions}
	if from != nil {
		r.parse(from)
	}
	r.Length = r.OriginalMax
	return r
}

// sameScaling compares two rope objects key by key, but for rope_theta and the spelling of the type.
func sameScaling(a, b *config) bool {
	plain := func(c *config) map[string]any {
		m := make(map[string]any)
		for k, raw := range c.keys {
			var v any
			if json.Unmarshal(raw, &v) != nil || v == nil || k == "rope_theta" {
				continue
			}
			if k == "type" {
				k = "rope_type"
			}
			m[k] = v
		}
		return m
	}
	return maps.EqualFunc(plain(a), plain(b), func(x, y any) bool { return equalJSON(x, y) })
}

func equalJSON(x, y any) bool {
	a, errA := json.Marshal(x)
	b, errB := json.Marshal(y)
	return errA == nil && errB == nil && string(a) == string(b)
}

// parse reads the parameters of a scaling object.
func (r *Rope) parse(c *config) {
	c.has("rope_theta")
	oldKey := c.text("type", "")
	r.Type = c.text("rope_type", oldKey)
	key := "rope_type"
	if !c.has("rope_type") {
		key = "type"
	}
	switch {
	case r.Type == "" && c.has("rope_theta"):
		r.Type = RopeDefault // the newer form may leave the type out
	case r.Type == "":
		c.fail("rope_type", "missing; want one of %q", ropeTypes())
		r.Type = RopeDefault
	case oldKey != "" && oldKey != r.Type:
		c.fail("rope_type", "differs from the key %q = %q beside it", "type", oldKey)
	}
	keys, ok := ropeKeys[r.Type]
	if !ok {
		c.fail(key, "this rope type is not supported; supported are %q", ropeTypes())
		r.Type = RopeDefault
		return
	}
	const most = math.MaxInt32
	for _, k := range keys {
		if (k == "factor" || r.Type == RopeLlama3) && !c.has(k) {
			c.fail(k, "missing for rope type %q", r.Type)
		}
		switch k {
		case "factor":
			if r.Factor = c.float(k, 1); r.Factor < 1 {
				c.fail(k, "want 1 or more")
				r.Factor = 1
			}
		case "original_max_position_embeddings":
			r.OriginalMax = c.int(k, r.OriginalMax, 1, most)
		case "low_freq_factor":
			r.LowFreq = c.float(k, 1)
		case "high_freq_factor":
			if r.HighFreq = c.float(k, 4); r.HighFreq <= r.LowFreq {
				c.fail(k, "want more than low_freq_factor, %v", r.LowFreq)
			}
		case "beta_fast":
			r.BetaFast = c.float(k, 32)
		case "beta_slow":
			r.BetaSlow = c.float(k, 1)
		case "mscale":
			r.Mscale = c.float(k, 0)
		case "mscale_all_dim":
			r.MscaleAllDim = c.float(k, 0)
		case "attention_factor":
			r.Attention = c.float(k, 0)
		case "truncate":
			r.Truncate = c.bool(k, true)
		}
	}
	c.finish()
}

func ropeTypes() []string {
	return slices.Sorted(maps.Keys(ropeKeys))
}
