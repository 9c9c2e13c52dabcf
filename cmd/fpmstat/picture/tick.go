package picture

import (
	"fmt"
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// placeTicks are ticks at measured places of a logarithmic axis, the first and the last always with their label, the others where there is room.
func placeTicks(places []int) plot.ConstantTicks {
	const room = 0.055 // of the axis, for one label
	if len(places) == 0 {
		return nil
	}
	at := func(v int) float64 { return math.Log(float64(max(v, 1))) }
	first, last := places[0], places[len(places)-1]
	whole := at(last) - at(first)
	need := func(v int) float64 { return room * whole * max(1, float64(len(strconv.Itoa(v)))/3) }
	ticks := make(plot.ConstantTicks, len(places))
	free := at(first) // where the next label may be
	for i, v := range places {
		ticks[i].Value = float64(v)
		if v == first || v == last || at(v) >= free && at(v)+need(last) <= at(last) {
			ticks[i].Label = strconv.Itoa(v)
			free = at(v) + need(v)
		}
	}
	return ticks
}

// decadeTicks labels 1, 2 and 5 of each decade of a logarithmic axis; only 1 where there are many decades.
type decadeTicks struct{}

// Ticks implements plot.Ticker.
func (decadeTicks) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	many := high/low > 1e3
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for _, m := range []float64{1, 2, 3, 4, 5, 6, 7, 8, 9} {
			v := m * math.Pow(10, e)
			if v < low*0.999 || v > high*1.001 {
				continue
			}
			t := plot.Tick{Value: v}
			if m == 1 || !many && (m == 2 || m == 5) {
				t.Label = number(v)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// evenTicks labels multiples of 1, 2 or 5 times a power of ten, five to ten of them.
type evenTicks struct{}

// Ticks implements plot.Ticker.
func (evenTicks) Ticks(low, high float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/5)))
	for _, m := range []float64{5, 2} {
		if (high-low)/(m*step) >= 5 {
			step *= m
			break
		}
	}
	var ticks []plot.Tick
	for i := math.Ceil(low / step); i*step <= high; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: number(i * step)})
	}
	return ticks
}

// number prints a value with three significant digits and no exponent.
func number(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	if digits <= 0 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	f, err := strconv.ParseFloat(strconv.FormatFloat(v, 'f', digits, 64), 64)
	if err != nil {
		return fmt.Sprint(v)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}
