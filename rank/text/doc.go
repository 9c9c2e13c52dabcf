// Package text reads the real text that prompts and decode chains are made of: a data set of conversations in the form of ShareGPT,
// encoded by a tokenizer, or a token pool that holds the ids of one.
//
// Nothing is downloaded. Texts are read once, before a run starts.
package text
