// Command soak runs a controller for hours of virtual time at a constant load. Queues change, pods restart, Deployments are replaced, and
// policies are edited. It fails if the memory, the number of goroutines, the objects in the API server, the history or the metrics grow.
// See ../../README.md.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func main() {
	testing.Init() // package testing must be initialized, because a synctest bubble needs a test
	policies := flag.Int("policies", 1000, "number of policies")
	lasting := flag.Duration("for", 8*time.Hour, "virtual time of the samples, after the warm-up")
	warmUp := flag.Duration("warm-up", 2*time.Hour, "virtual time before the first sample")
	seed := flag.Uint64("seed", 1, "seed of the load")
	profile := flag.String("cpuprofile", "", "file for a CPU profile")
	flag.Parse()
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "Soak", F: func(t *testing.T) {
		if *profile != "" {
			defer writeProfile(t, *profile)()
		}
		began, used := time.Now(), cpu()
		s := soak{policies: *policies, warmUp: *warmUp, lasting: *lasting, every: 10 * time.Minute, seed: *seed, out: os.Stdout}
		for _, found := range s.run(t) {
			t.Error(found)
		}
		fmt.Printf("%d policies, %s of virtual time: %.0f s, %.0f s of CPU time\n", *policies, *warmUp+*lasting, time.Since(began).Seconds(),
			(cpu() - used).Seconds())
	}}}, nil, nil)
}

// writeProfile starts a CPU profile and returns the function that ends it.
func writeProfile(t *testing.T, path string) (end func()) {
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		t.Fatal(err)
	}
	return func() {
		pprof.StopCPUProfile()
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}
}

// cpu returns the CPU time that this process has used so far.
func cpu() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// soak is one run. It takes a sample at the interval in the field every. Samples of the warm-up have negative times.
type soak struct {
	policies               int
	warmUp, lasting, every time.Duration
	seed                   uint64
	out                    io.Writer

	writes, history int // writes of NodePools in the whole run, and records of the history in the last sample
}

// run runs the soak test in virtual time and returns the quantities that have grown.
func (s *soak) run(t *testing.T) (found []string) {
	synctest.Test(t, func(*testing.T) {
		l := newLoad(s.policies, s.seed)
		c := newController(l)
		text := ""
		var samples []sample
		printHeader(s.out)
		for l.now.Sub(l.began) < s.warmUp+s.lasting {
			if l.text != text {
				text = l.text
				c.read(text)
			}
			c.second(l.now)
			l.second(c)
			time.Sleep(time.Second) // takes no real time, because the clock of the bubble is virtual
			l.now = time.Now()
			elapsed := l.now.Sub(l.began)
			if elapsed%time.Minute == 0 {
				c.compact()
			}
			if (elapsed-s.warmUp)%s.every == 0 {
				now := take(elapsed-s.warmUp, c)
				now.print(s.out)
				if now.at > 0 { // samples of the warm-up only show the progress
					samples = append(samples, now)
				}
			}
		}
		found = growth(samples)
		s.writes, s.history = c.writes, int(samples[len(samples)-1].values[history])
	})
	return found
}
