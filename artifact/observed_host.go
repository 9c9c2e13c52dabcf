package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// causesAt are the causes by benchmark_id, evidenceAt the readings.
type (
	causesAt   map[int][]string
	evidenceAt map[int]*PointEvidence
)

// hostEvidence is the evidence of host and process by rank, and what the engine said about its host.
func (d *Document) hostEvidence() (map[int][]PointEvidence, any, error) {
	own := d.members["fpmrun"]
	if own == nil {
		return nil, nil, nil
	}
	type block struct {
		History
		EngineHost json.RawMessage `json:"engine_host"`
	}
	ranks := map[string]block{}
	if d.Type() == "merged" {
		if err := d.decode(own, "$.fpmrun", &ranks); err != nil {
			return nil, nil, err
		}
	} else {
		var b block
		if err := d.decode(own, "$.fpmrun", &b); err != nil {
			return nil, nil, err
		}
		ranks[strconv.Itoa(d.rank())] = b
	}
	points := map[int][]PointEvidence{}
	hosts := map[string]any{}
	for name, b := range ranks {
		rank, err := strconv.Atoi(name)
		if err != nil {
			return nil, nil, d.broken(own, "$.fpmrun"+memberPath(name), errors.New("the key is no rank"))
		}
		points[rank] = b.Points
		if b.EngineHost != nil {
			if hosts[name], err = decodeTree(b.EngineHost); err != nil {
				return nil, nil, fmt.Errorf("artifact: %q: engine_host of rank %s: %w", d.Path, name, err)
			}
		}
	}
	if len(hosts) == 0 {
		return points, nil, nil
	}
	return points, hosts, nil
}

func causesByPoint(points []PointEvidence) causesAt {
	found := causesAt{}
	for _, c := range Causes(points) {
		if !slices.Contains(found[c.BenchmarkID], c.Text) {
			found[c.BenchmarkID] = append(found[c.BenchmarkID], c.Text)
		}
	}
	return found
}

func pointPlaces(points []PointEvidence) evidenceAt {
	found := evidenceAt{}
	for i := range points {
		found[points[i].BenchmarkID] = &points[i]
	}
	return found
}

// Clocks is how a point's devices and CPUs were clocked.
type Clocks struct {
	SM       []int    // MHz, the slower before and after the point; by GPU in the order of their UUIDs
	Throttle []string // reasons that held them down
	Governor string   // of the CPUs
}

// clocksOf reads a point's clocks; false without a reading.
func clocksOf(p *PointEvidence) (Clocks, bool) {
	var c Clocks
	if p == nil {
		return c, false
	}
	c.Governor = p.Before.Governor
	clocks := slowest(p)
	for _, uuid := range slices.Sorted(maps.Keys(clocks)) {
		c.SM = append(c.SM, clocks[uuid])
	}
	for r := range readings(p) {
		c.Throttle = append(c.Throttle, r.reason)
	}
	slices.Sort(c.Throttle)
	c.Throttle = slices.Compact(c.Throttle)
	return c, len(c.SM) > 0 || c.Governor != ""
}

// differ says how two clocks differ, or "". The GPUs of another host are other GPUs: they are compared by their place.
func (c *Clocks) differ(other *Clocks) string {
	if len(c.SM) != len(other.SM) {
		return fmt.Sprintf("%d GPUs against %d", len(c.SM), len(other.SM))
	}
	for i, mhz := range c.SM {
		if lower, higher := min(mhz, other.SM[i]), max(mhz, other.SM[i]); float64(lower) < clockDrop*float64(higher) {
			return fmt.Sprintf("GPU %d at %d MHz against %d", i, mhz, other.SM[i])
		}
	}
	if !slices.Equal(c.Throttle, other.Throttle) {
		return fmt.Sprintf("GPUs slowed down by %s against %s", reasonsText(c.Throttle), reasonsText(other.Throttle))
	}
	if c.Governor != other.Governor {
		return fmt.Sprintf("governor %q against %q", c.Governor, other.Governor)
	}
	return ""
}

func reasonsText(reasons []string) string {
	if len(reasons) == 0 {
		return "nothing"
	}
	return strings.Join(reasons, " ")
}

// settings sorts what a document says about the launch as a whole by the aspect that it belongs to. Paths, time limits and what the worker probe adds
// belong to none.
func settings(head map[string]any, engineHost any) map[string]map[string]any {
	all := map[string]map[string]any{}
	for _, aspect := range Aspects {
		all[aspect] = map[string]any{}
	}
	protocol, _ := head["measurement_protocol"].(map[string]any)
	for key, value := range protocol {
		if key == "preparation" {
			all[AspectPreparation]["measurement_protocol.preparation"] = value
		} else {
			all[AspectInputs]["measurement_protocol."+key] = value
		}
	}
	if kvwarm, ok := head["kvwarm"].(map[string]any); ok {
		for _, key := range []string{"enabled", "warm_eligible", "skip_reason", "giant_kv_threshold", "giant_kv_repeats"} {
			all[AspectPreparation]["kvwarm."+key] = kvwarm[key]
		}
		if dataset, ok := kvwarm["dataset"].(map[string]any); ok {
			all[AspectPreparation]["kvwarm.dataset.sha256"] = dataset["sha256"]
		}
	}
	if engine, ok := head["engine"].(map[string]any); ok {
		for key, value := range identity(engine) {
			if key == "graph" {
				all[AspectDispatch]["engine.graph"] = value
			} else {
				all[AspectEngine]["engine."+key] = value
			}
		}
	}
	for key, aspect := range map[string]string{"cudagraph": AspectDispatch, "limits": AspectEngine, "recurrent_state": AspectEngine} {
		if value, ok := head[key]; ok {
			all[aspect][key] = value
		}
	}
	all[configKey] = map[string]any{}
	if config, ok := head["config"].(map[string]any); ok {
		for key, value := range config {
			if key != "output_path" {
				all[configKey]["config."+key] = value
			}
		}
	}
	if engineHost != nil {
		all[AspectEngine][engineHostKey] = engineHost
	}
	return all
}

const (
	engineHostKey = "fpmrun.engine_host"
	configKey     = "config" // what was asked for; of no aspect
)
