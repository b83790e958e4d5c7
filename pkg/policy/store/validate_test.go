package store_test

import (
	"os"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

func TestValidateChecksAPriceBook(t *testing.T) {
	book, err := os.ReadFile("../../../config/prices.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) string {
		path := t.TempDir() + "/prices.yaml"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if problems := store.Validate(write(string(book))); len(problems) > 0 {
		t.Errorf("a valid book: %s", policy.Render(problems))
	}
	if problems := store.Validate(write(strings.Replace(string(book), "gpus: 8, ", "", 1)),
		"../../../config/examples/platform.yaml"); policy.Errors(problems) != 1 ||
		!strings.Contains(policy.Render(problems), "gpus: is missing") {
		t.Errorf("a book without GPUs: %s", policy.Render(problems))
	}
}
