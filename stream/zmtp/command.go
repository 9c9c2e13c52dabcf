package zmtp

import (
	"encoding/binary"
	"strings"
)

// appendCommand appends a command frame: the length of the name in one byte, the name, the data.
func appendCommand(dst []byte, name string, data []byte) []byte {
	body := append([]byte{byte(len(name))}, name...)
	return appendFrame(dst, frame{command: true, body: append(body, data...)})
}

// parseCommand splits a command frame's body into its name and data.
func parseCommand(body []byte) (name string, data []byte, err error) {
	if len(body) == 0 || int(body[0]) == 0 || int(body[0]) > len(body)-1 {
		return "", nil, wrong("a command of %d bytes has no whole name", len(body))
	}
	n := 1 + int(body[0])
	return string(body[1:n]), body[n:], nil
}

// appendProperty appends one property of a READY command: the length of the name in one byte, the name, the length of the value in four, the value.
func appendProperty(dst []byte, name, value string) []byte {
	dst = append(dst, byte(len(name)))
	dst = append(dst, name...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(value)))
	return append(dst, value...)
}

// parseProperties reads the properties of a READY command; names are in lower case, for their case does not count.
func parseProperties(data []byte) (map[string]string, error) {
	all := map[string]string{}
	for len(data) > 0 {
		n := 1 + int(data[0])
		if n == 1 || len(data) < n+4 {
			return nil, wrong("a property of READY is cut short")
		}
		name, size := strings.ToLower(string(data[1:n])), binary.BigEndian.Uint32(data[n:])
		data = data[n+4:]
		if uint64(size) > uint64(len(data)) {
			return nil, wrong("the property %q of READY has %d bytes, %d are there", name, size, len(data))
		}
		all[name] = string(data[:size])
		data = data[size:]
	}
	return all, nil
}

// pong is the answer to a PING's data: its first two bytes are how long the answer is waited for, the rest, of at most 16 bytes, comes back.
func pong(data []byte) ([]byte, error) {
	if len(data) < 2 || len(data) > 2+16 {
		return nil, wrong("a PING has %d bytes of data, want 2 to 18", len(data))
	}
	return appendCommand(nil, "PONG", data[2:]), nil
}
