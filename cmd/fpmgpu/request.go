//go:build cgo

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
)

// answerLine ends the samples of one request.
type answerLine struct {
	Version int    `json:"v"`
	Kind    string `json:"kind"` // answer
	ID      string `json:"id"`   // the first word of the request
	Error   string `json:"error,omitempty"`
}

// answer samples GPUs once for each line of in, an id and UUIDs, until in ends. A request that fails does not end the program: the device
// may be back for the next one.
func answer(lib library, in io.Reader, out *json.Encoder) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		end := answerLine{Version: lineVersion, Kind: "answer", ID: words[0]}
		devices, err := open(lib, words[1:])
		for _, d := range devices {
			if err != nil {
				break
			}
			var line sampleLine
			if line, err = sample(d); err == nil {
				err = out.Encode(line)
			}
		}
		if err != nil {
			end.Error = err.Error()
		}
		if err := out.Encode(end); err != nil {
			return err
		}
	}
	return lines.Err()
}
