package keeper

import "strings"

// Merge sets variables in an environment; of one name the last value stays.
func Merge(environ, changes []string) []string {
	if len(changes) == 0 {
		return environ
	}
	last := make(map[string]int, len(changes)) // name -> position of its last value
	for i, entry := range changes {
		name, _, _ := strings.Cut(entry, "=")
		last[name] = i
	}
	merged := make([]string, 0, len(environ)+len(changes))
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if _, changed := last[name]; !changed {
			merged = append(merged, entry)
		}
	}
	for i, entry := range changes {
		if name, _, _ := strings.Cut(entry, "="); last[name] == i {
			merged = append(merged, entry)
		}
	}
	return merged
}
