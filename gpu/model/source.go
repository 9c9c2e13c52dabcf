package model

import "fmt"

// Rect is a rectangle of a tensor; a vector of n values is n rows of one column.
type Rect struct {
	Row, Col   int // first row and column
	Rows, Cols int // size
}

// Source is where the weights of a model come from. It may be used by several goroutines.
type Source interface {
	// Fill writes a rectangle of a tensor, named as in the unsharded checkpoint, to dst row by row as
	// float32. dst holds exactly Rows*Cols values. The values depend on name and place alone, never on how a
	// tensor is cut into rectangles.
	Fill(name string, r Rect, dst []float32) error
	// Kind is "random" or "safetensors".
	Kind() string
	// Close frees what the source holds; filled slices stay valid.
	Close() error
}

// checkRect refuses a rectangle outside its tensor and a destination of another size.
func checkRect(t Tensor, r Rect, n int) error {
	if r.Row < 0 || r.Col < 0 || r.Rows < 0 || r.Cols < 0 || r.Row > t.Rows()-r.Rows || r.Col > t.Cols()-r.Cols {
		return fmt.Errorf("model: tensor %s %v has no rows %d to %d, columns %d to %d",
			t.Name, t.Shape, r.Row, r.Row+r.Rows, r.Col, r.Col+r.Cols)
	}
	if n != r.Rows*r.Cols {
		return fmt.Errorf("model: tensor %s: %d x %d values do not fit a destination of %d", t.Name, r.Rows, r.Cols, n)
	}
	return nil
}
