package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/picture"
)

//go:embed templates static
var files embed.FS

// asset returns the URL of a static file. The query contains a hash of the file, so browsers fetch a new version at once.
func asset(name string) string { return "static/" + name + "?v=" + versions[name] }

var versions = hashes()

func hashes() map[string]string {
	all := map[string]string{}
	entries, err := files.ReadDir("static")
	if err != nil {
		panic(err) // not possible, because the files are embedded in the binary
	}
	for _, e := range entries {
		body, err := static(e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(body)
		all[e.Name()] = hex.EncodeToString(sum[:8])
	}
	return all
}

// static returns a file of the directory static. The style sheet begins with the colors that all pages use.
func static(name string) ([]byte, error) {
	body, err := files.ReadFile("static/" + name)
	if name == "page.css" {
		body = append([]byte(picture.Palette), body...)
	}
	return body, err
}

func serveStatic(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.PathValue("file"))
	body, err := static(name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	if r.URL.Query().Get("v") != versions[name] {
		w.Header().Set("Cache-Control", "no-cache")
	}
	w.Header().Set("ETag", `"`+versions[name]+`"`)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
}
