package flagvalue

import "testing"

func TestPercent(t *testing.T) {
	for text, want := range map[string]float64{"5%": 0.05, "5": 0.05, "0.5%": 0.005, "0": 0, "150%": 1.5} {
		var p Percent
		if err := p.Set(text); err != nil || p.Value != want || !p.Given {
			t.Errorf("%s: %v (%v), want %v", text, p.Value, err, want)
		}
	}
	for _, text := range []string{"", "%", "five", "-1%", "NaN", "5%%", "inf"} {
		var p Percent
		if err := p.Set(text); err == nil || p.Given {
			t.Errorf("%q was taken for %v", text, p.Value)
		}
	}
	if got := (&Percent{Value: 0.025}).String(); got != "2.5%" {
		t.Errorf("got %s", got)
	}
}
