package machine

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Quota is how many CPUs' worth of time the cgroups of this process leave it, the smallest limit on the way up; 0 is no limit. Both
// versions of cgroups are read, below root ("/" as a file system).
func Quota(root fs.FS) float64 {
	smallest := 0.0
	for _, dir := range Cgroups(root, "self", "cpu") {
		q := quotaOf(root, dir)
		if q > 0 && (smallest == 0 || q < smallest) {
			smallest = q
		}
	}
	return smallest
}

// quotaOf reads one cgroup's limit; 0 is none.
func quotaOf(root fs.FS, dir string) float64 {
	if text, err := fs.ReadFile(root, path.Join(dir, "cpu.max")); err == nil { // version 2: "200000 100000" or "max 100000"
		words := strings.Fields(string(text))
		if len(words) == 2 {
			return ratio(words[0], words[1])
		}
	}
	quota, err := fs.ReadFile(root, path.Join(dir, "cpu.cfs_quota_us"))
	if err != nil {
		return 0
	}
	period, err := fs.ReadFile(root, path.Join(dir, "cpu.cfs_period_us"))
	if err != nil {
		return 0
	}
	return ratio(strings.TrimSpace(string(quota)), strings.TrimSpace(string(period)))
}

// ratio is a quota by its period; 0 when there is none.
func ratio(quota, period string) float64 {
	q, err := strconv.ParseFloat(quota, 64)
	p, err2 := strconv.ParseFloat(period, 64)
	if err != nil || err2 != nil || q <= 0 || p <= 0 {
		return 0
	}
	return q / p
}

// Cgroups are the folders, relative to root, of a process's cgroup with a controller and of all above it, the process's own
// first. pid is a number or "self". It is empty when the controller is not mounted.
func Cgroups(root fs.FS, pid, controller string) []string {
	of, err := fs.ReadFile(root, "proc/"+pid+"/cgroup")
	if err != nil {
		return nil
	}
	mounts, err := fs.ReadFile(root, "proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var dirs []string
	for line := range strings.Lines(string(of)) { // 4:memory:/path, or 0::/path of version 2
		words := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(words) != 3 {
			continue
		}
		v2 := words[0] == "0" && words[1] == ""
		if !v2 && !hasWord(words[1], controller) {
			continue
		}
		point, from, ok := mountOf(string(mounts), controller, v2)
		if !ok {
			continue
		}
		within, ok := strings.CutPrefix(words[2], from)
		if !ok { // the mount shows another part of the tree, as in a container: its top is all there is
			within = ""
		}
		for dir := path.Join(point, within); ; dir = path.Dir(dir) {
			dirs = append(dirs, strings.TrimPrefix(dir, "/"))
			if dir == point || dir == "/" || dir == "." {
				break
			}
		}
	}
	return dirs
}

// mountOf finds where a controller's tree is mounted, and which part of it.
func mountOf(mountinfo, controller string, v2 bool) (point, from string, ok bool) {
	for line := range strings.Lines(mountinfo) { // 36 35 0:30 /part /mount/point options - cgroup cgroup rw,memory
		left, right, found := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		if !found || !strings.HasPrefix(right, "cgroup") {
			continue
		}
		words, kind := strings.Fields(left), strings.Fields(right)
		if len(words) < 5 || len(kind) < 3 {
			continue
		}
		if v2 && kind[0] == "cgroup2" || !v2 && kind[0] == "cgroup" && hasWord(kind[2], controller) {
			return words[4], strings.TrimSuffix(words[3], "/"), true
		}
	}
	return "", "", false
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}
