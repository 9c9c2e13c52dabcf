package gpu

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/gpu/model"
)

// The script that times PyTorch prints the floors that a Roofline has, of the points that it measures.
func TestFloorsOfThePeer(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	const script = "../scripts/peers/forward.py"
	if _, err := os.Stat(script); err != nil { // and the test cache knows that the test depends on it
		t.Fatal(err)
	}
	for _, preset := range []string{"llama-3.1-8b", "qwen3-0.6b"} {
		t.Run(preset, func(t *testing.T) {
			g, err := model.Load(preset, nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := exec.Command(python, script, "--floors", "--config", filepath.Join("model", "presets", preset+".json")).Output()
			if err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			r := NewRoofline(g, H200, 1, 2)
			lines := json.NewDecoder(strings.NewReader(string(text)))
			seen := map[string]int{}
			for {
				var line struct {
					Phase         string
					Batch, Length int
					Floor         float64 `json:"floor_ms"`
				}
				if err := lines.Decode(&line); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				step := rows(line.Batch, line.Length, 1)
				if line.Phase == "prefill" {
					step = rows(line.Batch, 0, line.Length)
				}
				if want := r.Floor(step).Seconds() * 1e3; math.Abs(line.Floor-want) > 1e-5*want {
					t.Errorf("%s %d x %d: the script says %.5f ms, want %.5f", line.Phase, line.Batch, line.Length, line.Floor, want)
				}
				seen[line.Phase]++
			}
			if seen["decode"] != 7 || seen["prefill"] != 5 {
				t.Errorf("%v points", seen)
			}
		})
	}
}
