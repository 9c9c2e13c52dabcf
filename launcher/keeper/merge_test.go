package keeper

import (
	"slices"
	"testing"
)

func TestMerge(t *testing.T) {
	got := Merge([]string{"A=1", "B=2", "AB=3"}, []string{"A=4", "C=5", "C=6"})
	if want := []string{"B=2", "AB=3", "A=4", "C=6"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
