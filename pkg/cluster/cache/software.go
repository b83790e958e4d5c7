package cache

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// softwareOf returns a hash of the fields that determine how much work a pod serves: the image, command and arguments of the containers
// that use GPUs, their extended resources, and the node labels that the pod selects, such as nvidia.com/gpu.product. If no container uses
// GPUs, the fields of all containers are included. Other changes, for example of an injected sidecar or an annotation, do not change the
// hash.
func softwareOf(spec *corev1.PodSpec) uint64 {
	h := fnv.New64a()
	add := func(parts ...string) {
		for _, text := range parts { // include the length of each part, so that different lists of parts have different hashes
			_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(text))))
			_, _ = h.Write([]byte(text)) // never returns an error
		}
	}
	all := !anyUsesGPUs(spec.Containers)
	for i := range spec.Containers {
		c := &spec.Containers[i]
		if !all && !usesGPUs(*c) {
			continue
		}
		add(c.Image, strings.Join(c.Command, "\x00"), strings.Join(c.Args, "\x00"))
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
			if q := c.Resources.Limits[name]; strings.Contains(string(name), "/") {
				add(string(name), q.String())
			}
		}
	}
	for _, label := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		add(label, spec.NodeSelector[label])
	}
	return max(h.Sum64(), 1)
}

// anyUsesGPUs reports whether at least one of the containers uses GPUs.
func anyUsesGPUs(containers []corev1.Container) bool {
	return slices.ContainsFunc(containers, usesGPUs)
}

// usesGPUs reports whether a container has a limit of an extended resource or a device claim.
func usesGPUs(c corev1.Container) bool {
	for name := range c.Resources.Limits {
		if strings.Contains(string(name), "/") {
			return true
		}
	}
	return len(c.Resources.Claims) > 0
}

// softwareVersion returns the most frequent hash (see softwareOf) of the ready pods. before is the previous result. If two hashes are
// equally frequent, before is kept, so that the result changes only once during a rollout. Without a ready pod it returns 0, which means
// that the version is unknown.
func (e *entry) softwareVersion(before uint64) uint64 {
	count := map[uint64]int{}
	for _, p := range e.pods {
		if p.phase == ready {
			count[p.software]++
		}
	}
	best := before
	for version, n := range count {
		if n > count[best] || n == count[best] && best != before && version < best {
			best = version
		}
	}
	if count[best] == 0 {
		return 0
	}
	return best
}
