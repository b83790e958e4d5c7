package tracefile

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/input"
)

// maxMembers is the maximum number of files in an archive. The largest set of ServeGen has 162 clients.
const maxMembers = 100_000

// readTar reads windowed rates with one CSV per client.
func readTar(p input.Place, in io.Reader, o Options, t *contents) *trace.Error {
	archive := tar.NewReader(in)
	b := newRateBuilder(o)
	skipped := 0
	for n := 0; ; n++ {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return p.Failed(err, "a whole tar archive")
		}
		if n == maxMembers {
			return p.Refuse(fmt.Sprintf("more than %d members", maxMembers), "fewer")
		}
		base := path.Base(h.Name)
		if h.Typeflag != tar.TypeReg || strings.HasPrefix(base, ".") || path.Ext(base) != ".csv" {
			if h.Typeflag == tar.TypeReg {
				skipped++ // the file is not a CSV file, for example a README, or a resource fork of macOS ("._x.csv")
			}
			continue
		}
		if err := b.member(input.Place{File: p.File + "(" + h.Name + ")"}, h.Name, archive); err != nil {
			return err
		}
	}
	if len(b.samples) == 0 {
		return p.Refuse("an archive without a .csv", "windowed rates, one .csv per client")
	}
	said := notes(t.Notes)
	said.count(skipped, "members that are not .csv, skipped")
	t.Notes = said
	return b.finish(p, t)
}

func (b *rateBuilder) member(p input.Place, name string, in io.Reader) *trace.Error {
	rows := bufio.NewReaderSize(in, input.PeekSize)
	if head, _ := rows.Peek(1); len(head) == 0 {
		return p.Refuse("an empty file", "at least one window")
	}
	if b.o.Format == AutoFormat {
		head, _ := rows.Peek(input.PeekSize)
		first, err := input.FirstRecord(p, head)
		if err != nil {
			return err
		}
		if !looksLikeRates(first) {
			return p.Refuse("a file without a column of rates", "windowed rates; request logs are read one file at a time")
		}
	}
	return b.readCSV(p, name, rows)
}
