package commandline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// ReadObjects returns the objects in the files. It replaces a List by its items.
func ReadObjects(files []string) (all []*unstructured.Unstructured, err error) {
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			u := &unstructured.Unstructured{}
			if err := d.Decode(&u.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			switch {
			case len(u.Object) == 0:
			case u.IsList():
				list, err := u.ToList()
				if err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
				for i := range list.Items {
					all = append(all, &list.Items[i])
				}
			default:
				all = append(all, u)
			}
		}
	}
	return all, nil
}
