package store

import (
	"crypto/sha256"
	"io/fs"
	"path"
	"slices"
)

// LoadFS is like Load, but reads the .yaml, .yml and .json files in the root directory of a file system, for example of an embedded one.
func (s *Store) LoadFS(fsys fs.FS) Report {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return s.load([]file{{name: ".", err: err}})
	}
	var files []file
	for _, e := range entries {
		if e.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(e.Name())) {
			continue
		}
		f := file{name: e.Name()}
		f.text, f.err = fs.ReadFile(fsys, e.Name())
		f.hash = sha256.Sum256(f.text)
		files = append(files, f)
	}
	return s.load(files)
}
