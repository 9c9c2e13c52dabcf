package artifact

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The decoder agrees with the standard library's, except that it refuses keys that come twice and text that is not UTF-8.
func TestDecodeTree(t *testing.T) {
	for _, text := range []string{
		`{"a":[1,-0.5e+3,1E2,0,"x\"\u00e9\\",true,false,null,{}],"b":[],"c":9007199254740993}`, " [ ] ", `"\ud83d\ude00"`, `-0`,
		"", "[", `{"a"`, `{"a":`, `{"a":1`, `{"a" 1}`, `{a:1}`, `[1,]`, `[1 2]`, `{"a":1,}`, "01", "1.", ".5", "1e", "+1", "-", "NaN", "Infinity", "tru", "nul", "truth",
		`"` + "\n" + `"`, `"\x"`, `"\u12"`, `"abc`, `"\`, "1 2", "{}{}", "\ufeff1",
	} {
		t.Run(fmt.Sprintf("%.20q", text), func(t *testing.T) {
			dec := json.NewDecoder(strings.NewReader(text))
			dec.UseNumber()
			var want any
			wantErr := dec.Decode(&want)
			if wantErr == nil && dec.More() {
				wantErr = fmt.Errorf("more")
			}
			got, err := decodeTree([]byte(text))
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("error %v, the standard library's %v", err, wantErr)
			}
			if err == nil && !cmp.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
	for text, want := range map[string]string{
		`{"a":1,"b":2,"a":3}`: `byte 18: key "a" comes twice`, "\"\xff\"": "not UTF-8", `{"a": 01}`: "byte 7",
		strings.Repeat("[", maxDepth+2): "nested deeper than 1000",
	} {
		if _, err := decodeTree([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v, want %q in it", text, err, want)
		}
	}
}

// Whatever the white space was, text comes out as the standard library indents it.
func TestWriteIndented(t *testing.T) {
	for _, text := range []string{`{}`, `[]`, `[[],{},[{}]]`, `{"a" : [ 1, "b \" , [ {" ],` + "\n\n\t" + `"c":{"d":null,"e":-1.5e-7}}`, `1`, `"x"`,
		strings.Repeat("[", 70) + strings.Repeat("]", 70)} {
		var want, got strings.Builder
		out, err := json.MarshalIndent(json.RawMessage(text), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		want.Write(out)
		want.WriteByte('\n')
		for cut := range len(text) {
			if cut > 0 && strings.ContainsAny(text[cut-1:cut+1], `" b.-eul157d`) {
				continue // inside a token
			}
			got.Reset()
			if err := writeIndented(&got, pieces{[]byte(text[:cut]), []byte(text[cut:])}); err != nil || got.String() != want.String() {
				t.Errorf("%.40s cut at %d: %v, got\n%swant\n%s", text, cut, err, got.String(), want.String())
			}
		}
	}
}

func TestSameText(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[2,3]}`, "{\n  \"a\": 1,\n  \"b\": [\n    2,\n    3\n  ]\n}", true}, {`"a b"`, `"a  b"`, false}, {`[1]`, `[1,2]`, false}, {`[12]`, `[1 2]`, false},
		{`"a`, `"a`, true}, {``, ` `, true}, {`1`, ``, false},
	} {
		if got := sameText([]byte(c.a), []byte(c.b)); got != c.want {
			t.Errorf("%s and %s: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// A document whose groups have the text of another's shares them; any other is read by itself.
func TestSibling(t *testing.T) {
	docs := run(t, 2)
	var texts [2][]byte
	for i, d := range docs {
		var err error
		if texts[i], err = json.MarshalIndent(d, "", "  "); err != nil {
			t.Fatal(err)
		}
	}
	first, err := ParseDocument("a", texts[0])
	if err != nil {
		t.Fatal(err)
	}
	want, err := ParseDocument("b", texts[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text string
		own        bool
	}{
		{"shared", string(texts[1]), true},
		{"spaced", strings.Replace(string(texts[1]), `"iteration_groups": [`, `"iteration_groups": [ `, 1), false},
		{"elsewhere", `{"other":{"iteration_groups": ` + string(first.members[groupsKey]) + "}," + string(texts[1][1:]), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := []byte(c.text)
			got, own, err := first.Sibling("b", text)
			if err != nil || own != c.own {
				t.Fatalf("own %v, %v; want %v", own, err, c.own)
			}
			if own {
				clear(text) // its memory is free
			}
			if len(got.groups) != len(want.groups) || got.rank() != 1 || !cmp.Equal(got.head["timing"], want.head["timing"]) || len(got.results) != len(want.results) {
				t.Errorf("got %d groups, rank %d", len(got.groups), got.rank())
			}
			for i := range got.groups {
				if !equalRaw(got.groups[i], want.groups[i]) || !equalRaw(got.results[i], want.results[i]) {
					t.Errorf("group or row %d differs", i)
				}
			}
			if _, err := Merge([]*Document{first, got}, "m"); err != nil {
				t.Error(err)
			}
		})
	}
}
