package artifact

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// LaunchPaths finds the documents of one or more launches: text is a list, separated by commas, of rank or merged documents, of repeat.json documents,
// which stand for their launches, and of folders that hold one repeat.json or else one merged document. The paths are in the order given, each once.
func LaunchPaths(text string) ([]string, error) {
	var paths []string
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			return nil, fmt.Errorf("artifact: %q names an empty path; want FILE or FOLDER, several separated by commas", text)
		}
		found, err := launchPaths(part)
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			if slices.Contains(paths, path) {
				return nil, fmt.Errorf("artifact: %q is named twice; a launch counts once", path)
			}
			paths = append(paths, path)
		}
	}
	return paths, nil
}

func launchPaths(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, unread(err)
	}
	if info.IsDir() {
		repeat := filepath.Join(path, repeatName)
		if _, err := os.Stat(repeat); err == nil {
			return repeatPaths(repeat)
		}
		var merged []string
		for _, pattern := range []string{"*_merged.json", "*_merged.json.zst"} {
			found, err := filepath.Glob(filepath.Join(escapeGlob(path), pattern))
			if err != nil {
				return nil, err
			}
			merged = append(merged, found...)
		}
		if len(merged) != 1 {
			return nil, fmt.Errorf("artifact: folder %q holds %d merged documents and no %s; name the file", path, len(merged), repeatName)
		}
		return merged, nil
	}
	if filepath.Base(path) == repeatName {
		return repeatPaths(path)
	}
	return []string{path}, nil
}

// repeatName is the one name that documents about several launches are written under.
const repeatName = "repeat.json"

// repeatPaths are the merged documents of a repeat.json's launches: beside it, also after the whole folder was moved, or else where it says.
func repeatPaths(path string) ([]string, error) {
	r, err := ReadRepeat(path)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, l := range r.Launches {
		beside := filepath.Join(filepath.Dir(path), filepath.Base(filepath.Dir(l.Path)), filepath.Base(l.Path))
		if _, err := os.Stat(beside); err != nil {
			beside = l.Path
		}
		paths = append(paths, beside)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("artifact: %q lists no launch", path)
	}
	return paths, nil
}

// escapeGlob makes a path stand for itself in a pattern.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
