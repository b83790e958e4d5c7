package spec

// APIVersion stands at the head of every document.
const APIVersion = "gpuscaler.io/v1alpha1"

// The kinds of documents.
const (
	KindScalingPolicy  = "ScalingPolicy"
	KindPlatformConfig = "PlatformConfig"
)

type Metadata struct {
	Name      string `yaml:"name" required:"true" doc:"the name, by which it is served and explained"`
	Namespace string `yaml:"namespace,omitempty" doc:"the namespace of the workload (not in a PlatformConfig)"`
}

type PolicyDocument struct {
	APIVersion string   `yaml:"apiVersion" required:"true" doc:"gpuscaler.io/v1alpha1"`
	Kind       string   `yaml:"kind" required:"true" doc:"ScalingPolicy"`
	Metadata   Metadata `yaml:"metadata" required:"true" doc:"name and namespace"`
	Spec       Policy   `yaml:"spec" required:"true" doc:"the policy"`
}

type PlatformDocument struct {
	APIVersion string   `yaml:"apiVersion" required:"true" doc:"gpuscaler.io/v1alpha1"`
	Kind       string   `yaml:"kind" required:"true" doc:"PlatformConfig"`
	Metadata   Metadata `yaml:"metadata" required:"true" doc:"name"`
	Spec       Platform `yaml:"spec" required:"true" doc:"the configuration"`
}
