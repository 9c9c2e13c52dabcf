package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// NotFoundError says that a program cannot be started. Status is what a shell would exit with: 127 when there
// is none of that name, 126 when it cannot be executed.
type NotFoundError struct {
	Program string
	Status  int
	Reason  string
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("%s: %s", e.Program, e.Reason) }

// lookUp finds a program. A name with a slash is used as it is; another is looked up in path, the value of PATH, names
// that begin with "fpm" in the folder of siblings first.
func lookUp(name, path, siblings, dir string) (string, error) {
	if strings.ContainsRune(name, '/') {
		file := name
		if dir != "" && !filepath.IsAbs(name) {
			file = filepath.Join(dir, name)
		}
		if err := executable(file); err != nil {
			return "", notFound(name, err)
		}
		return filepath.Abs(file)
	}
	folders := filepath.SplitList(path)
	if siblings != "" && strings.HasPrefix(name, "fpm") {
		folders = append([]string{siblings}, folders...)
	}
	var denied error
	for _, folder := range folders {
		if folder == "" {
			folder = "."
		}
		file := filepath.Join(folder, name)
		err := executable(file)
		if err == nil {
			return filepath.Abs(file)
		}
		if !errors.Is(err, fs.ErrNotExist) && denied == nil {
			denied = err
		}
	}
	if denied != nil {
		return "", notFound(name, denied)
	}
	reason := "no such program in PATH"
	if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
		reason += "; type " + startHere(name, info.Mode()) + " for the file of that name here"
	}
	return "", &NotFoundError{Program: name, Status: 127, Reason: reason}
}

// startHere is what starts a file of the working directory.
func startHere(name string, mode fs.FileMode) string {
	if strings.HasSuffix(name, ".py") && mode&0o111 == 0 {
		return "python3 " + name
	}
	return "./" + name
}

// executable reports why a file cannot be executed.
func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("is a folder")
	case info.Mode()&0o111 == 0:
		return errors.New("is not executable")
	}
	return nil
}

func notFound(name string, err error) *NotFoundError {
	if errors.Is(err, fs.ErrNotExist) {
		return &NotFoundError{Program: name, Status: 127, Reason: "no such file"}
	}
	return &NotFoundError{Program: name, Status: 126, Reason: err.Error()}
}
