package artifact

import (
	"crypto/sha512"
	"encoding/binary"
	"math/bits"
)

// Random is CPython's random.Random seeded with a string: the Mersenne Twister MT19937 (Matsumoto and Nishimura
// 1998) keyed by the seed's UTF-8 bytes followed by their SHA-512, read as one big-endian integer.
type Random struct {
	state [624]uint32
	next  int
}

// NewRandom seeds a generator as random.Random(seed) does.
func NewRandom(seed string) *Random {
	r := &Random{}
	r.seedArray(seedKey(seed))
	return r
}

// seedKey is the number of a seed in words, the least significant first.
func seedKey(seed string) []uint32 {
	sum := sha512.Sum512([]byte(seed))
	number := append([]byte(seed), sum[:]...)
	for len(number) > 0 && number[0] == 0 {
		number = number[1:]
	}
	key := make([]uint32, (len(number)+3)/4)
	for i := range key {
		var word [4]byte
		end := len(number) - 4*i
		copy(word[max(0, 4-end):], number[max(0, end-4):end])
		key[i] = binary.BigEndian.Uint32(word[:])
	}
	return key
}

// seedState is the state that every seeding by an array starts from: init_genrand(19650218).
var seedState = func() (state [624]uint32) {
	state[0] = 19650218
	for i := 1; i < len(state); i++ {
		prev := state[i-1]
		state[i] = 1812433253*(prev^prev>>30) + uint32(i)
	}
	return state
}()

// seedArray is init_by_array of the reference implementation.
func (r *Random) seedArray(key []uint32) {
	r.state = seedState
	n := len(r.state)
	i, j := 1, 0
	for range max(n, len(key)) {
		prev := r.state[i-1]
		r.state[i] = (r.state[i] ^ (prev^prev>>30)*1664525) + key[j] + uint32(j)
		if j++; j == len(key) {
			j = 0
		}
		if i++; i == n {
			r.state[0], i = r.state[n-1], 1
		}
	}
	for range n - 1 {
		prev := r.state[i-1]
		r.state[i] = (r.state[i] ^ (prev^prev>>30)*1566083941) - uint32(i)
		if i++; i == n {
			r.state[0], i = r.state[n-1], 1
		}
	}
	r.state[0] = 1 << 31
}

// Uint32 is the next output of the generator. The state advances one word at a time, so that a generator which is
// asked for few numbers does little.
func (r *Random) Uint32() uint32 {
	const n, m = 624, 397
	i := r.next
	following, far := i+1, i+m
	if following == n {
		following = 0
	}
	if far >= n {
		far -= n
	}
	y := r.state[i]&(1<<31) | r.state[following]&(1<<31-1)
	v := r.state[far] ^ y>>1 ^ 0x9908b0df*(y&1)
	r.state[i], r.next = v, following
	v ^= v >> 11
	v ^= v << 7 & 0x9d2c5680
	v ^= v << 15 & 0xefc60000
	return v ^ v>>18
}

// Float64 is uniform in [0, 1) with 53 bits.
func (r *Random) Float64() float64 {
	hi, lo := r.Uint32()>>5, r.Uint32()>>6
	return (float64(hi)*67108864 + float64(lo)) / (1 << 53)
}

// Below is uniform in [0, n), 0 < n < 2^32, by rejection.
func (r *Random) Below(n int) int {
	k := bits.Len(uint(n))
	for {
		if v := int(r.Uint32() >> (32 - k)); v < n {
			return v
		}
	}
}

// Shuffle permutes n elements as random.shuffle does.
func (r *Random) Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, r.Below(i+1))
	}
}

// lanes is how many generators are seeded side by side.
const lanes = 4

// seedLanes seeds generators as seedArray does. Every word of a state depends on the one before it, so that one generator leaves most of
// the processor idle; four take as long as two. Keys are shorter than the state.
func seedLanes(r *[lanes]Random, keys *[lanes][]uint32) {
	const n = len(Random{}.state)
	var prev [lanes]uint32
	var j [lanes]int
	for l := range r {
		r[l].state, r[l].next = seedState, 0
		prev[l] = seedState[0]
	}
	mix := func(i int) {
		for l := range lanes {
			key := keys[l]
			v := (r[l].state[i] ^ (prev[l]^prev[l]>>30)*1664525) + key[j[l]] + uint32(j[l])
			r[l].state[i], prev[l] = v, v
			if j[l]++; j[l] == len(key) {
				j[l] = 0
			}
		}
	}
	blend := func(i int) {
		for l := range lanes {
			v := (r[l].state[i] ^ (prev[l]^prev[l]>>30)*1566083941) - uint32(i)
			r[l].state[i], prev[l] = v, v
		}
	}
	for i := 1; i < n; i++ {
		mix(i)
	}
	mix(1) // after the last word comes the first again, which holds a copy of the last
	for i := 2; i < n; i++ {
		blend(i)
	}
	blend(1)
	for l := range r {
		r[l].state[0] = 1 << 31
	}
}
