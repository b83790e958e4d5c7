package store

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

// The store keeps the text of each document, because it compiles the last valid version again after a change of the PlatformConfig.
// Uncompressed text would be a quarter of the memory that a policy uses. Compression with a dictionary reduces the text to a quarter of its
// size.

// dictionary contains text that is typical of policies. Package flate encodes text that is also in the dictionary as a short reference.
// References to the end of the dictionary need the fewest bits. The dictionary can change in any release, because compressed text exists
// only in the memory of the process.
var dictionary = []byte(`  fallback: {failureThreshold: 3, behavior: static, replicas: 2}
  capacityGroup: chat
  mode: advisory
  activate: true
  activation: all
  class: demand
  activationTarget: 5
  metricType: AverageValue
  optional: true
  maxAge: 2m
  minCoverage: 80%
  leadTime: 10m
  tolerance: 0.1
  type: sglang
  type: triton
  - {name: jobs, type: redis, source: redis, listName: jobs, target: 100}
  - {name: jobs, type: kueue, localQueue: batch, target: 1}
  - {name: backlog, type: external, metric: backlog, selector: "queue=embed", target: 30}
  - {name: trigger, type: keda, trigger: sqs, target: 5}
  - {name: ttft, type: vllm, metric: timeToFirstToken, quantile: 0.95, window: 2m, target: 500ms}
  - {name: running, type: vllm, metric: requestsRunning, target: 16}
  - {name: queue, type: prometheus, metric: queue_size, matchLabels: {queue: embed}, aggregate: sum, target: 10}
---
apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata:
  name: llama-chat
  namespace: team-chat
metadata: {name: model, namespace: team}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    kind: StatefulSet
    name: llama-chat
  scaleTargetRef: {kind: Deployment, name: model}
  scaleTargetRef: {name: model}
  minReplicas: 0
  maxReplicas: 12
  cooldownPeriod: 15m
  behavior:
    scaleUp:
      stabilizationWindowSeconds: 0
      policies:
      - {type: Percent, value: 100, periodSeconds: 15}
    scaleDown:
      stabilizationWindowSeconds: 600
      policies:
      - {type: Pods, value: 1, periodSeconds: 60}
    scaleDown: {stabilizationWindowSeconds: 300, policies: [{type: Pods, value: 1, periodSeconds: 60}]}
  formula: "max(gateway.replicas, has(queue.value) ? queue.replicas : 0, gpu.replicas)"
  signals:
  - name: queue
    type: vllm
    metric: requestsWaiting
    target: 10
  - {name: gateway, type: prometheus, queryRef: gateway-queue, target: 10}
  - {name: queue, type: vllm, target: 10}
  - {name: kv, type: vllm, metric: kvCacheUsage, target: 80%}
  - {name: gpu, type: dcgm, target: 70%}
  schedules:
  - {name: office, timezone: Europe/Berlin, start: "0 8 * * 1-5", end: "0 20 * * 1-5", minReplicas: 2}
  - {name: night, timezone: Europe/Berlin, start: "0 23 * * *", end: "0 6 * * *", maxReplicas: 0}
`)

// compressor compresses texts with one dictionary. It is safe for concurrent use.
type compressor struct {
	dictionary []byte
	writers    sync.Pool
	readers    sync.Pool
}

func newCompressor(dictionary []byte) *compressor {
	return &compressor{
		dictionary: dictionary,
		writers: sync.Pool{New: func() any {
			w, err := flate.NewWriterDict(nil, flate.DefaultCompression, dictionary)
			if err != nil {
				panic(err) // the only possible error is an invalid level
			}
			return w
		}},
		readers: sync.Pool{New: func() any { return flate.NewReaderDict(nil, dictionary) }},
	}
}

// typical is the compressor of stores with fewer than minSampled policies.
var typical = newCompressor(dictionary)

const (
	// minSampled is the number of policies from which a dictionary with documents of the store saves more memory than it uses.
	minSampled = 100
	// sampleSize is the maximum total size of the documents in this dictionary, in bytes. A larger dictionary makes compression slower.
	sampleSize = 8 << 10
)

// chooseCompressor adds some documents of the store to the dictionary when the store has at least minSampled policies. Policies of one
// cluster are often generated from one template. With a sample of them in the dictionary, their compressed text is shorter. Documents that
// are already compressed are not compressed again.
func (s *Store) chooseCompressor() {
	if s.compressor != typical || len(s.policies) < minSampled {
		return
	}
	var sample []byte
	documents := s.documents(spec.KindScalingPolicy)
	for i := 0; i < len(documents); i += max(1, len(documents)/8) {
		if text := documents[i].content(); len(sample)+len(text) <= sampleSize {
			sample = append(sample, text...)
		}
	}
	s.compressor = newCompressor(slices.Concat(dictionary, sample))
}

func (c *compressor) compress(text []byte) []byte {
	var out bytes.Buffer
	w := c.writers.Get().(*flate.Writer)
	defer c.writers.Put(w)
	w.Reset(&out)
	_, _ = w.Write(text) // writing to memory does not fail
	_ = w.Close()
	return bytes.Clone(out.Bytes())
}

// decompress returns the original text of a compressed text.
func (c *compressor) decompress(compressed []byte) []byte {
	r := c.readers.Get().(io.ReadCloser)
	defer c.readers.Put(r)
	err := r.(flate.Resetter).Reset(bytes.NewReader(compressed), c.dictionary)
	if err == nil {
		var text []byte
		if text, err = io.ReadAll(r); err == nil {
			return text
		}
	}
	panic(fmt.Sprintf("a document that was compressed in this process: %v", err))
}
