package kernels

import (
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

//go:embed limits.txt
var limitsText string

// Resources are what a compiler gave a kernel.
type Resources struct {
	Registers int // of a thread
	Local     int // bytes of a thread in local memory: registers that were spilled, and arrays that are no registers
	Shared    int // bytes of shared memory that a block has beside what the launch gives
}

// Limits are the most that kernels may take, by head size and kernel; head size 0 stands for all that have no line of their own.
type Limits map[limitKey]Resources

type limitKey struct {
	head   int
	kernel string
}

// ReadLimits is the table in limits.txt. It has a line for every kernel of NamesFor.
func ReadLimits() (Limits, error) { return parseLimits(limitsText) }

func parseLimits(text string) (Limits, error) {
	limits, number := Limits{}, 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		wrong := func(what string) error {
			return fmt.Errorf("kernels: limits.txt, line %d: %s in %q; want a head size or *, a kernel, registers and bytes of shared memory", number, what, strings.TrimSpace(line))
		}
		if len(fields) != 4 {
			return nil, wrong(fmt.Sprintf("%d words", len(fields)))
		}
		k := limitKey{kernel: fields[1]}
		numbers := [3]int{}
		for i, field := range []string{fields[0], fields[2], fields[3]} {
			if i == 0 && field == "*" {
				continue
			}
			n, err := strconv.Atoi(field)
			if err != nil || n < 0 {
				return nil, wrong(strconv.Quote(field))
			}
			numbers[i] = n
		}
		k.head = numbers[0]
		if _, twice := limits[k]; twice {
			return nil, wrong("a second line of the kernel")
		}
		limits[k] = Resources{Registers: numbers[1], Shared: numbers[2]}
	}
	return limits, nil
}

// Of is the most that a kernel of a head size may take, if there is a line for it.
func (l Limits) Of(head int, kernel string) (most Resources, known bool) {
	if most, known = l[limitKey{head, kernel}]; !known {
		most, known = l[limitKey{kernel: kernel}]
	}
	return most, known
}

// Check says what a kernel of a head size has beyond its limits.
func (l Limits) Check(head int, kernel string, got Resources) error {
	most, known := l.Of(head, kernel)
	if !known {
		return fmt.Errorf("kernels: limits.txt has no line for kernel %s of head size %d", kernel, head)
	}
	var errs []error
	for _, c := range []struct {
		what      string
		got, most int
	}{{"registers", got.Registers, most.Registers}, {"bytes of local memory", got.Local, most.Local}, {"bytes of shared memory", got.Shared, most.Shared}} {
		if c.got > c.most {
			errs = append(errs, fmt.Errorf("kernels: kernel %s of head size %d has %d %s, at most %d are allowed", kernel, head, c.got, c.what, c.most))
		}
	}
	return errors.Join(errs...)
}
