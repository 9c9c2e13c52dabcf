package main

import (
	"io"
	"os"
)

// output is standard output. It keeps the first error of writing to it, which not every print looks at.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// Fd is for who asks how wide the terminal is; no descriptor when it is not a file.
func (o *output) Fd() uintptr {
	if f, ok := o.Writer.(*os.File); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}
