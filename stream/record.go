package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/fpmrun/fpmrun/artifact"
)

// Version is the version of the record that is written and read.
const Version = 1

// ErrRecord is wrapped by errors about a payload that is no record.
var ErrRecord = errors.New("stream: no record")

// VersionError says that a record has another version than Version, and is to be passed over.
type VersionError struct{ Version int64 }

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("stream: a record of version %d, want %d", e.Version, Version)
}

// member is one key of a record's map and where its value is: *int, *string, *artifact.Float, or []member for a map.
type member struct {
	name  string
	value any
}

// members are the keys of a record in the order in which they are written, which is that of the type.
func members(r *artifact.FPM) []member {
	s, q := &r.Scheduled, &r.Queued
	return []member{
		{"version", &r.Version},
		{"worker_id", &r.WorkerID},
		{"dp_rank", &r.DPRank},
		{"counter_id", &r.CounterID},
		{"wall_time", &r.WallTime},
		{"scheduled_requests", []member{
			{"num_prefill_requests", &s.NumPrefillRequests},
			{"sum_prefill_tokens", &s.SumPrefillTokens},
			{"var_prefill_length", &s.VarPrefillLength},
			{"sum_prefill_kv_tokens", &s.SumPrefillKVTokens},
			{"num_decode_requests", &s.NumDecodeRequests},
			{"sum_decode_kv_tokens", &s.SumDecodeKVTokens},
			{"var_decode_kv_tokens", &s.VarDecodeKVTokens},
		}},
		{"queued_requests", []member{
			{"num_prefill_requests", &q.NumPrefillRequests},
			{"sum_prefill_tokens", &q.SumPrefillTokens},
			{"var_prefill_length", &q.VarPrefillLength},
			{"num_decode_requests", &q.NumDecodeRequests},
			{"sum_decode_kv_tokens", &q.SumDecodeKVTokens},
			{"var_decode_kv_tokens", &q.VarDecodeKVTokens},
		}},
	}
}

// Encode writes a record as a MessagePack map: integers in as few bytes as hold them, floats in 8. What an artifact's record has beside the members of
// version 1 (evidence) is left out.
func Encode(r artifact.FPM) ([]byte, error) {
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	if err := encodeMap(enc, members(&r)); err != nil {
		return nil, fmt.Errorf("stream: encode a record: %w", err)
	}
	return b.Bytes(), nil
}

func encodeMap(enc *msgpack.Encoder, all []member) error {
	err := enc.EncodeMapLen(len(all))
	for _, m := range all {
		err = errors.Join(err, enc.EncodeString(m.name))
		switch v := m.value.(type) {
		case *int:
			err = errors.Join(err, enc.EncodeInt(int64(*v)))
		case *string:
			err = errors.Join(err, enc.EncodeString(*v))
		case *artifact.Float:
			err = errors.Join(err, enc.EncodeFloat64(float64(*v)))
		case []member:
			err = errors.Join(err, encodeMap(enc, v))
		}
	}
	return err
}

