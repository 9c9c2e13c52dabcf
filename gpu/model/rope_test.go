package model

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// near compares to the digits that a decimal figure is given with.
func near(t *testing.T, what string, got, want, rel float64) {
	t.Helper()
	if math.Abs(got-want) > rel*math.Abs(want) {
		t.Errorf("%s = %.12g, want %.12g", what, got, want)
	}
}

func TestCase02OldAndNewPlaces(t *testing.T) {
	old := load(t, "llama-3.1-8b", "")
	renewed := `"rope_parameters":{"rope_theta":500000.0,"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192}`
	for _, overrides := range []string{
		`{"rope_theta":null,"rope_scaling":null,` + renewed + `}`,
		`{"rope_scaling":null,` + renewed + `}`,
		`{` + renewed + `}`,
		`{"rope_scaling":{"rope_type":null,"type":"llama3"}}`,
	} {
		g := load(t, "llama-3.1-8b", overrides)
		if !slices.Equal(g.Rope.Frequencies(), old.Rope.Frequencies()) {
			t.Errorf("%s: frequencies differ from the old place's; base %v", overrides, g.Rope.Base())
		}
	}
	if g := load(t, "llama-3.1-8b", `{"rope_theta":null,"rope_scaling":null,"rope_parameters":{"rope_theta":500000.0}}`); g.Rope.Theta != 500000 || g.Rope.Type != RopeDefault {
		t.Errorf("rope_parameters with a base alone: %+v", g.Rope)
	}
	for _, c := range []struct {
		overrides string
		want      []string
	}{
		{`{"rope_parameters":{"rope_theta":10000.0,"rope_type":"default"}}`, []string{"rope_parameters.rope_theta", "rope_theta", "rope_scaling"}},
		{`{` + strings.Replace(renewed, `"factor":8.0`, `"factor":4.0`, 1) + `}`, []string{`"rope_scaling"`, `"rope_parameters"`}},
		{`{"rope_scaling":{"type":"yarn"}}`, []string{"rope_type", "type"}},
		{`{"rope_scaling":{"low_freq_factor":null}}`, []string{"rope_scaling.low_freq_factor", "missing"}},
		{`{"rope_scaling":null,"rope_parameters":{"full_attention":{"rope_type":"default"}}}`, []string{"rope_parameters.full_attention"}},
	} {
		_, err := Load("llama-3.1-8b", []byte(c.overrides))
		for _, w := range c.want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: error %v does not name %s", c.overrides, err, w)
			}
		}
	}
}

func TestCase03Llama3(t *testing.T) {
	g := load(t, "llama-3.1-8b", "")
	f := g.Rope.Frequencies()
	plain := Rope{Type: RopeDefault, Dim: 128, Theta: 500000}.Frequencies()
	for i := range f {
		kind := "blended"
		switch {
		case f[i] == plain[i]:
			kind = "plain"
		case math.Abs(f[i]*8-plain[i]) < 1e-15*plain[i]:
			kind = "divided"
		}
		want := "blended"
		if i <= 28 {
			want = "plain"
		} else if i >= 35 {
			want = "divided"
		}
		if kind != want {
			t.Errorf("pair %d is %s, want %s", i, kind, want)
		}
	}
	near(t, "plain[29]", plain[29], 0.002616099253, 1e-9)
	near(t, "[29]", f[29], 0.002166570764, 1e-9)
	near(t, "[30]", f[30], 0.001371893568, 1e-9)
	near(t, "[63]", f[63], 3.068925989e-07, 1e-9)
	if a := g.Rope.AttentionFactor(); a != 1 {
		t.Errorf("attention factor %v, want 1", a)
	}
}

func TestCase04Yarn(t *testing.T) {
	g := load(t, "deepseek-v3", "")
	f := g.Rope.Frequencies()
	if low, high := g.Rope.yarnRamp(); low != 10 || high != 23 || len(f) != 32 {
		t.Errorf("ramp from pair %v to %v of %d, want 10 to 23 of 32", low, high, len(f))
	}
	near(t, "[11]", f[11], 0.03900692, 1e-6)
	near(t, "[16]", f[16], 0.0055, 1e-12)
	near(t, "[23]", f[23], math.Pow(10000, -46.0/64)/40, 1e-12)
	near(t, "[24]", f[24], 2.5e-05, 1e-12)
	if a := g.Rope.AttentionFactor(); a != 1 {
		t.Errorf("cosines are multiplied by %v, want exactly 1", a)
	}
	near(t, "softmax scale", g.SoftmaxScale(), 0.1352337789, 1e-9)
	near(t, "mscale^2", math.Pow(yarnMscale(40, 1), 2), 1.873854207, 1e-9)

	q := load(t, "qwen2.5-7b", `{"rope_scaling":{"type":"yarn","factor":4.0,"original_max_position_embeddings":32768}}`)
	near(t, "attention factor without mscale keys", q.Rope.AttentionFactor(), 0.1*math.Log(4)+1, 1e-15)
	q = load(t, "qwen2.5-7b", `{"rope_scaling":{"type":"yarn","factor":4.0,"attention_factor":1.5}}`)
	near(t, "given attention factor", q.Rope.AttentionFactor(), 1.5, 0)
	near(t, "softmax scale without latent attention", q.SoftmaxScale(), 1/math.Sqrt(128), 1e-15)
}

func TestCase05Dynamic(t *testing.T) {
	g := load(t, "llama-3.1-8b", `{"rope_theta":10000,"max_position_embeddings":4096,"rope_scaling":null,
		"rope_parameters":{"rope_type":"dynamic","factor":2.0}}`)
	for _, c := range []struct {
		length int
		base   float64
	}{{1, 10000}, {4096, 10000}, {8192, 30527.73675}} {
		r := g.Rope.ForLength(c.length)
		near(t, "base", r.Base(), c.base, 1e-9)
		if r.Length != max(c.length, 4096) {
			t.Errorf("length %d, want %d", r.Length, max(c.length, 4096))
		}
		near(t, "frequency of pair 1", r.Frequencies()[1], math.Pow(c.base, -1.0/64), 1e-9)
	}
}

func TestLinear(t *testing.T) {
	g := load(t, "tiny", `{"rope_scaling":{"type":"linear","factor":4.0}}`)
	f := g.Rope.Frequencies()
	near(t, "[0]", f[0], 0.25, 0)
	near(t, "[1]", f[1], math.Pow(10000, -1.0/32)/4, 1e-15)
}
