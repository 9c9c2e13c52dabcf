package model

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed presets/*.json
var presetFiles embed.FS

// presetAliases are short names of presets.
var presetAliases = map[string]string{"mixtral-8x7b": "mixtral-8x7b-v0.1"}

// mostConfigBytes bounds a config.json; real ones are a few kilobytes.
const mostConfigBytes = 4 << 20

// Presets lists the names of the embedded configurations that Load accepts.
func Presets() []string {
	entries, err := presetFiles.ReadDir("presets")
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".json")
		if _, err := Load(name, nil); err == nil {
			names = append(names, name)
		}
	}
	for alias := range presetAliases {
		names = append(names, alias)
	}
	slices.Sort(names)
	return names
}

// Load reads a geometry from a preset, a config.json file or a folder that holds one; a preset's name wins
// over a file of that name (write ./name for the file). overrides is empty or a JSON object that is merged
// into the configuration key by key, nested objects too; a null removes a key. An unusable configuration is
// a *ConfigError, several of them joined.
func Load(name string, overrides []byte) (*Geometry, error) {
	keys, err := Config(name, overrides)
	if err != nil {
		return nil, err
	}
	return parse(newConfig(name, keys))
}

// Config reads a configuration without asking what it means: its keys after the overrides. See [Load].
func Config(name string, overrides []byte) (map[string]json.RawMessage, error) {
	raw, err := read(name)
	if err != nil {
		return nil, err
	}
	return patched(name, raw, overrides)
}

// Parse reads a geometry from the text of a config.json; name is what errors call it.
func Parse(name string, raw, overrides []byte) (*Geometry, error) {
	keys, err := patched(name, raw, overrides)
	if err != nil {
		return nil, err
	}
	return parse(newConfig(name, keys))
}

// patched merges overrides into the text of a configuration.
func patched(name string, raw, overrides []byte) (map[string]json.RawMessage, error) {
	keys, err := object(name, raw)
	if err != nil || len(overrides) == 0 {
		return keys, err
	}
	patch, err := object("overrides (--hf-overrides) of "+name, overrides)
	if err != nil {
		return nil, err
	}
	if err := merge(keys, patch); err != nil {
		return nil, &ConfigError{Config: name, Reason: err.Error()}
	}
	return keys, nil
}

func preset(name string) ([]byte, bool) {
	if full, ok := presetAliases[name]; ok {
		name = full
	}
	if strings.ContainsAny(name, "/\\") {
		return nil, false
	}
	raw, err := presetFiles.ReadFile("presets/" + name + ".json")
	return raw, err == nil
}

func read(name string) ([]byte, error) {
	if raw, ok := preset(name); ok {
		return raw, nil
	}
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &ConfigError{Config: fmt.Sprintf("%q", name),
			Reason: fmt.Sprintf("neither a file, a folder nor a preset; presets are %s", strings.Join(Presets(), ", "))}
	}
	if err != nil {
		return nil, &ConfigError{Config: name, Reason: err.Error()}
	}
	path := name
	if info.IsDir() {
		path = filepath.Join(name, "config.json")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, &ConfigError{Config: name, Reason: err.Error()}
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, mostConfigBytes+1))
	if err != nil {
		return nil, &ConfigError{Config: path, Reason: err.Error()}
	}
	if len(raw) > mostConfigBytes {
		return nil, &ConfigError{Config: path, Reason: fmt.Sprintf("more than %d bytes; this is no config.json", mostConfigBytes)}
	}
	return raw, nil
}

// object decodes one JSON object.
func object(name string, raw []byte) (map[string]json.RawMessage, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil || keys == nil {
		reason := "not a JSON object"
		if err != nil {
			reason += ": " + err.Error()
		}
		return nil, &ConfigError{Config: name, Reason: reason}
	}
	return keys, nil
}

// merge applies a JSON merge patch (RFC 7396) to keys.
func merge(keys, patch map[string]json.RawMessage) error {
	for k, v := range patch {
		if string(v) == "null" {
			delete(keys, k)
			continue
		}
		var old, sub map[string]json.RawMessage
		if json.Unmarshal(keys[k], &old) != nil || json.Unmarshal(v, &sub) != nil || old == nil {
			keys[k] = v
			continue
		}
		if err := merge(old, sub); err != nil {
			return err
		}
		text, err := json.Marshal(old)
		if err != nil {
			return fmt.Errorf("overriding key %q: %w", k, err)
		}
		keys[k] = text
	}
	return nil
}
