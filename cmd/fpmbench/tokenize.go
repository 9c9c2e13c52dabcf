package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/fpmrun/fpmrun/artifact"
	"github.com/fpmrun/fpmrun/cmd/internal/exit"
	"github.com/fpmrun/fpmrun/cmd/internal/mistake"
	"github.com/fpmrun/fpmrun/rank/text"
	"github.com/fpmrun/fpmrun/rank/tokenizer"
)

// tokenize is the command that encodes text.
func (p *program) tokenize(stdin io.Reader) *cli.Command {
	var path, dataset, out string
	var most int
	return &cli.Command{
		Name:            "tokenize",
		HideHelpCommand: true,
		OnUsageError:    mistake.Handler,
		Usage:           "encode a data set into a token pool, or lines of JSON strings into lines of token ids",
		UsageText:       "fpmbench tokenize --tokenizer FILE --dataset FILE --output FILE\nfpmbench tokenize --tokenizer FILE <strings.jsonl",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "tokenizer", Destination: &path, Usage: "`FILE` tokenizer.json of the model"},
			&cli.StringFlag{Name: "dataset", Destination: &dataset, Usage: "`FILE` of conversations in the form of ShareGPT"},
			&cli.StringFlag{Name: "output", Destination: &out, Usage: "`FILE` of the token pool"},
			&cli.IntFlag{Name: "max-tokens", Destination: &most, Usage: "take conversations until they have `N` token ids; 0 takes all"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return exit.AsUsage(fmt.Errorf("unexpected argument %q: tokenize takes flags only", c.Args().First()))
			}
			if path == "" || (dataset == "") != (out == "") {
				return exit.AsUsage(errors.New("want --tokenizer, and both of --dataset and --output or none of the two"))
			}
			if most < 0 {
				return exit.AsUsage(fmt.Errorf("--max-tokens %d: want at least 0", most))
			}
			tok, err := tokenizer.Load(path)
			if err != nil {
				return exit.AsUsage(fmt.Errorf("--tokenizer: %w", err))
			}
			if dataset == "" {
				return encodeLines(tok, stdin, p.stdout)
			}
			data, err := text.ReadDataset(dataset, "")
			if err != nil {
				return exit.AsUsage(fmt.Errorf("--dataset: %w", err))
			}
			return p.writePool(artifact.NewTokenPool(data.Encode(tok), data.Source, tok.Digest(), most), out)
		},
	}
}

// writePool writes a token pool into a file that is not there yet.
func (p *program) writePool(pool *artifact.TokenPool, path string) error {
	body, err := pool.Encode()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	if _, err = f.Write(body); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("--output: %w", err), os.Remove(path))
	}
	_, err = fmt.Fprintf(p.stdout, "%s: %d token ids of %d conversations\n", path, pool.Header.Tokens, pool.Conversations())
	return err
}

// encodeLines encodes one JSON string a line.
func encodeLines(tok *tokenizer.Tokenizer, r io.Reader, w io.Writer) error {
	in, out := json.NewDecoder(r), bufio.NewWriter(w)
	for line := 1; ; line++ {
		var s string
		if err := in.Decode(&s); errors.Is(err, io.EOF) {
			return out.Flush()
		} else if err != nil {
			return fmt.Errorf("string %d of the standard input: %w", line, err)
		}
		ids, err := json.Marshal(append([]uint32{}, tok.Encode(s)...))
		if err != nil {
			return err
		}
		if _, err := out.Write(append(ids, '\n')); err != nil {
			return fmt.Errorf("standard output: %w", err)
		}
	}
}
