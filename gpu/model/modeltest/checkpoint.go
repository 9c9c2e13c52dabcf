// Package modeltest writes checkpoints for tests: folders as Hugging Face publishes them, filled from any
// [model.Source].
package modeltest

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/fpmrun/fpmrun/gpu/model"
)

// Tensor is one tensor to write.
type Tensor struct {
	Name   string
	Type   string // "BF16", "F16" or "F32"; "F8_E4M3" with the codes in Values
	Shape  []int
	Values []float32 // exact in Type
}

// Tensors reads all weights of a geometry. Those of random weights are exact in BF16 and F32, and almost all of them in
// F16.
func Tensors(g *model.Geometry, src model.Source, kind string) ([]Tensor, error) {
	var list []Tensor
	for t := range g.Tensors() {
		values := make([]float32, t.Elements())
		if err := src.Fill(t.Name, model.Rect{Rows: t.Rows(), Cols: t.Cols()}, values); err != nil {
			return nil, err
		}
		list = append(list, Tensor{t.Name, kind, t.Shape, values})
	}
	return list, nil
}

// WriteConfig writes config.json of a model into a folder.
func WriteConfig(folder, name, overrides string) error {
	keys, err := model.Config(name, []byte(overrides))
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(keys, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "config.json"), text, 0o644)
}

// Write writes one safetensors file.
func Write(path string, tensors []Tensor) (err error) {
	header := make(map[string]any)
	header["__metadata__"] = map[string]string{"format": "pt"}
	end := 0
	for _, t := range tensors {
		begin := end
		end += len(t.Values) * width(t.Type)
		header[t.Name] = map[string]any{"dtype": t.Type, "shape": t.Shape, "data_offsets": []int{begin, end}}
	}
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := binary.Write(w, binary.LittleEndian, uint64(len(text))); err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	for _, t := range tensors {
		if err := encode(w, t); err != nil {
			return err
		}
	}
	return w.Flush()
}

// WriteFolder writes a folder with config.json and the weights in model.safetensors or, above one file, in shards with
// an index.
func WriteFolder(folder, name, overrides string, tensors []Tensor, files int) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := WriteConfig(folder, name, overrides); err != nil {
		return err
	}
	if files == 1 {
		return Write(filepath.Join(folder, "model.safetensors"), tensors)
	}
	index := make(map[string]string)
	for i := range files {
		part := tensors[len(tensors)*i/files : len(tensors)*(i+1)/files]
		file := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, files)
		for _, t := range part {
			index[t.Name] = file
		}
		if err := Write(filepath.Join(folder, file), part); err != nil {
			return err
		}
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{}, "weight_map": index})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "model.safetensors.index.json"), text, 0o644)
}

func width(kind string) int {
	switch kind {
	case "F32":
		return 4
	case "F8_E4M3":
		return 1
	}
	return 2
}

// encode writes a tensor's values, which are exact in its type.
func encode(w *bufio.Writer, t Tensor) error {
	var b [4]byte
	n := width(t.Type)
	for _, v := range t.Values {
		bits := math.Float32bits(v)
		switch t.Type {
		case "F8_E4M3":
			b[0] = byte(v)
		case "BF16":
			binary.LittleEndian.PutUint16(b[:], uint16(bits>>16))
		case "F16":
			h := uint16(bits>>31<<15) | uint16(math.Float32bits(float32(math.Abs(float64(v))*0x1p-112))>>13)
			binary.LittleEndian.PutUint16(b[:], h)
		default:
			binary.LittleEndian.PutUint32(b[:], bits)
		}
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
	}
	return nil
}
