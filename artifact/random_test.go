package artifact

import (
	"fmt"
	"testing"
)

// Generators that are seeded side by side are those that are seeded one by one.
func TestSeedLanes(t *testing.T) {
	for first := range 40 {
		var seeds [lanes]string
		var keys [lanes][]uint32
		for l := range seeds {
			seeds[l] = fmt.Sprintf("seed-%0*d", 1+first*7, l)
			keys[l] = seedKey(seeds[l])
		}
		var got [lanes]Random
		seedLanes(&got, &keys)
		for l, seed := range seeds {
			if want := NewRandom(seed); got[l] != *want {
				t.Fatalf("lane %d, seed of %d bytes: other state", l, len(seed))
			}
		}
	}
}

func BenchmarkSeedLanes(b *testing.B) {
	var keys [lanes][]uint32
	for l := range keys {
		keys[l] = seedKey(fmt.Sprint("content-v1:0:dp0:decode:4cf630070d80b1adfcc827f01de2ed6bfa647794b6706efa295c03f36ff78288:slot", l))
	}
	var r [lanes]Random
	for b.Loop() {
		seedLanes(&r, &keys)
	}
}

func BenchmarkNewRandom(b *testing.B) {
	for b.Loop() {
		NewRandom("content-v1:0:dp0:decode:4cf630070d80b1adfcc827f01de2ed6bfa647794b6706efa295c03f36ff78288:slot1")
	}
}
