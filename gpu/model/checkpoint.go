package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// Names of the files of a checkpoint's folder.
const (
	singleFile = "model.safetensors"
	indexFile  = "model.safetensors.index.json"
)

// Checkpoint is a Source that reads safetensors files as they are needed.
type Checkpoint struct {
	folder  string
	files   map[string]*mapping // by name in the folder
	tensors map[string]place    // the geometry's tensors
	ignored []string
}

// place is where a tensor's values are.
type place struct {
	stored
	tensor Tensor
	file   string
	scales *scales // of an fp8 tensor
}

// OpenCheckpoint opens the weights of a geometry: a folder with model.safetensors.index.json and the files it lists, a
// folder with model.safetensors, or one .safetensors file. Weights are bfloat16, float16, float32, or fp8 with one scale
// per block as in DeepSeek-V3.
//
// Every tensor of the geometry must be there with its shape, and every stored tensor must have a place in the geometry,
// except those that [Checkpoint.Ignored] tells of: anything else means that config and weights are of different models.
// With an index no other file of the folder is looked at. All headers are compared with the real sizes of the files;
// no value is read yet. Errors are *WeightsError, several of them joined.
func OpenCheckpoint(path string, g *Geometry) (*Checkpoint, error) {
	c := &Checkpoint{files: make(map[string]*mapping), tensors: make(map[string]place)}
	if err := c.open(path, g); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Checkpoint) open(path string, g *Geometry) error {
	names, index, err := c.list(path)
	if err != nil {
		return err
	}
	have := make(map[string]place)
	for _, name := range names {
		full := filepath.Join(c.folder, name)
		m, err := openMapping(full)
		if errors.Is(err, fs.ErrNotExist) && index != nil {
			return &WeightsError{File: full, Reason: fmt.Sprintf("%s lists this file, but folder %s does not have it", indexFile, c.folder)}
		}
		if err != nil {
			return &WeightsError{File: full, Reason: err.Error()}
		}
		c.files[name] = m
		tensors, err := readHeader(full, m.file, m.size)
		if err != nil {
			return err
		}
		for _, t := range tensors {
			if index == nil || index[t.Name] == name {
				have[t.Name] = place{stored: t, file: name}
			}
		}
	}
	return errors.Join(c.match(g, have, index), c.leftovers(g, have))
}

// list finds the files to read and the index, nil when there is none.
func (c *Checkpoint) list(path string) (names []string, index map[string]string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, &WeightsError{File: path, Reason: err.Error()}
	}
	if !info.IsDir() {
		c.folder = filepath.Dir(path)
		return []string{filepath.Base(path)}, nil, nil
	}
	c.folder = path
	file := filepath.Join(path, indexFile)
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(path, singleFile)); err != nil {
			return nil, nil, &WeightsError{File: path, Reason: fmt.Sprintf("the folder holds neither %s nor %s", indexFile, singleFile)}
		}
		return []string{singleFile}, nil, nil
	}
	if err != nil {
		return nil, nil, &WeightsError{File: file, Reason: err.Error()}
	}
	defer f.Close()
	var content struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.NewDecoder(io.LimitReader(f, mostHeaderBytes)).Decode(&content); err != nil {
		return nil, nil, &WeightsError{File: file, Reason: err.Error()}
	}
	if len(content.WeightMap) == 0 {
		return nil, nil, &WeightsError{File: file, Reason: `key "weight_map": missing or empty; want the file of each tensor`}
	}
	for tensor, name := range content.WeightMap {
		if name != filepath.Base(name) || name == "." || name == ".." || !strings.HasSuffix(name, ".safetensors") {
			return nil, nil, &WeightsError{File: file, Tensor: tensor, Reason: fmt.Sprintf("%q is not the name of a .safetensors file in the folder", name)}
		}
	}
	return slices.Compact(slices.Sorted(maps.Values(content.WeightMap))), content.WeightMap, nil
}

// mostReports bounds the faults of one kind that an error lists.
const mostReports = 4

// match finds every tensor of the geometry.
func (c *Checkpoint) match(g *Geometry, have map[string]place, index map[string]string) error {
	var errs []error
	for t := range g.Tensors() {
		at, ok := have[t.Name]
		where := filepath.Join(c.folder, at.file)
		reason := ""
		switch {
		case !ok:
			where = c.folder
			reason = "the model needs this tensor, and no file has it"
			if name, listed := index[t.Name]; listed {
				reason = fmt.Sprintf("%s says that %s has this tensor, and it does not", indexFile, name)
			} else if index != nil {
				reason = fmt.Sprintf("the model needs this tensor, and %s does not list it", indexFile)
			}
			if t.Name == HeadName {
				reason += "; tie_word_embeddings is false"
			}
		case !slices.Equal(at.Shape, t.Shape):
			reason = fmt.Sprintf("shape %v, want %v by config %s", at.Shape, t.Shape, g.Name)
		case floats[at.Type] == nil:
			reason = fmt.Sprintf("type %s is not supported; want BF16, F16, F32 or %s", at.Type, fp8Type)
		case at.Type == fp8Type:
			at.scales, reason = findScales(t, g, have)
		}
		if reason != "" {
			errs = append(errs, &WeightsError{File: where, Tensor: t.Name, Reason: reason})
			continue
		}
		at.tensor = t
		c.tensors[t.Name] = at
	}
	return shorten(errs)
}

