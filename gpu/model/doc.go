// Package model reads model geometries and makes weights.
//
// A [Geometry] is everything a Hugging Face config.json says about the shape and the arithmetic of a forward
// pass. [Load] reads one from a file, a folder that holds config.json, or an embedded preset:
//
//	g, err := model.Load("qwen3-0.6b", []byte(`{"num_hidden_layers": 2}`))
//	src := model.Random(1, g)
//	err = src.Fill("model.embed_tokens.weight", model.Rect{Rows: 16, Cols: g.Hidden}, dst)
//
// No key of a configuration is skipped in silence. Each is used, or is on the list of keys that cannot
// change a forward pass, or has its neutral value; anything else is refused with a [ConfigError] that names
// key and value, so that a model of an unsupported kind never runs as something else.
//
// Tensors are named as in the unsharded Hugging Face checkpoint, and a [Source] fills any rectangle of one,
// so that each tensor-parallel shard sees the same bits. The arithmetic of random weights is exact integer
// arithmetic and one rounding; see [Random]. [OpenCheckpoint] reads safetensors: files are mapped, and of each
// shard only the pages that hold it are read.
package model
