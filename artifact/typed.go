package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// decodeTyped reads verified text into what v points to. The path and the offset in an error are within text.
func decodeTyped(text []byte, v any) *JSONError {
	err := json.Unmarshal(text, v)
	if err == nil {
		return nil
	}
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return &JSONError{Err: err}
	}
	// Its offset is behind a literal's last byte, or behind the first one of a list or an object.
	open, begin := pathAt(text, int(wrong.Offset)-1)
	s := scanner{text: text, pos: begin}
	raw, _ := s.value() // verified
	return &JSONError{Path: pathOf(open), Offset: int64(begin), Err: fmt.Errorf("want %s, got %s", wanted(wrong.Type), describe(raw))}
}

// wanted names what a Go type holds.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Pointer:
		return wanted(t.Elem())
	}
	return "an integer of at most 64 bits"
}
