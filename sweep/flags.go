package sweep

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Flag is one flag of a program, without its dashes. Value is as it was written; lists are joined by commas.
type Flag struct{ Name, Value string }

// Flags are a mapping of names to values, in the order in which they were written.
type Flags []Flag

// Axes are a mapping of names to lists of values, in the order in which they were written.
type Axes []Axis

// Axis is one dimension of a matrix.
type Axis struct {
	Name   string
	Values []string
}

// value is the value of a flag of this name. ok is false when it is not there.
func (f Flags) value(name string) (value string, ok bool) {
	for _, one := range f {
		if one.Name == name {
			return one.Value, true
		}
	}
	return "", false
}

// words are command-line words. Every one carries its value, since a switch's may be false.
func (f Flags) words() []string {
	words := make([]string, 0, len(f))
	for _, one := range f {
		words = append(words, "--"+one.Name+"="+one.Value)
	}
	return words
}

// with is these flags, those of others in the place of their namesakes.
func (f Flags) with(others Flags) Flags {
	all := slices.Clone(f)
	for _, one := range others {
		if i := slices.IndexFunc(all, func(have Flag) bool { return have.Name == one.Name }); i >= 0 {
			all[i] = one
		} else {
			all = append(all, one)
		}
	}
	return all
}

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (f *Flags) UnmarshalYAML(node ast.Node) error {
	return eachPair(node, func(name string, value ast.Node) error {
		text, err := scalar(value)
		if list, ok := value.(*ast.SequenceNode); ok {
			var parts []string
			if parts, err = scalars(list); err == nil {
				text = strings.Join(parts, ",")
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		*f = append(*f, Flag{name, text})
		return nil
	})
}

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (a *Axes) UnmarshalYAML(node ast.Node) error {
	return eachPair(node, func(name string, value ast.Node) error {
		list, ok := value.(*ast.SequenceNode)
		if !ok {
			return fmt.Errorf("matrix: %s: want a list of values such as [1, 2], line %d", name, line(value))
		}
		values, err := scalars(list)
		if err != nil {
			return fmt.Errorf("matrix: %s: %w", name, err)
		}
		if len(values) == 0 {
			return fmt.Errorf("matrix: %s: the list is empty, so there is nothing to run; line %d", name, line(value))
		}
		for i, v := range values {
			if slices.Contains(values[:i], v) {
				return fmt.Errorf("matrix: %s: %s is there twice, line %d; for several runs of one kind write repeats: 2", name, v, line(value))
			}
		}
		*a = append(*a, Axis{name, values})
		return nil
	})
}

// eachPair walks over a mapping. Names lose the dashes that a user may have written before them.
func eachPair(node ast.Node, do func(name string, value ast.Node) error) error {
	var pairs []*ast.MappingValueNode
	switch n := node.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	case *ast.NullNode:
	default:
		return fmt.Errorf("line %d: want flags and their values, as in model: tiny", line(node))
	}
	seen := map[string]bool{}
	for _, pair := range pairs {
		name := strings.TrimLeft(pair.Key.GetToken().Value, "-")
		if seen[name] || name == "" {
			return fmt.Errorf("line %d: flag %q is there twice, or has no name", line(pair.Key), name)
		}
		seen[name] = true
		if err := do(name, pair.Value); err != nil {
			return err
		}
	}
	return nil
}

// scalars are the values of a list; a list inside it is one value, joined by commas.
func scalars(list *ast.SequenceNode) ([]string, error) {
	var values []string
	for _, item := range list.Values {
		if inner, ok := item.(*ast.SequenceNode); ok {
			parts, err := scalars(inner)
			if err != nil {
				return nil, err
			}
			values = append(values, strings.Join(parts, ","))
			continue
		}
		value, err := scalar(item)
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}

// scalar is a value as it was written: 1e3 stays 1e3.
func scalar(node ast.Node) (string, error) {
	switch n := node.(type) {
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.NullNode:
		return "", fmt.Errorf("has no value, line %d", line(node))
	case ast.ScalarNode:
		return n.GetToken().Value, nil
	}
	return "", fmt.Errorf("want a value or a list of values, line %d", line(node))
}

// line is where a node begins.
func line(node ast.Node) int { return node.GetToken().Position.Line }