// Decode reads a record. Keys that it does not know are passed over, those that are missing have the value zero (version: 1), as a reader of the format
// has it. A record of another version is a *VersionError whatever else is in it; everything else that is not a record is ErrRecord, with the key.
func Decode(payload []byte) (artifact.FPM, error) {
	version, err := versionOf(payload)
	if err != nil {
		return artifact.FPM{}, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	if version != Version {
		return artifact.FPM{}, &VersionError{version}
	}
	r := artifact.FPM{Version: Version}
	in := bytes.NewReader(payload)
	if err := decodeMap(msgpack.NewDecoder(in), members(&r), ""); err != nil {
		return artifact.FPM{}, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	if in.Len() > 0 {
		return artifact.FPM{}, fmt.Errorf("%w: %d bytes stand behind it", ErrRecord, in.Len())
	}
	return r, nil
}

// versionOf looks a record's version up and reads nothing else.
func versionOf(payload []byte) (int64, error) {
	dec := msgpack.NewDecoder(bytes.NewReader(payload))
	version := int64(Version)
	err := eachKey(dec, "", func(key string) error {
		if key != "version" {
			return dec.Skip()
		}
		var err error
		version, err = integer(dec, key)
		return err
	})
	return version, err
}

// eachKey reads a map and has take read each value.
func eachKey(dec *msgpack.Decoder, path string, take func(key string) error) error {
	code, err := dec.PeekCode()
	if err != nil {
		return cutShort(err)
	}
	if !msgpcode.IsFixedMap(code) && code != msgpcode.Map16 && code != msgpcode.Map32 {
		return fmt.Errorf("%s is %s, want a map", named(path), kind(code))
	}
	n, err := dec.DecodeMapLen()
	if err != nil {
		return cutShort(err)
	}
	for range n {
		key, err := text(dec, "a key of "+named(path))
		if err == nil {
			err = take(key)
		}
		if err != nil {
			return cutShort(err)
		}
	}
	return nil
}

func decodeMap(dec *msgpack.Decoder, all []member, path string) error {
	return eachKey(dec, path, func(key string) error {
		for _, m := range all {
			if m.name == key {
				return decodeValue(dec, m.value, path+key)
			}
		}
		return dec.Skip()
	})
}

func decodeValue(dec *msgpack.Decoder, value any, path string) error {
	switch v := value.(type) {
	case *int:
		n, err := integer(dec, path)
		*v = int(n)
		return err
	case *string:
		s, err := text(dec, path)
		*v = s
		return err
	case *artifact.Float:
		f, err := number(dec, path)
		*v = artifact.Float(f)
		return err
	default:
		return decodeMap(dec, value.([]member), path+".")
	}
}

// integer reads an integer that an int64 holds. Floats and booleans are none.
func integer(dec *msgpack.Decoder, path string) (int64, error) {
	code, err := dec.PeekCode()
	if err != nil {
		return 0, err
	}
	if !isInteger(code) {
		return 0, fmt.Errorf("%s is %s, want an integer", path, kind(code))
	}
	if code == msgpcode.Uint64 {
		n, err := dec.DecodeUint64()
		if err == nil && n > math.MaxInt64 {
			err = fmt.Errorf("%s is %d, want at most %d", path, n, int64(math.MaxInt64))
		}
		return int64(n), err
	}
	return dec.DecodeInt64()
}

// number reads a finite float, or an integer as one.
func number(dec *msgpack.Decoder, path string) (float64, error) {
	code, err := dec.PeekCode()
	if err != nil {
		return 0, err
	}
	if isInteger(code) {
		n, err := integer(dec, path)
		return float64(n), err
	}
	if code != msgpcode.Float && code != msgpcode.Double {
		return 0, fmt.Errorf("%s is %s, want a number", path, kind(code))
	}
	f, err := dec.DecodeFloat64()
	if err == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
		err = fmt.Errorf("%s is %v, want a finite number", path, f)
	}
	return f, err
}

// text reads a string of UTF-8.
func text(dec *msgpack.Decoder, path string) (string, error) {
	code, err := dec.PeekCode()
	if err != nil {
		return "", err
	}
	if !msgpcode.IsFixedString(code) && code != msgpcode.Str8 && code != msgpcode.Str16 && code != msgpcode.Str32 {
		return "", fmt.Errorf("%s is %s, want a string", path, kind(code))
	}
	s, err := dec.DecodeString()
	if err == nil && !utf8.ValidString(s) {
		err = fmt.Errorf("%s is %q, want UTF-8", path, s)
	}
	return s, err
}

func isInteger(code byte) bool {
	return msgpcode.IsFixedNum(code) || code >= msgpcode.Uint8 && code <= msgpcode.Int64
}

// kind names what a MessagePack code begins.
func kind(code byte) string {
	switch {
	case isInteger(code):
		return "an integer"
	case code == msgpcode.Nil:
		return "nil"
	case code == msgpcode.True, code == msgpcode.False:
		return "a boolean"
	case code == msgpcode.Float, code == msgpcode.Double:
		return "a float"
	case msgpcode.IsFixedString(code), code >= msgpcode.Str8 && code <= msgpcode.Str32:
		return "a string"
	case code >= msgpcode.Bin8 && code <= msgpcode.Bin32:
		return "bytes"
	case msgpcode.IsFixedMap(code), code == msgpcode.Map16, code == msgpcode.Map32:
		return "a map"
	case msgpcode.IsFixedArray(code), code == msgpcode.Array16, code == msgpcode.Array32:
		return "an array"
	}
	return fmt.Sprintf("of code %#02x", code)
}

func named(path string) string {
	if path == "" {
		return "the record"
	}
	return path[:len(path)-1] // without the point behind it
}

func cutShort(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it is cut short")
	}
	return err
}