// leftovers refuses stored tensors that the model has no use for, but for those that are known not to matter.
func (c *Checkpoint) leftovers(g *Geometry, have map[string]place) error {
	wanted := make(map[string]bool)
	for t := range g.Tensors() {
		wanted[t.Name] = true
	}
	var errs []error
	beyond, frequencies := 0, 0
	for _, name := range slices.Sorted(maps.Keys(have)) {
		switch {
		case wanted[name], c.tensors[strings.TrimSuffix(name, scaleSuffix)].scales != nil:
		case name == HeadName && g.Tied:
			c.ignored = append(c.ignored, fmt.Sprintf("tensor %s is ignored: tie_word_embeddings is true, so the embedding is the head", name))
		case layerOf(name) >= g.Layers:
			beyond++
		case strings.HasSuffix(name, ".rotary_emb.inv_freq"):
			frequencies++
		default:
			errs = append(errs, &WeightsError{File: filepath.Join(c.folder, have[name].file), Tensor: name, Reason: "the model of config " + g.Name + " has no such tensor"})
		}
	}
	if beyond > 0 {
		c.ignored = append(c.ignored, fmt.Sprintf("%d tensors of layers from %d on are ignored: num_hidden_layers is %d", beyond, g.Layers, g.Layers))
	}
	if frequencies > 0 {
		c.ignored = append(c.ignored, fmt.Sprintf("%d tensors rotary_emb.inv_freq are ignored: frequencies are computed from the config", frequencies))
	}
	return shorten(errs)
}

// layerOf is the number of the layer that a tensor belongs to, -1 outside the layers.
func layerOf(name string) int {
	rest, ok := strings.CutPrefix(name, "model.layers.")
	number, _, found := strings.Cut(rest, ".")
	if n, err := strconv.Atoi(number); ok && found && err == nil {
		return n
	}
	return -1
}

// shorten joins errors, but only the first few of many.
func shorten(errs []error) error {
	if more := len(errs) - mostReports; more > 0 {
		errs = append(errs[:mostReports:mostReports], fmt.Errorf("model: weights: %d more tensors like these", more))
	}
	return errors.Join(errs...)
}

// Ignored says, one sentence each, which stored tensors are not used and why.
func (c *Checkpoint) Ignored() []string { return c.ignored }

// Kind: see Source.
func (c *Checkpoint) Kind() string { return "safetensors" }

// Fill: see Source. It reads the pages of the rectangle alone. A file that another process cuts short meanwhile is an
// error.
func (c *Checkpoint) Fill(name string, r Rect, dst []float32) (err error) {
	t, ok := c.tensors[name]
	if !ok {
		return &WeightsError{File: c.folder, Tensor: name, Reason: "the model has no such tensor"}
	}
	if err := checkRect(t.tensor, r, len(dst)); err != nil {
		return err
	}
	data, err := c.files[t.file].bytes()
	if err != nil {
		return &WeightsError{File: filepath.Join(c.folder, t.file), Tensor: name, Reason: err.Error()}
	}
	factors, err := c.scaleData(&t)
	if err != nil || len(dst) == 0 {
		return err
	}
	decode, width := floats[t.Type], int64(dtypeBits[t.Type]/8)
	cols := int64(t.tensor.Cols())
	faults := make([]error, r.Rows)
	eachRow(r.Rows, r.Cols, func(row int) {
		first := t.Begin + (int64(r.Row+row)*cols+int64(r.Col))*width
		faults[row] = guarded(func() {
			values := dst[row*r.Cols : (row+1)*r.Cols]
			decode(values, data[first:first+int64(r.Cols)*width])
			if t.scales != nil {
				t.scales.apply(values, factors, r.Row+row, r.Col)
			}
		})
	})
	for _, fault := range faults {
		if fault != nil {
			return &WeightsError{File: filepath.Join(c.folder, t.file), Tensor: name, Reason: "a page of the file cannot be read: " + fault.Error()}
		}
	}
	return nil
}

// guarded turns a fault in mapped memory into an error.
func guarded(read func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			fault, ok := p.(interface {
				error
				Addr() uintptr
			})
			if !ok {
				panic(p)
			}
			err = fault
		}
	}()
	read()
	return nil
}

// Close: see Source.
func (c *Checkpoint) Close() error {
	var errs []error
	for _, m := range c.files {
		errs = append(errs, m.close())
	}
	clear(c.files)
	clear(c.tensors)
	return errors.Join(errs...)
}
