package text

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/rank/tokenizer"
	"github.com/fpmrun/fpmrun/rank/tokenizer/tokenizertest"
)

func file(t *testing.T, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// even is a text of n characters whose SHA-256 begins with an even byte, or with an odd one.
func even(n int, want bool) string {
	for i := 0; ; i++ {
		text := fmt.Sprintf("%0*d", n, i)
		if (sha256.Sum256([]byte(text))[0]%2 == 0) == want {
			return text
		}
	}
}

func TestDatasetTakes(t *testing.T) {
	turns := func(values ...string) map[string]any {
		var list []any
		for _, v := range values {
			list = append(list, map[string]any{"from": "human", "value": v})
		}
		return map[string]any{"id": "x", "conversations": list}
	}
	joined := even(64, true)
	text, err := json.Marshal([]any{turns(joined[:30], ""), turns(even(64, true)), turns(even(64, false)), turns(even(63, true)), turns(), map[string]any{"other": 1}})
	if err != nil {
		t.Fatal(err)
	}
	path := file(t, append(text, "\n \n"...))
	sum := sha256.Sum256(append(text, "\n \n"...))
	d, err := ReadDataset(path, strings.ToUpper(hex.EncodeToString(sum[:])))
	if err != nil {
		t.Fatal(err)
	}
	if len(d.texts) != 1 || d.texts[0] != even(64, true) {
		t.Errorf("taken: %q", d.texts)
	}
	want := artifact.TextSource{Path: path, SHA256: hex.EncodeToString(sum[:]), CollectionPool: "conversation_sha256_even", Conversations: 1}
	if d.Source != want {
		t.Errorf("source %+v, want %+v", d.Source, want)
	}
	// Turns are joined by a newline.
	a, b := "a", strings.Repeat("b", 70)
	for ; !taken(a + "\n" + b); a += "a" {
	}
	text, err = json.Marshal([]any{turns(a, b)})
	if err != nil {
		t.Fatal(err)
	}
	if d, err = ReadDataset(file(t, text), ""); err != nil || d.texts[0] != a+"\n"+b {
		t.Errorf("two turns: %q (%v)", d.texts, err)
	}
}

func TestDatasetRefusals(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no list", `{"a":1}`, "want a list of conversations"},
		{"empty file", ``, "want a list of conversations"},
		{"value is a number", `[{"conversations":[{"value":1}]}]`, "item 0, at byte"},
		{"cut", `[{"conversations":[]}`, "the list does not end"},
		{"nothing taken", `[{"conversations":[{"value":"short"}]}]`, "no conversation"},
	} {
		path := file(t, []byte(c.text))
		if _, err := ReadDataset(path, ""); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want an error with %q and the path", c.name, err, c.want)
		}
	}
	if _, err := ReadDataset(file(t, []byte(`[]`)), ""); !errors.Is(err, ErrEmpty) {
		t.Errorf("an empty list: %v", err)
	}
	if _, err := ReadDataset(filepath.Join(t.TempDir(), "none"), ""); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	path := file(t, tokenizertest.Conversations(3, 1))
	if _, err := ReadDataset(path, strings.Repeat("0", 64)); err == nil || !strings.Contains(err.Error(), "want 0000") {
		t.Errorf("another digest: %v", err)
	}
}

// A token pool made of a data set is the text that the tokenizer makes of it.
func TestPoolOfADataset(t *testing.T) {
	d, err := ReadDataset(file(t, tokenizertest.Conversations(60, 1)), "")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Parse(tokenizertest.JSON(tokenizertest.Llama, nil))
	if err != nil {
		t.Fatal(err)
	}
	text := d.Encode(tok)
	pool := artifact.NewTokenPool(text, d.Source, tok.Digest(), 0)
	if pool.Conversations() != len(d.texts) || pool.Header.Source != d.Source || len(d.texts) < 15 {
		t.Fatalf("%d conversations of %d, source %+v", pool.Conversations(), len(d.texts), pool.Header.Source)
	}
	a, b := artifact.NewChains(text), artifact.NewChains(pool)
	for _, seed := range []string{"x", "y"} {
		x, err1 := a.Draw(seed, 500)
		y, err2 := b.Draw(seed, 500)
		if err1 != nil || err2 != nil || fmt.Sprint(x) != fmt.Sprint(y) {
			t.Errorf("chain %s: %v %v differ", seed, err1, err2)
		}
	}
}
