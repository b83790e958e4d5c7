package spec

// APIVersion is the apiVersion of every document.
const APIVersion = "gpuscaler.io/v1alpha1"

// The kinds of documents that users write.
const (
	KindScalingPolicy  = "ScalingPolicy"
	KindPlatformConfig = "PlatformConfig"
)

// Metadata contains the name and the namespace of a document.
type Metadata struct {
	Name      string `yaml:"name" required:"true"`
	Namespace string `yaml:"namespace,omitempty"`
}

// PolicyDocument is a document of kind ScalingPolicy.
type PolicyDocument struct {
	APIVersion string   `yaml:"apiVersion" required:"true"`
	Kind       string   `yaml:"kind" required:"true"`
	Metadata   Metadata `yaml:"metadata" required:"true"`
	Spec       Policy   `yaml:"spec" required:"true"`
}

// PlatformDocument is a document of kind PlatformConfig.
type PlatformDocument struct {
	APIVersion string   `yaml:"apiVersion" required:"true"`
	Kind       string   `yaml:"kind" required:"true"`
	Metadata   Metadata `yaml:"metadata" required:"true"`
	Spec       Platform `yaml:"spec" required:"true"`
}
