package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fpmrun/fpmrun/launcher"
)

// redirects says which outputs go into the output folder: torchrun's 0 for none, 1 for stdout, 2 for stderr and 3 for
// both, for all ranks or as RANK:NUMBER pairs.
type redirects struct {
	files map[int]launcher.Files
	text  string
}

// Set implements flag.Value.
func (r *redirects) Set(s string) error {
	files := map[int]launcher.Files{}
	for part := range strings.SplitSeq(s, ",") {
		key, number, pair := strings.Cut(part, ":")
		rank := launcher.OtherRanks
		if !pair {
			number = key
		}
		n, err := strconv.Atoi(number)
		if pair && err == nil {
			rank, err = strconv.Atoi(key)
		}
		if err != nil || n < 0 || n > 3 || pair && rank < 0 {
			return fmt.Errorf("want 0, 1 (stdout), 2 (stderr) or 3 (both), or pairs such as 0:1,2:3")
		}
		files[rank] = launcher.Files(n)
	}
	r.files, r.text = files, s
	return nil
}

// String implements flag.Value.
func (r *redirects) String() string { return r.text }
