package history

import "testing"

func TestNoiseIsNotGrowth(t *testing.T) {
	r := Trend{}
	noise := uint64(7)
	for i := range 4000 {
		noise = noise*6364136223846793005 + 1442695040888963407
		r = r.Next(14+float64(noise>>60)*0.8, 1000) // noise: a new value from 14 to 26 each second
		if i > 200 && r.Grows(10) {
			t.Fatalf("tick %d: %+v is taken for growth", i, r)
		}
	}
	for i := range 120 {
		r = r.Next(20+float64(i)*20/60, 1000) // then the value doubles within a minute
	}
	if !r.Grows(10) {
		t.Errorf("%+v is not taken for growth", r)
	}
}
