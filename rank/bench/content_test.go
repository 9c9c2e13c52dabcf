package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fpmrun/fpmrun/artifact"
)

// The shape of a batch is hashed once for the whole batch, whatever its size: in the global warm-up, for a prefill without KV, and for a
// decode point over synthetic KV.
func TestShapeIsHashedOncePerBatch(t *testing.T) {
	var calls []string
	outcomes, _ := runAllWith(t, 1, func(_ int, c *Config, _ *fake) {
		c.Manifest = manifest(t, `{"schema_version":1,"prefill":[{"batch_size":4,"total_prefill_tokens":40,"total_kv_read_tokens":0}],
			"decode":[{"batch_size":4,"total_kv_read_tokens":64}]}`)
	}, func(_ int, s *Session) {
		s.shape = func(phase string, fresh, kv []int) (string, error) {
			calls = append(calls, fmt.Sprint(phase, len(fresh)))
			return artifact.Shape(phase, fresh, kv)
		}
	})
	if outcomes[0].err != nil {
		t.Fatal(outcomes[0].err)
	}
	want := []string{"warmup1", "prefill4", "prefill4", "decode4", "decode4"} // a replica and a point of each phase
	if !slices.Equal(calls, want) {
		t.Errorf("hashed %v, want %v", calls, want)
	}
}

// Prompts are windows of the text, or chains of its conversations, on every rank, and the protocol says which.
func TestTextContent(t *testing.T) {
	for _, kind := range []string{artifact.ContentPool, artifact.ContentChain} {
		outcomes, fakes := runAll(t, 2, func(_ int, c *Config, _ *fake) {
			c.PromptContent, c.PoolTag, c.Text = kind, "tag", textOf(150)
			c.Manifest = manifest(t, `{"schema_version":1,"prefill":[{"batch_size":2,"total_prefill_tokens":50,"total_kv_read_tokens":32}],
				"decode":[{"batch_size":2,"total_kv_read_tokens":64}]}`)
		})
		if _, err := artifact.Merge(documents(t, outcomes), "m.json"); err != nil {
			t.Fatal(err)
		}
		text := map[string]bool{} // every three neighbouring ids
		for i := range 150 {
			ids := sentences(150).IDs(i)
			for k := range len(ids) - 2 {
				text[fmt.Sprint(ids[k:k+3])] = true
			}
		}
		for rank, o := range outcomes {
			p := o.doc.Protocol
			if p.SyntheticContent != kind || p.SyntheticPoolTag != "tag" || o.doc.SyntheticPrompts.Mode != "salted_random" || o.doc.KVWarm.Dataset == nil {
				t.Errorf("%s, rank %d: %+v", kind, rank, p)
			}
			in, all := 0, 0
			for _, step := range fakes[rank].steps {
				for _, row := range step.Rows {
					for k := range max(0, len(row.Tokens)-2) {
						all++
						if text[fmt.Sprint(row.Tokens[k:k+3])] {
							in++
						}
					}
				}
			}
			if all < 100 || in < all*9/10 { // but for the seams between conversations
				t.Errorf("%s, rank %d: %d of %d triples of ids are in the text", kind, rank, in, all)
			}
		}
	}
}

// Text content without a text, and with too little of it, is refused.
func TestTextContentNeedsText(t *testing.T) {
	c := settings(t)
	c.PromptContent = artifact.ContentPool
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "prefill-content sharegpt needs a text") {
		t.Errorf("without a text: %v", err)
	}
	c.Text = textOf(3)
	if _, err := New(c, &fake{}, world(t, 1)[0]); err == nil || !strings.Contains(err.Error(), "120 token ids in 3 conversations") {
		t.Errorf("with 120 ids: %v", err)
	}
	c = settings(t)
	c.KVSkipReason = ""
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "decode over real KV needs a text") {
		t.Errorf("real KV without a text: %v", err)
	}
	// A chain that is deeper than the text ends the run before the first point, with both numbers.
	outcomes, _ := runAll(t, 1, func(_ int, c *Config, _ *fake) {
		c.PromptContent, c.Text = artifact.ContentChain, textOf(2)
	})
	if err := outcomes[0].err; err == nil || !strings.Contains(err.Error(), "the text has 80, in 2 conversations") {
		t.Errorf("a short text: %v", err)
	}
}

// Ranks with different texts are refused before the first step.
func TestDifferentTextsAreRefused(t *testing.T) {
	outcomes, fakes := runAll(t, 2, func(rank int, c *Config, _ *fake) {
		onText(c)
		if rank == 1 {
			c.Text.Source.SHA256 = strings.Repeat("b", 64)
		}
	})
	for rank, o := range outcomes {
		if o.err == nil || !strings.Contains(o.err.Error(), "text.sha256") || len(fakes[rank].steps) > 0 {
			t.Errorf("rank %d: %v after %d steps", rank, o.err, len(fakes[rank].steps))
		}
	}
}
