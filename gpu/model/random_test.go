package model

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
)

func fill(t *testing.T, s Source, name string, r Rect) []float32 {
	t.Helper()
	dst := make([]float32, r.Rows*r.Cols)
	if err := s.Fill(name, r, dst); err != nil {
		t.Fatal(err)
	}
	return dst
}

// The same steps as in Random's comment in unbounded integers and float64, rounded step by step.
func slowElement(seed uint64, name string, index uint64, initRange float64) float32 {
	mod := new(big.Int).Lsh(big.NewInt(1), 64)
	num := func(v uint64) *big.Int { return new(big.Int).SetUint64(v) }
	sum := sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, seed), name...))
	z := num(index + 1)
	z.Mul(z, num(0x9E3779B97F4A7C15))
	z.Add(z, num(binary.LittleEndian.Uint64(sum[:8])))
	z.Mod(z, mod)
	for _, step := range []struct {
		shift uint
		mul   uint64
	}{{30, 0xBF58476D1CE4E5B9}, {27, 0x94D049BB133111EB}, {31, 1}} {
		z.Xor(z, new(big.Int).Rsh(z, step.shift))
		z.Mul(z, num(step.mul))
		z.Mod(z, mod)
	}
	bits := z.Uint64()
	n := float64(bits&0xFFFF+bits>>16&0xFFFF+bits>>32&0xFFFF+bits>>48) - 131070
	x := float32(n * float64(float32(initRange/37837.22766)))
	if strings.HasSuffix(name, "norm.weight") {
		x = float32(1 + float64(x))
	}
	// Round to 8 significant bits in float64, where the tie rule is RoundToEven's.
	if x == 0 {
		return x
	}
	_, exp := math.Frexp(float64(x))
	return float32(math.Ldexp(math.RoundToEven(math.Ldexp(float64(x), 8-exp)), exp-8))
}

func TestRandomFollowsItsDescription(t *testing.T) {
	g := load(t, "tiny", "")
	for _, name := range []string{EmbedName, "model.layers.1.mlp.down_proj.weight", "model.layers.0.input_layernorm.weight"} {
		for _, seed := range []uint64{0, 1, 1 << 63} {
			rows, cols := shape(t, g, name)[0], 1
			if s := shape(t, g, name); len(s) == 2 {
				cols = s[1]
			}
			got := fill(t, Random(seed, g), name, Rect{Rows: rows, Cols: cols})
			for i := 0; i < len(got); i += 1 + len(got)/500 {
				if want := slowElement(seed, name, uint64(i), 0.02); got[i] != want {
					t.Fatalf("seed %d, %s[%d] = %v, want %v", seed, name, i, got[i], want)
				}
			}
		}
	}
}

// A change of these bits changes every recorded logit.
func TestRandomGoldenBits(t *testing.T) {
	g := load(t, "tiny", "")
	for _, c := range []struct {
		name string
		rect Rect
		want []uint16
	}{
		{EmbedName, Rect{Rows: 1, Cols: 8}, []uint16{0xbc42, 0x3c77, 0x3ce0, 0x3c9d, 0x3c92, 0x3c85, 0x3ce8, 0xbca3}},
		{"model.layers.0.input_layernorm.weight", Rect{Rows: 8, Cols: 1}, []uint16{0x3f7c, 0x3f82, 0x3f7f, 0x3f80, 0x3f7d, 0x3f81, 0x3f81, 0x3f80}},
	} {
		got := make([]uint16, 8)
		for i, v := range fill(t, Random(1, g), c.name, c.rect) {
			got[i] = uint16(math.Float32bits(v) >> 16)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s begins %#04x, want %#04x", c.name, got, c.want)
		}
	}
}

func TestRandomShardsSeeTheSameBits(t *testing.T) {
	g := load(t, "tiny", "")
	s := Random(7, g)
	name := "model.layers.0.self_attn.q_proj.weight"
	whole := fill(t, s, name, Rect{Rows: 256, Cols: 256})
	r := Rect{Row: 100, Col: 30, Rows: 77, Cols: 101}
	part := fill(t, s, name, r)
	for i := range r.Rows {
		want := whole[(r.Row+i)*256+r.Col:][:r.Cols]
		if !slices.Equal(part[i*r.Cols:(i+1)*r.Cols], want) {
			t.Fatalf("row %d of the rectangle differs from the whole tensor", i)
		}
	}
}

func TestRandomMoments(t *testing.T) {
	g := load(t, "tiny", `{"initializer_range":0.05}`)
	v := fill(t, Random(3, g), EmbedName, Rect{Rows: g.Vocab, Cols: g.Hidden})
	var sum, sq, quad float64
	for _, x := range v {
		if math.Float32bits(x)&0xFFFF != 0 {
			t.Fatalf("%v is not a bfloat16", x)
		}
		f := float64(x)
		sum, sq, quad = sum+f, sq+f*f, quad+f*f*f*f
	}
	n := float64(len(v))
	mean, variance := sum/n, sq/n
	if math.Abs(mean) > 5*0.05/math.Sqrt(n) {
		t.Errorf("mean %v over %v elements, want 0", mean, n)
	}
	near(t, "deviation", math.Sqrt(variance), 0.05, 0.005)
	near(t, "kurtosis of a sum of four uniform numbers", quad/n/variance/variance, 2.7, 0.02)
}

func TestRandomNeedsNamesAndPlaces(t *testing.T) {
	s := Random(1, load(t, "tiny", ""))
	for _, c := range []struct {
		name string
		rect Rect
		size int
		want string
	}{
		{"model.layers.9.mlp.up_proj.weight", Rect{Rows: 1, Cols: 1}, 1, "model.layers.9"},
		{NormName, Rect{Row: 255, Rows: 2, Cols: 1}, 2, NormName},
		{NormName, Rect{Row: -1, Rows: 1, Cols: 1}, 1, NormName},
		{NormName, Rect{Rows: 2, Cols: 1}, 3, "3"},
	} {
		if err := s.Fill(c.name, c.rect, make([]float32, c.size)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Fill(%s, %+v) = %v, want an error naming %s", c.name, c.rect, err, c.want)
		}
	}
}

func BenchmarkRandom(b *testing.B) {
	dst := make([]float32, 1<<20)
	b.SetBytes(int64(len(dst)))
	for b.Loop() {
		fillRandom(dst, 1, 0, 1e-6, 0)
	}
}
