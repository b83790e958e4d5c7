package store

import (
	"bytes"
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
		if got := decompress(compress(text)); !bytes.Equal(got, text) {
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
			// The examples have long comments that the dictionary does not contain. Compression to half of the size is therefore sufficient here.
			if n := len(compress(p.Text)); bytes.Contains(p.Text, []byte(spec.KindScalingPolicy)) && n > len(p.Text)/2 {
				t.Errorf("%s: %d of %d bytes", path, n, len(p.Text))
			}
		}
	}
}

func TestTextsAreCompressedConcurrently(t *testing.T) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			text := bytes.Repeat([]byte{byte('a' + i)}, 1000)
			for range 100 {
				if !bytes.Equal(decompress(compress(text)), text) {
					t.Error("a text was changed by another one")
				}
			}
		})
	}
	all.Wait()
}
