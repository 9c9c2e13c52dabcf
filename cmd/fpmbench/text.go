package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/gpu/model"
	"github.com/fpmrun/fpmrun/rank/bench"
	"github.com/fpmrun/fpmrun/rank/text"
	"github.com/fpmrun/fpmrun/rank/tokenizer"
)

// textOptions say where real text comes from.
type textOptions struct {
	tokenizer, dataset, datasetSHA256, tokenPool string

	unread bool // this rank only executes steps: it needs no text
}

// flags declares the options.
func (o *textOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "tokenizer", Destination: &o.tokenizer, EnvVars: []string{"FPM_TOKENIZER"}, Usage: "`FILE` tokenizer.json of the model, to encode --dataset with"},
		&cli.StringFlag{Name: "dataset", Destination: &o.dataset, EnvVars: []string{"FPM_DATASET", "DYN_BENCH_KV_WARMUP_DATASET"}, Usage: "`FILE` of conversations in the form of ShareGPT; nothing is downloaded"},
		&cli.StringFlag{Name: "dataset-sha256", Hidden: true, Destination: &o.datasetSHA256, EnvVars: []string{"DYN_BENCH_KV_WARMUP_SHA256"}},
		&cli.StringFlag{Name: "token-pool", Destination: &o.tokenPool, EnvVars: []string{"FPM_TOKEN_POOL"}, Usage: "`FILE` of token ids that fpmbench tokenize made, instead of --tokenizer and --dataset"},
	}
}

// missingText says why there is no text, in the format's words; "" when there is one.
func (o *textOptions) missingText() string {
	switch {
	case o.tokenPool != "":
		return ""
	case o.tokenizer == "":
		return "tokenizer_unavailable: neither --tokenizer nor --token-pool was given"
	case o.dataset == "":
		return "dataset_unavailable: --dataset was not given"
	}
	return ""
}

// check refuses options that contradict each other or ask for a download.
func (o *textOptions) check() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.tokenPool != "" && (o.tokenizer != "" || o.dataset != "") {
		refuse("--token-pool %s holds token ids already; drop --tokenizer and --dataset", o.tokenPool)
	}
	if strings.HasPrefix(o.dataset, "http://") || strings.HasPrefix(o.dataset, "https://") {
		refuse("--dataset %s: nothing is downloaded; fetch it yourself and give the file", o.dataset)
	}
	if o.dataset != "" && o.tokenizer == "" && o.tokenPool == "" {
		refuse("--dataset %s needs --tokenizer", o.dataset)
	}
	if o.datasetSHA256 != "" && o.dataset == "" {
		refuse("DYN_BENCH_KV_WARMUP_SHA256=%s: there is no --dataset that could have it; unset it", o.datasetSHA256)
	}
	return errors.Join(errs...)
}

// open reads the text, if there is one and this rank needs it, and checks it against the model. reason is why decode cannot use it, "" when it can.
func (o *textOptions) open(g *model.Geometry) (loaded *bench.Text, reason string, err error) {
	if reason := o.missingText(); reason != "" {
		if o.tokenizer != "" {
			if _, err = tokenizer.Load(o.tokenizer); err != nil {
				err = fmt.Errorf("--tokenizer: %w", err)
			}
		}
		return nil, reason, err
	}
	if o.unread {
		return &bench.Text{}, "", nil
	}
	if o.tokenPool != "" {
		pool, err := artifact.ReadTokenPool(o.tokenPool)
		if err != nil {
			return nil, "", fmt.Errorf("--token-pool: %w", err)
		}
		source := pool.Header.Source
		source.Path = o.tokenPool
		return &bench.Text{IDs: pool, Source: source, TokenizerSHA256: pool.Header.TokenizerSHA256}, "", fitsVocabulary("token-pool", o.tokenPool, pool.Header.VocabSize-1, g)
	}
	tok, err := tokenizer.Load(o.tokenizer)
	if err != nil {
		return nil, "", fmt.Errorf("--tokenizer: %w", err)
	}
	if err := fitsVocabulary("tokenizer", o.tokenizer, int(tok.Largest()), g); err != nil {
		return nil, "", err
	}
	data, err := text.ReadDataset(o.dataset, o.datasetSHA256)
	if errors.Is(err, text.ErrEmpty) {
		return nil, "dataset_empty", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("--dataset: %w", err)
	}
	return &bench.Text{IDs: data.Encode(tok), Source: data.Source, TokenizerSHA256: tok.Digest()}, "", nil
}

// fitsVocabulary refuses ids that the model has no embedding for: the tokenizer is another model's.
func fitsVocabulary(flag, path string, largest int, g *model.Geometry) error {
	if largest >= g.Vocab {
		return fmt.Errorf("--%s %s: ids up to %d, but model %s has a vocabulary of %d; use the model's own", flag, path, largest, g.Name, g.Vocab)
	}
	return nil
}

// tooShallow says that the text cannot fill the deepest chain that a run may ask for; "" when it can.
func tooShallow(t *bench.Text, maxModelLen int) string {
	if t.IDs == nil { // the leader of this rank's engine decides
		return ""
	}
	needed := maxModelLen - 3
	have, ok := artifact.NewChains(t.IDs).Holds(needed)
	if ok {
		return ""
	}
	return fmt.Sprintf("content_too_shallow: the text has %d token ids, chains of up to %d are wanted", have, needed)
}

// decodeKV says what the decode points of a run stand on, for people.
func decodeKV(c *bench.Config) string {
	switch {
	case !c.KVWarmup:
		return "synthetic: the warm-up is switched off"
	case c.KVSkipReason != "":
		return "synthetic: " + c.KVSkipReason
	}
	return "real text, where the chains cover a point"
}
