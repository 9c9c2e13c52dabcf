//go:build linux && cgo

package cuda

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// Each kernel is launched by itself and compared with a twin that computes in float64 from the same inputs. A tolerance is a bound of the errors that
// the kernel may make, not an experience:
//
//   - half a unit in the last place of a bfloat16 that is written: between 2^-9 and 2^-8 of the value, which has 8 significant bits;
//   - k 2^-24 of the sum of the magnitudes of k terms that are added in float32 in any order (Higham, "Accuracy and Stability of Numerical
//     Algorithms", 2002, section 4.2);
//   - where a kernel rounds to bfloat16 on the way, as the twin does, a whole unit for each value so near to the middle of two that float32 may take the other;
//   - 2^-8 of each weight of a sum of values where attention multiplies weights in bfloat16.
//
// The largest errors of rounding to bfloat16 and to float32, as shares of the value.
const (
	halfUnit16 = 1.0 / (1 << 8)
	halfUnit32 = 1.0 / (1 << 24)
)

// stored16 is the bound of the error of a value with an error that is then written in bfloat16.
func stored16(v, e float64) float64 {
	_, exponent := math.Frexp(math.Abs(v) + e)
	return e + math.Ldexp(1, max(exponent-9, -134))
}

// canary is how many bytes before and after a buffer must stay as they are.
const canary = 4096

// canaryByte is a pattern that reads as not a number in bfloat16 and in float32, so that a value read from there is seen too.
func canaryByte(i int) byte {
	if i%2 == 1 {
		return 0xff
	}
	return 0x80 | byte(1+i/2%127)
}

// Bits of values that no kernel has written: not numbers, with a sign that no kernel gives them.
const (
	blank16 = 0xffff
	blank32 = 0xffffffff
)

// blank is what a value that was not written reads as.
var blank = math.Float64frombits(0xffffffffffffffff)

func isBlank(v float64) bool { return math.Float64bits(v) == math.Float64bits(blank) }

// stand launches kernels one at a time on buffers of its own.
type stand struct {
	t         *testing.T
	m         *machine
	functions functions
	head      int // values of an attention head
	random    *rand.Rand
	buffers   []*guarded
	kernel    string // that was launched last
	label     string // of the case
	worst     map[string]*tally
}

// guarded is a buffer in device memory between canaries.
type guarded struct {
	what   string
	base   ptr
	before []byte // all of it before the launch
	out    bool   // the kernel writes it
}

// tally is what the launches of a kernel gave.
type tally struct {
	launches, values int
	share            float64 // of its tolerance, of the worst error
	where            string
}

func newStand(t *testing.T, l *Libraries, head int) *stand {
	t.Helper()
	s := &stand{t: t, head: head, random: rand.New(rand.NewPCG(7, uint64(head))), worst: map[string]*tally{}}
	devices, err := Devices()
	if err != nil {
		t.Fatal(err)
	}
	if s.m, err = openMachine(0, false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.m.close(); err != nil {
			t.Error(err)
		}
	})
	if s.functions, err = s.m.loadKernels(devices[0], l, head); err != nil {
		t.Fatal(err)
	}
	return s
}

// begin forgets the buffers of the case before.
func (s *stand) begin(format string, args ...any) {
	s.label, s.buffers = fmt.Sprintf(format, args...), s.buffers[:0]
}

func (s *stand) guard(what string, data []byte, out bool) *guarded {
	s.t.Helper()
	g := &guarded{what: what, out: out, before: make([]byte, len(data)+2*canary)}
	for i := range g.before {
		g.before[i] = canaryByte(i)
	}
	copy(g.before[canary:], data)
	var err error
	if g.base, err = s.m.allocate(what, int64(len(g.before))); err != nil {
		s.t.Fatal(err)
	}
	if err := s.m.copyIn(g.base, unsafe.Pointer(&g.before[0]), int64(len(g.before))); err != nil {
		s.t.Fatal(err)
	}
	s.buffers = append(s.buffers, g)
	return g
}

