package main

import (
	"fmt"
	"log/slog"

	"github.com/fpmrun/fpmrun/gpu/model"
)

// randomWeights is the value of --weights for seeded weights instead of a checkpoint.
const randomWeights = "random"

// modelName is the model to measure: --model, else the folder of --weights, else the preset tiny.
func (o *options) modelName() string {
	switch {
	case o.model != "":
		return o.model
	case o.weights != randomWeights:
		return o.weights
	}
	return "tiny"
}

// openWeights resolves --weights for a geometry. A checkpoint is checked against it; its values are read later.
func (o *options) openWeights(g *model.Geometry, log *slog.Logger) (model.Source, error) {
	if o.weights == randomWeights {
		return model.Random(uint64(o.weightSeed.Value), g), nil
	}
	if o.weightSeed.Given {
		return nil, fmt.Errorf("--weight-seed %d, --weights %s: only random weights have a seed; drop one of them", o.weightSeed.Value, o.weights)
	}
	c, err := model.OpenCheckpoint(o.weights, g)
	if err != nil {
		return nil, fmt.Errorf("--weights %s: %w", o.weights, err)
	}
	for _, sentence := range c.Ignored() {
		log.Warn(sentence)
	}
	return c, nil
}

// seed is what the provenance says of random weights, nil of others.
func (o *options) seed() *int {
	if o.weights != randomWeights {
		return nil
	}
	seed := o.weightSeed.Value
	return &seed
}
