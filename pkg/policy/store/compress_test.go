package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"pgregory.net/rapid"
)

func TestCompressedTextIsDecompressedUnchanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.Byte()).Draw(t, "text")
		if got := typical.decompress(typical.compress(text)); !bytes.Equal(got, text) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

func TestTheExamplesAreCompressedToHalf(t *testing.T) {
	paths, err := filepath.Glob("../../../config/examples/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range decode.Split(text) {
			// The examples have long comments that the dictionary does not contain, so compression to half of the size is sufficient.
			if n := len(typical.compress(p.Text)); bytes.Contains(p.Text, []byte(spec.KindScalingPolicy)) && n > len(p.Text)/2 {
				t.Errorf("%s: %d of %d bytes", path, n, len(p.Text))
			}
		}
	}
}

// In a store with at least a hundred policies, the dictionary contains some of them, so the text of a similar policy takes few bytes. The
// test then edits the policies, so that the store reads every text again.
func TestSimilarPoliciesShareTheirText(t *testing.T) {
	dir, text := t.TempDir(), func(i, replicas int) string {
		return fmt.Sprintf("# team %[1]d: see the service catalogue, on call is rotation %[1]d\napiVersion: gpuscaler.io/v1alpha1\n"+
			"kind: ScalingPolicy\nmetadata: {name: model-%[1]d, namespace: team}\nspec:\n  scaleTargetRef: {name: model-%[1]d}\n"+
			"  maxReplicas: %[2]d\n  signals: [{name: queue, type: vllm, target: 10}]\n", i, replicas)
	}
	write := func(replicas int) {
		for i := range minSampled {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), []byte(text(i, replicas)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := New(Options{})
	for _, replicas := range []int{3, 4} {
		write(replicas)
		if r := s.Load(dir); len(r.Problems) > 0 {
			t.Fatal(r.Problems)
		}
		stored, size := 0, 0
		for _, f := range s.files {
			for i, d := range f.docs {
				stored, size = stored+len(d.text), size+len(d.content())
				if d.restore(); i > 0 || d.policySpec == nil || int(*d.policySpec.MaxReplicas) != replicas {
					t.Fatalf("document %q was stored with the text\n%s", d.Document, d.content())
				}
			}
		}
		if stored > size/5 {
			t.Errorf("%d of %d bytes are stored", stored, size)
		}
	}
}

func TestTextsAreCompressedConcurrently(t *testing.T) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			text := bytes.Repeat([]byte{byte('a' + i)}, 1000)
			for range 100 {
				if !bytes.Equal(typical.decompress(typical.compress(text)), text) {
					t.Error("a text was changed by another one")
				}
			}
		})
	}
	all.Wait()
}
