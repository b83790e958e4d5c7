package main

import "sigs.k8s.io/yaml"

// krewFile is the manifest of krew, whose name must be the name of the plugin.
const krewFile = "gpuscaler.yaml"

// krewPlugin is a plugin manifest of krew: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
type krewPlugin struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       krewSpec       `json:"spec"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector map[string]any `json:"selector"`
	URI      string         `json:"uri"`
	SHA256   string         `json:"sha256"`
	Bin      string         `json:"bin"`
}

// krewManifest returns the manifest that installs `kubectl gpuscaler` from the archives with these SHA-256 sums.
func (r release) krewManifest(of []platform, sums map[string]string) ([]byte, error) {
	plugin := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2",
		Kind:       "Plugin",
		Metadata:   map[string]any{"name": "gpuscaler"},
		Spec: krewSpec{
			Version:          r.version,
			Homepage:         "https://github.com/" + r.repository,
			ShortDescription: "Explain and audit the autoscaling of GPU workloads",
			Description: `gpuscaler computes the replicas of GPU workloads and explains each target. With this plugin you
audit the cost of the present HPAs and ScaledObjects, replay recorded traffic against a policy, check policies,
and read the targets of an installed release. audit, validate and replay need nothing in the cluster.
`,
		},
	}
	for _, p := range of {
		labels := map[string]any{"os": p.os, "arch": p.arch}
		plugin.Spec.Platforms = append(plugin.Spec.Platforms, krewPlatform{
			Selector: map[string]any{"matchLabels": labels},
			URI:      "https://github.com/" + r.repository + "/releases/download/" + r.version + "/" + r.archive(p),
			SHA256:   sums[r.archive(p)],
			Bin:      "gpuscaler",
		})
	}
	return yaml.Marshal(plugin)
}