// raw is a slice's memory.
func raw[T any](data []T) []byte {
	if len(data) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&data[0])), len(data)*int(unsafe.Sizeof(data[0])))
}

// input is a buffer that the kernel only reads; nil gives a null pointer.
func input[T any](s *stand, what string, data []T) ptr {
	if data == nil {
		return 0
	}
	s.t.Helper()
	return s.guard(what, raw(data), false).base + canary
}

// output is a buffer that the kernel writes, and what reads it.
func output[T any](s *stand, what string, data []T) (ptr, func() []T) {
	s.t.Helper()
	g := s.guard(what, raw(data), true)
	return g.base + canary, func() []T {
		s.t.Helper()
		got := make([]T, len(data))
		if err := s.m.copyOut(unsafe.Pointer(&got[0]), g.base+canary, int64(len(raw(got)))); err != nil {
			s.t.Fatal(err)
		}
		return got
	}
}

// launch runs a kernel alone, and checks that it wrote to nothing but its outputs.
func launch[T any](s *stand, name string, grid [3]int, block, shared int, args T) {
	s.t.Helper()
	launchClusters(s, name, grid, block, shared, 1, args)
}

// launchClusters does so with blocks in clusters.
func launchClusters[T any](s *stand, name string, grid [3]int, block, shared, cluster int, args T) {
	s.t.Helper()
	b := &builder{m: s.m, functions: s.functions}
	clusterKernel(b, name, s.label, grid, block, shared, cluster, args)
	if err := runOnce(b); err != nil {
		s.t.Fatal(err)
	}
	if err := s.m.synchronize(); err != nil {
		s.t.Fatalf("%s, %s: %v", name, s.label, err)
	}
	s.kernel = name
	if s.worst[name] == nil {
		s.worst[name] = &tally{}
	}
	s.worst[name].launches++
	for _, g := range s.buffers {
		after := make([]byte, len(g.before))
		if err := s.m.copyOut(unsafe.Pointer(&after[0]), g.base, int64(len(after))); err != nil {
			s.t.Fatal(err)
		}
		end := len(after) - canary
		switch {
		case !bytes.Equal(after[:canary], g.before[:canary]):
			s.t.Errorf("%s, %s: memory before %s was written", name, s.label, g.what)
		case !bytes.Equal(after[end:], g.before[end:]):
			s.t.Errorf("%s, %s: memory after %s was written", name, s.label, g.what)
		case !g.out && !bytes.Equal(after, g.before):
			s.t.Errorf("%s, %s: %s, which it only reads, was written", name, s.label, g.what)
		}
	}
}

// expected is what a twin says of a value: blank where nothing is to be written.
type expected struct{ value, tolerance float64 }

var untouched = expected{value: blank}

// compare takes the worst error of an output as a share of its tolerance.
func (s *stand) compare(what string, got []float64, want []expected) {
	s.t.Helper()
	if len(got) != len(want) {
		s.t.Fatalf("%s, %s: %d values of %s, the twin has %d", s.kernel, s.label, len(got), what, len(want))
	}
	tally, wrong := s.worst[s.kernel], 0
	for i, w := range want {
		share := math.Abs(got[i]-w.value) / w.tolerance
		switch {
		case isBlank(w.value) && isBlank(got[i]), got[i] == w.value:
			share = 0
		case math.IsNaN(share):
			share = math.Inf(1)
		}
		tally.values++
		if share > tally.share {
			tally.share, tally.where = share, fmt.Sprintf("%s, %s %d", s.label, what, i)
		}
		if share > 1 {
			if wrong++; wrong <= 3 {
				s.t.Errorf("%s, %s: %s %d is %v, want %v within %.2g", s.kernel, s.label, what, i, got[i], w.value, w.tolerance)
			}
		}
	}
	if wrong > 3 {
		s.t.Errorf("%s, %s: %d of %d values of %s are wrong", s.kernel, s.label, wrong, len(want), what)
	}
}

