package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// measured contains the samples of a soak, oldest first, by the name of the measured quantity, such as "heap of POD".
type measured map[string][]float64

// quantity describes how the samples of all quantities whose names begin with prefix are compared and displayed.
type quantity struct {
	prefix string
	unit   float64 // divisor for the display: 1<<20 displays bytes as MiB
	// slack is the growth that is always allowed, in the unit of the samples. A limit of a tenth alone would be too strict for small values.
	slack float64
	// least is true if the lowest samples of the early and the late period are compared, and not their medians. It is set for the heap,
	// which grows between two garbage collections.
	least bool
}

var quantities = []quantity{
	{prefix: "heap", unit: 1 << 20, slack: 4 << 20, least: true},
	{prefix: "goroutines", unit: 1, slack: 10},
	{prefix: "open files", unit: 1, slack: 5},
	{prefix: "memory", unit: 1 << 20, slack: 8 << 20},
	{prefix: "objects", unit: 1, slack: 15},
}

// course contains the median (or, with quantity.least, the lowest value) of a quantity in an early and in a late period of a soak.
type course struct{ early, late float64 }

// course returns the values of the early period, from 20% to 50% of the samples, and of the late period, the last 30%.
func (q quantity) course(samples []float64) course {
	n := len(samples)
	value := func(period []float64) float64 {
		if sorted := slices.Sorted(slices.Values(period)); q.least {
			return sorted[0]
		} else {
			return sorted[len(sorted)/2]
		}
	}
	return course{value(samples[n/5 : n/2]), value(samples[n*7/10:])}
}

// leastSamples is the minimum number of samples of each quantity. With fewer samples, a soak fails.
const leastSamples = 20

// flat returns an error that names every quantity that grew by more than a tenth and by more than its slack, or has too few samples.
func (m measured) flat() error {
	var grown []error
	for _, name := range slices.Sorted(maps.Keys(m)) {
		samples := m[name]
		if len(samples) < leastSamples {
			grown = append(grown, fmt.Errorf("%s: %d samples, need %d: the process did not run all the time", name, len(samples), leastSamples))
			continue
		}
		q := quantityOf(name)
		c := q.course(samples)
		if c.late-c.early > max(q.slack, c.early/10) {
			grown = append(grown, fmt.Errorf("%s grew from %.0f to %.0f", name, c.early/q.unit, c.late/q.unit))
		}
	}
	if len(m["objects"]) == 0 {
		grown = append(grown, errors.New("the API server did not count its objects"))
	}
	return errors.Join(grown...)
}

func quantityOf(name string) quantity {
	i := slices.IndexFunc(quantities, func(q quantity) bool { return strings.HasPrefix(name, q.prefix) })
	if i < 0 {
		return quantity{unit: 1}
	}
	return quantities[i]
}

// String returns a markdown table with a row for each quantity that has enough samples.
func (m measured) String() string {
	var b strings.Builder
	b.WriteString("| | early | late | highest | samples |\n|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if len(m[name]) < leastSamples {
			continue
		}
		q := quantityOf(name)
		c := q.course(m[name])
		fmt.Fprintf(&b, "| %s | %.1f | %.1f | %.1f | %d |\n", name, c.early/q.unit, c.late/q.unit, slices.Max(m[name])/q.unit, len(m[name]))
	}
	return b.String()
}

func (m measured) add(name string, value float64) { m[name] = append(m[name], value) }

var objectsLine = regexp.MustCompile(`(?m)^apiserver_resource_objects\{group="([^"]*)",resource="([^"]*)"\} (\S+)$`)

// objects adds samples of the number of objects in the API server: of all resources together, and of each resource that the soak may leak.
func (c *churn) objects(ctx context.Context, m measured) error {
	reader, err := restClient(c.lab, time.Minute)
	if err != nil {
		return err
	}
	page, err := reader.Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return err
	}
	sum := 0.0
	for _, line := range objectsLine.FindAllStringSubmatch(string(page), -1) {
		n, err := strconv.ParseFloat(line[3], 64)
		if err != nil {
			return err
		}
		if n <= 0 { // -1: the API server could not count the objects of this resource
			continue
		}
		sum += n
		if slices.Contains([]string{"events", "leases", "configmaps", "pods", "deployments"}, line[2]) {
			m.add("objects "+strings.TrimSuffix(line[2]+"."+line[1], "."), n)
		}
	}
	if sum > 0 { // 0 in the first minute, after which the API server counts its objects for the first time
		m.add("objects", sum)
	}
	return nil
}
