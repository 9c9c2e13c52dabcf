package model

import (
	"encoding/json"
	"fmt"
)

// ConfigError is a configuration that cannot be run: a usage error, to be reported before any weight is made.
type ConfigError struct {
	Config string // preset name or file
	Key    string // key of the configuration, dotted where nested; "" for the file as a whole
	Value  string // value as JSON, "" when the key is missing
	Reason string // what is wrong or what would be right
}

func (e *ConfigError) Error() string {
	switch {
	case e.Key == "":
		return fmt.Sprintf("model: config %s: %s", e.Config, e.Reason)
	case e.Value == "":
		return fmt.Sprintf("model: config %s: key %q: %s", e.Config, e.Key, e.Reason)
	}
	return fmt.Sprintf("model: config %s: key %q = %s: %s", e.Config, e.Key, e.Value, e.Reason)
}

// brief is a value for an error message, cut to a readable length.
func brief(raw json.RawMessage) string {
	const most = 80
	s := string(raw)
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

// WeightsError is a checkpoint that does not hold the weights of a model: a usage error, to be reported before the
// weights are loaded.
type WeightsError struct {
	File   string // file or folder
	Tensor string // name of the tensor, "" for the file as a whole
	Reason string // what is wrong or what would be right
}

func (e *WeightsError) Error() string {
	if e.Tensor == "" {
		return fmt.Sprintf("model: weights %s: %s", e.File, e.Reason)
	}
	return fmt.Sprintf("model: weights %s: tensor %q: %s", e.File, e.Tensor, e.Reason)
}
