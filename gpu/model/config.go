package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// config reads the keys of one JSON object, remembers which were read and collects what was wrong.
type config struct {
	name string // for errors
	path string // "" or the parent key with a dot
	keys map[string]json.RawMessage
	used map[string]bool
	errs *[]error
}

func newConfig(name string, keys map[string]json.RawMessage) *config {
	return &config{name: name, keys: keys, used: make(map[string]bool), errs: new([]error)}
}

// fail records that a key cannot be honoured.
func (c *config) fail(key, format string, args ...any) {
	*c.errs = append(*c.errs, &ConfigError{
		Config: c.name, Key: c.path + key, Value: brief(c.keys[key]), Reason: fmt.Sprintf(format, args...),
	})
}

// err is everything that was wrong, or nil.
func (c *config) err() error { return errors.Join(*c.errs...) }

// has reports that a key is present and not null, and marks it as read.
func (c *config) has(key string) bool {
	c.used[key] = true
	raw, ok := c.keys[key]
	return ok && string(raw) != "null"
}

// present reports that a key is there, if only as null.
func (c *config) present(key string) bool {
	_, ok := c.keys[key]
	return ok
}

// decode reads a key that has a value into v, and reports whether it could.
func (c *config) decode(key, want string, v any) bool {
	if err := json.Unmarshal(c.keys[key], v); err != nil {
		c.fail(key, "want %s", want)
		return false
	}
	return true
}

// required is a mandatory whole number from 1 to most.
func (c *config) required(key string, most int) int {
	if !c.has(key) {
		c.fail(key, "missing; want a whole number from 1 to %d", most)
		return 1
	}
	return c.int(key, 1, 1, most)
}

// int is a whole number from least to most; absent or null means def.
func (c *config) int(key string, def, least, most int) int {
	if !c.has(key) {
		return def
	}
	n, err := strconv.ParseInt(string(c.keys[key]), 10, 64)
	if err != nil || n < int64(least) || n > int64(most) {
		c.fail(key, "want a whole number from %d to %d", least, most)
		return max(def, least)
	}
	return int(n)
}

// float is a positive finite number; absent or null means def.
func (c *config) float(key string, def float64) float64 {
	if !c.has(key) {
		return def
	}
	f, err := strconv.ParseFloat(string(c.keys[key]), 64)
	if err != nil || !(f > 0) || math.IsInf(f, 0) {
		c.fail(key, "want a positive number")
		return def
	}
	return f
}

// bool is true or false; absent or null means def.
func (c *config) bool(key string, def bool) bool {
	if !c.has(key) {
		return def
	}
	v := def
	c.decode(key, "true or false", &v)
	return v
}

// text is a string; absent or null means def.
func (c *config) text(key, def string) string {
	if !c.has(key) {
		return def
	}
	v := def
	c.decode(key, "a string", &v)
	return v
}

// one refuses any value of a key but those listed; absent or null is accepted.
func (c *config) one(key string, allowed ...string) {
	if v := c.text(key, allowed[0]); !slices.Contains(allowed, v) {
		c.fail(key, "only %q is supported", allowed)
	}
}

// object opens a nested object, or returns nil when the key is absent, null or no object.
func (c *config) object(key string) *config {
	if !c.has(key) {
		return nil
	}
	var keys map[string]json.RawMessage
	if !c.decode(key, "an object", &keys) {
		return nil
	}
	return &config{name: c.name, path: c.path + key + ".", keys: keys, used: make(map[string]bool), errs: c.errs}
}

// finish refuses every key that was neither read nor is known not to matter.
func (c *config) finish() {
	for _, key := range sortedKeys(c.keys) {
		switch raw := string(c.keys[key]); {
		case c.used[key], raw == "null":
		case c.path == "" && ignorable[key]:
		case isNeutral(key, raw):
		case neutral[key] != nil:
			c.fail(key, "this feature is not supported; only %v or null is", neutral[key])
		default:
			c.fail(key, "this key is not known, so it cannot be honoured")
		}
	}
}

func sortedKeys(m map[string]json.RawMessage) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
