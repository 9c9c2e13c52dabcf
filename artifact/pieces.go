package artifact

import (
	"bytes"
	"encoding/json"
)

// pieces is JSON text in parts that stand one after the other, so that long ones need not be copied. A part ends between two
// tokens.
type pieces [][]byte

func (p pieces) text() json.RawMessage { return bytes.Join(p, nil) }

// joined writes elements as a list.
func joined(elements []pieces) pieces {
	list := pieces{[]byte("[")}
	for i, e := range elements {
		if i > 0 {
			list = append(list, []byte(","))
		}
		list = append(list, e...)
	}
	return append(list, []byte("]"))
}
