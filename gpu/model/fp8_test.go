package model_test

import (
	"math"
	"slices"
	"testing"

	"github.com/fpmrun/fpmrun/gpu/model"
	"github.com/fpmrun/fpmrun/gpu/model/modeltest"
)

// A model whose kv_a_proj_with_mqa has 72 rows, which blocks of 32 x 48 do not divide, and neither its 128 columns.
const (
	fp8Cut = `{"num_hidden_layers":1,"hidden_size":128,"intermediate_size":96,"vocab_size":64,"num_attention_heads":2,"num_key_value_heads":2,
		"q_lora_rank":32,"kv_lora_rank":56,"qk_nope_head_dim":16,"qk_rope_head_dim":16,"v_head_dim":16,"first_k_dense_replace":1,
		"n_routed_experts":8,"n_group":1,"topk_group":1,"quantization_config":{"weight_block_size":[32,48]}}`
	fp8Name = "model.layers.0.self_attn.kv_a_proj_with_mqa.weight"
)

// fp8Tensors are the weights of the model with one in fp8, its codes, and its scales of 3 x 3.
func fp8Tensors(t *testing.T, g *model.Geometry) (list []modeltest.Tensor, codes, scales []float32) {
	t.Helper()
	scales = make([]float32, 3*3)
	for i := range scales {
		scales[i] = float32(i+1) / 4
	}
	list = tensors(t, g, "BF16")
	for i := range list {
		if list[i].Name == fp8Name {
			list[i].Type = "F8_E4M3"
			for j := range list[i].Values {
				list[i].Values[j] = float32(j * 7 % 127) // every code but those that are no numbers
			}
			codes = list[i].Values
		}
	}
	return append(list, modeltest.Tensor{Name: fp8Name + "_scale_inv", Type: "F32", Shape: []int{3, 3}, Values: scales}), codes, scales
}

func TestCase19BlockScales(t *testing.T) {
	for tensor := range load(t, "deepseek-v3", "").Tensors() {
		if tensor.Name == fp8Name && !slices.Equal(tensor.Shape, []int{576, 7168}) {
			t.Errorf("%s has shape %v, want [576 7168]", fp8Name, tensor.Shape)
		}
	}
	write := func(overrides string, list []modeltest.Tensor) string {
		dir := t.TempDir()
		must(t, modeltest.WriteFolder(dir, "deepseek-v3", overrides, list, 1))
		return dir
	}
	g := load(t, "deepseek-v3", fp8Cut)
	list, codes, scales := fp8Tensors(t, g)
	c := open(t, write(fp8Cut, list), g)
	// The whole tensor, and a shard that begins and ends inside blocks.
	for _, r := range []model.Rect{{Rows: 72, Cols: 128}, {Row: 30, Col: 40, Rows: 42, Cols: 70}} {
		got := make([]float32, r.Rows*r.Cols)
		must(t, c.Fill(fp8Name, r, got))
		for i, v := range got {
			row, col := r.Row+i/r.Cols, r.Col+i%r.Cols
			code := int(codes[row*128+col])
			value := math.Ldexp(1+float64(code&7)/8, code>>3-7)
			if code < 8 {
				value = math.Ldexp(float64(code), -9)
			}
			if want := float32(value) * scales[row/32*3+col/48]; v != want {
				t.Fatalf("row %d, column %d: code %d is %v, want %v", row, col, code, v, want)
			}
		}
	}

	refused(t, write(fp8Cut, list[:len(list)-1]), g, fp8Name, "[3 3]")
	other := load(t, "deepseek-v3", fp8Cut[:len(fp8Cut)-2]+`,"weight_block_size":[128,128]}}`)
	refused(t, write(fp8Cut, list), other, fp8Name, "[3 3]", "[1 1]", "weight_block_size [128 128]")
	plain := load(t, "deepseek-v3", fp8Cut[:len(fp8Cut)-len(`{"weight_block_size":[32,48]}}`)]+`null}`)
	refused(t, write(fp8Cut, list), plain, fp8Name, "quantization_config.weight_block_size")
	for i := range list {
		if list[i].Name == fp8Name {
			list[i].Type = "BF16"
		}
	}
	refused(t, write(fp8Cut, list), g, fp8Name+"_scale_inv", "no such tensor")
}
