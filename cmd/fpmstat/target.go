package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fpmrun/fpmrun/artifact"
)

// target is where a command's output goes when its -o says so: the file that a symbolic link names, not the link. It makes sure that no folder, device or
// pipe is replaced by the file, nor any of those that the command reads; what cannot be found is told when it is read.
func target(command, output string, runs []string) (string, error) {
	there, err := os.Stat(output)
	if err != nil {
		return output, nil //nolint:nilerr // what is not there is not replaced
	}
	switch {
	case there.IsDir():
		return "", usage("%s: -o %s is a folder; want the name of a file in it", command, output)
	case !there.Mode().IsRegular():
		return "", usage("%s: -o %s is a device, pipe or socket; want the name of a file", command, output)
	}
	for _, run := range runs {
		read := append(strings.Split(run, ","), run) // the name of a file to merge may have a comma
		if found, err := artifact.LaunchPaths(run); err == nil {
			read = append(read, found...)
		}
		if slices.ContainsFunc(read, func(path string) bool {
			info, err := os.Stat(path)
			return err == nil && os.SameFile(there, info)
		}) {
			return "", usage("%s: -o %s is one of the files to %s; choose another name", command, output, command)
		}
	}
	return filepath.EvalSymlinks(output)
}
