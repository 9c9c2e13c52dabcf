// Package sibling finds the project's other programs.
package sibling

import (
	"os"
	"os/exec"
	"path/filepath"
)

// Path is where a program is: beside this one, else in PATH. The error is that of [exec.LookPath].
func Path(name string) (string, error) {
	if own, err := os.Executable(); err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(own), name)); err == nil {
			return beside, nil
		}
	}
	return exec.LookPath(name)
}