// zero checks that counters are as the next launch needs them.
func (s *stand) zero(what string, got []uint32) {
	s.t.Helper()
	if i := slices.IndexFunc(got, func(v uint32) bool { return v != 0 }); i >= 0 {
		s.t.Errorf("%s, %s: %s %d is left at %d, want 0", s.kernel, s.label, what, i, got[i])
	}
}

// report logs what each kernel took of its tolerance.
func (s *stand) report() {
	for _, name := range slices.Sorted(maps.Keys(s.worst)) {
		w := s.worst[name]
		s.t.Logf("%-16s %3d launches, %7d values, worst error %.3f of the tolerance (%s)", name, w.launches, w.values, w.share, w.where)
	}
}

// value16 is a bfloat16 as it is.
func value16(v uint16) float64 {
	if v == blank16 {
		return blank
	}
	return float64(math.Float32frombits(uint32(v) << 16))
}

func values16(list []uint16) []float64 {
	values := make([]float64, len(list))
	for i, v := range list {
		values[i] = value16(v)
	}
	return values
}

// values32 are float32 by their bits.
func values32(list []uint32) []float64 {
	values := make([]float64, len(list))
	for i, v := range list {
		if values[i] = float64(math.Float32frombits(v)); v == blank32 {
			values[i] = blank
		}
	}
	return values
}

func blanks16(n int) []uint16 { return slices.Repeat([]uint16{blank16}, n) }
func blanks32(n int) []uint32 { return slices.Repeat([]uint32{blank32}, n) }

// normal16 are n random values in bfloat16.
func (s *stand) normal16(n int, scale float64) []uint16 {
	list := make([]uint16, n)
	for i := range list {
		list[i] = toBfloat16(float32(s.random.NormFloat64() * scale))
	}
	return list
}

// normal32 are the bits of n random values in float32.
func (s *stand) normal32(n int) []uint32 {
	list := make([]uint32, n)
	for i := range list {
		list[i] = math.Float32bits(float32(s.random.NormFloat64()))
	}
	return list
}

// rounded is a value in bfloat16, and by how much the kernel's may differ since float32 lies on the other side of the middle of two; error is the kernel's
// before it rounds, as a share of the value.
func rounded(v, error float64) (value, doubt float64) {
	low, high := value16(toBfloat16(float32(v*(1-error)))), value16(toBfloat16(float32(v*(1+error))))
	return value16(toBfloat16(float32(v))), math.Abs(high - low)
}

// normError is the share by which the scale of an RMSNorm of so many values, and a value times it, may be off.
func normError(values int) float64 { return float64(values+16) * halfUnit32 }

func TestKernelTwins(t *testing.T) {
	l := needGPU(t)
	for _, head := range []int{64, 32, 80, 96, 128, 256} {
		t.Run(fmt.Sprintf("head %d", head), func(t *testing.T) {
			s := newStand(t, l, head)
			if head == 64 { // those that do not know of heads
				s.chains(false)
				s.clusters(false)
				s.norms()
				s.gates()
				s.embeddings()
				s.argmaxes()
			}
			s.chains(true)
			s.clusters(true)
			s.keysCases()
			s.attentions()
			s.report()
		})
	}
}

// The same on the CPU, where each head size has a library of its own.
func TestEmulatedTwins(t *testing.T) {
	line := regexp.MustCompile(`\S+ +\d+ launches, .*`)
	for _, head := range []int{32, 64, 80, 128, 256} {
		t.Run(fmt.Sprintf("head size %d", head), func(t *testing.T) {
			got := inFakeProcess(t, head, []string{"-test.v", "-test.short", "-test.run", fmt.Sprintf("^TestKernelTwins$/^head_%d$", head)}, "FPM_REQUIRE_GPU=1")
			lines := line.FindAllString(got, -1)
			if len(lines) < 3 {
				t.Errorf("%d kernels were run: %s", len(lines), got)
			}
			t.Log("\n" + strings.Join(lines, "\n"))
		})
	}
}
