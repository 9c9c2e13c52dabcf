package bench

import (
	"fmt"

	"github.com/fpmrun/fpmrun/artifact"
)

// Text is real text in token ids, and what says between ranks that it is the same.
type Text struct {
	IDs             artifact.Text
	Source          artifact.TextSource
	TokenizerSHA256 string
}

// kvEligible reports whether this rank could run decode points over real KV.
func (c *Config) kvEligible() bool { return c.KVWarmup && c.KVSkipReason == "" }

// content is what a DP rank draws its token ids from.
func (c *Config) content(rank int) (artifact.Content, error) {
	content := artifact.Content{Seed: c.ContentSeed, Vocab: c.Vocab, DPRank: rank, Kind: c.PromptContent, PoolTag: c.PoolTag}
	if c.Text == nil {
		return content, nil
	}
	content.Chains = artifact.NewChains(c.Text.IDs)
	if content.Kind == artifact.ContentPool {
		var err error
		if content.Pool, err = artifact.NewPool(c.Text.IDs); err != nil {
			return content, fmt.Errorf("bench: prefill-content %s: %w", content.Kind, err)
		}
	}
	return content, nil
}

// textIdentity is what the ranks compare of their texts: the path may differ between hosts.
func (c *Config) textIdentity() map[string]any {
	if c.Text == nil {
		return nil
	}
	source := c.Text.Source
	return map[string]any{"sha256": source.SHA256, "collection_pool": source.CollectionPool, "conversations": source.Conversations, "tokenizer_sha256": c.Text.TokenizerSHA256}
}
