package pkg_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// bannedWords contains words that make a sentence hard to understand: verbs that engineers do not use for software, pronouns without an
// antecedent, and metaphors. The value is the replacement that the failure message suggests. The list is not complete: a sentence without
// these words can also be unclear.
var bannedWords = map[string]string{
	"stand": "is, is set, exists", "stands": "is, is set, exists", "stood": "was, was set", "standing": "current, existing",
	"tell": "report, return, log", "tells": "reports, returns, logs", "told": "reported, passed, given",
	"nobody": "name the subject: no pod, no policy", "somebody": "name the subject", "anybody": "name the subject",
	"everybody": "name the subjects", "whoever": "name the subject", "whatever": "name the object", "wherever": "name the place",
	"whichever": "name the object", "whosever": "name the owner",
	"wants": "requests, needs", "wanted": "requested, desired", "believe": "trust, accept", "believes": "trusts, accepts",
	"believed": "trusted, accepted", "believing": "trusting", "thinks": "computes, assumes", "forgive": "reset", "forgives": "resets",
	"forgiven": "reset", "goes": "is sent, continues", "comes": "is sent, arrives, follows",
	"dear": "expensive", "dearest": "most expensive", "dearer": "more expensive",
	"guest": "unmanaged GPU pod", "guests": "unmanaged GPU pods", "squatter": "blocking pod", "squatters": "blocking pods",
	"fence": "zero limit", "fences": "zero limits", "fenced": "limited to zero", "lid": "limit cap", "lids": "limit caps",
	"patience": "wait timeout", "outrun": "exceed", "outruns": "exceeds", "seer": "oracle", "rival": "baseline", "rivals": "baselines",
	"former": "previous", "brain": "decision packages", "awake": "active", "asleep": "idle", "anew": "again", "diary": "log",
	"stray": "orphaned", "strays": "orphaned objects", "mend": "fix", "mended": "fixed", "mends": "fixes",
	"hands": "writer", "eyes": "cache", "mouth": "output", "doors": "entry points", "rooms": "packages",
}

// bannedPhrases contains phrases that refer to an earlier noun without naming it, so that a reader must search for the noun, and phrases
// that have a shorter form. The value is the replacement that the failure message suggests.
var bannedPhrases = map[string]string{
	"the former": "repeat the noun", "the latter": "repeat the noun", "that of": "repeat the noun", "those of": "repeat the noun",
	"of those": "repeat the noun", "those whose": "repeat the noun", "the one that": "repeat the noun", "the ones that": "repeat the noun",
	"the one which": "repeat the noun", "the ones which": "repeat the noun", "thereof": "repeat the noun",
	"those that": "repeat the noun", "at present": "currently", "as well as not": "or not",
	"respectively": "write one sentence for each", "in turn": "write one after the other", "not only": "write both facts",
}

// allowed lists the words that may occur in a file although bannedWords contains them, each with a reason. The word "*" allows every banned
// word. The list has at most ten entries.
var allowed = []struct{ file, word, reason string }{
	{"pkg/language_test.go", "*", "this list"},
}

// bannedIdentifiers lists the identifiers that must not be used, by directory (the empty key is for all directories), because Kubernetes,
// Prometheus or Karpenter has a better term. Only whole identifiers are compared.
var bannedIdentifiers = map[string]string{
	"": "world hands eyes landing guests guest strays stray squatters squatter seer rival rivals crowd breed told tell tenure " +
		"mayFall",
	"pkg/cluster":  "tenure survey poolFacts landsIn nudge outrun squatters lateKind",
	"pkg/capacity": "nudge nudges fence fenced lid lidded hold held patience impatient turn comeBack marks mark letGo survey wish",
	"pkg/scaling":  "agenda outlook veto",
	"pkg/engine":   "thought think awake StandDown slot board Board",
	"pkg/policy":   "squeeze held seen bringUp restamp confine",
	"pkg/replay":   "World child Rival Seer Maker makers",
}

func TestListOfExceptionsIsShort(t *testing.T) {
	if len(allowed) > 10 {
		t.Errorf("%d exceptions, at most 10: rewrite the sentence instead", len(allowed))
	}
	for _, a := range allowed {
		if a.reason == "" {
			t.Errorf("%s: the exception for %q has no reason", a.file, a.word)
		}
	}
}

// TestPlainWords searches for bannedWords in every comment and string of the Go files, and in every line of documents, templates, pages and
// YAML.
func TestPlainWords(t *testing.T) {
	total := 0
	for _, file := range textFiles(t) {
		for _, found := range banned(t, file) {
			if total++; total <= 50 {
				t.Error(found)
			}
		}
	}
	if total > 50 {
		t.Errorf("and %d more", total-50)
	}
}

func TestPlainWordsFindsABannedWord(t *testing.T) {
	got := bannedIn("it is told by Nobody, standalone, wantsMore", 7)
	if want := []string{`7: "told": write reported, passed, given`,
		`7: "Nobody": write name the subject: no pod, no policy`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// proseEndings are the endings of the files, besides Go files, in which TestPlainPhrases searches.
var proseEndings = []string{".md", ".yaml", ".yml", ".tpl", ".txt", "Makefile"}

// TestPlainPhrases searches for bannedPhrases in every comment and string of the Go files, and in guides, templates and YAML, also
// across the lines of a text.
func TestPlainPhrases(t *testing.T) {
	for _, file := range textFiles(t) {
		report := func(text string, line int) {
			for _, found := range phrasesIn(text, line) {
				t.Errorf("%s:%s", file, found)
			}
		}
		switch {
		case isAllowed(file, ""):
		case strings.HasSuffix(file, ".go"):
			set := token.NewFileSet()
			tree := parse(t, set, file)
			for _, group := range tree.Comments {
				report(group.Text(), set.Position(group.Pos()).Line)
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING {
					report(s.Value, set.Position(s.Pos()).Line)
				}
				return true
			})
		case slices.ContainsFunc(proseEndings, func(end string) bool { return strings.HasSuffix(file, end) }):
			text, err := os.ReadFile(filepath.Join("..", file))
			if err != nil {
				t.Fatal(err)
			}
			report(string(text), 1)
		}
	}
}

func TestPlainPhrasesFindsABannedPhrase(t *testing.T) {
	got := phrasesIn("Its pods and those\nof the group, not those offered, that often.\n"+
		"# The SLO is that 99% of the requests are fast at\n# present.", 7)
	if want := []string{`9: "at present": currently`, `7: "those of": repeat the noun`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestFileNames compares the words of each file name with the banned words and identifiers.
func TestFileNames(t *testing.T) {
	for _, file := range textFiles(t) {
		for _, word := range wordPattern.FindAllString(file[strings.LastIndexByte(file, '/')+1:], -1) {
			if bannedWords[word] != "" || slices.Contains(strings.Fields(bannedIdentifiers[""]), word) {
				t.Errorf("%s: %q in the name of a file: use the term of the field", file, word)
			}
		}
	}
}

// TestWordsOfIdentifiers compares each word of each identifier (mayFall: may, fall) with bannedWords.
func TestWordsOfIdentifiers(t *testing.T) {
	for _, file := range textFiles(t) {
		if !strings.HasSuffix(file, ".go") {
			continue
		}
		found, set := map[string]bool{}, token.NewFileSet()
		ast.Inspect(parse(t, set, file), func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok || found[id.Name] {
				return true
			}
			found[id.Name] = true
			for _, word := range identifierWords(id.Name) {
				if advice, is := bannedWords[word]; is {
					t.Errorf("%s:%d: identifier %q: write %s", file, set.Position(id.Pos()).Line, id.Name, advice)
				}
			}
			return true
		})
	}
}

var upperAndWord = regexp.MustCompile(`([A-Z])([A-Z][a-z])|([a-z0-9])([A-Z])`)

// identifierWords returns the words of an identifier in lower case.
func identifierWords(name string) []string {
	split := upperAndWord.ReplaceAllString(name, "$1$3 $2$4")
	return strings.Fields(strings.ToLower(strings.ReplaceAll(upperAndWord.ReplaceAllString(split, "$1$3 $2$4"), "_", " ")))
}

func TestIdentifierWords(t *testing.T) {
	for name, want := range map[string]string{"TestANewLeader": "test a new leader", "mayFall": "may fall", "HTTPServer": "http server",
		"x": "x", "fooBARBaz": "foo bar baz", "aB": "a b"} {
		if got := strings.Join(identifierWords(name), " "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestFieldNames compares every identifier with the bannedIdentifiers of its directory.
func TestFieldNames(t *testing.T) {
	for _, file := range textFiles(t) {
		if !strings.HasSuffix(file, ".go") {
			continue
		}
		names := map[string]bool{}
		for dir, list := range bannedIdentifiers {
			if dir == "" || strings.HasPrefix(file, dir+"/") {
				for _, name := range strings.Fields(list) {
					names[name] = true
				}
			}
		}
		set := token.NewFileSet()
		ast.Inspect(parse(t, set, file), func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && names[id.Name] {
				delete(names, id.Name) // report an identifier only once for each file
				t.Errorf("%s:%d: identifier %q: use the term of the field", file, set.Position(id.Pos()).Line, id.Name)
			}
			return true
		})
	}
}

var wordPattern = regexp.MustCompile(`[A-Za-z]+`)

// bannedIn returns one finding for each banned word of a text that begins at the given line.
func bannedIn(text string, line int) (found []string) {
	for i, row := range strings.Split(text, "\n") {
		for _, word := range wordPattern.FindAllString(row, -1) {
			if advice, is := bannedWords[strings.ToLower(word)]; is {
				found = append(found, fmt.Sprintf("%d: %q: write %s", line+i, word, advice))
			}
		}
	}
	return found
}

// phraseWord matches the words of a phrase. Digits are words, so "that 99% of" is not "that of".
var phraseWord = regexp.MustCompile(`[a-z0-9]+`)

// phrasesIn returns one finding for the first occurrence of each banned phrase in a text that begins at the given line.
func phrasesIn(text string, line int) (found []string) {
	lower := strings.ToLower(text)
	words := " " + strings.Join(phraseWord.FindAllString(lower, -1), " ") + " "
	for _, phrase := range slices.Sorted(maps.Keys(bannedPhrases)) {
		if strings.Contains(words, " "+phrase+" ") {
			pattern := `(?:^|[^a-z0-9])(` + strings.ReplaceAll(phrase, " ", `[^a-z0-9]+`) + `)(?:[^a-z0-9]|$)`
			begin := regexp.MustCompile(pattern).FindStringSubmatchIndex(lower)[2]
			found = append(found, fmt.Sprintf("%d: %q: %s", line+strings.Count(lower[:begin], "\n"), phrase, bannedPhrases[phrase]))
		}
	}
	return found
}

func banned(t *testing.T, file string) (found []string) {
	t.Helper()
	var all []string
	if strings.HasSuffix(file, ".go") {
		set := token.NewFileSet()
		tree := parse(t, set, file)
		for _, group := range tree.Comments {
			for _, c := range group.List {
				all = append(all, bannedIn(c.Text, set.Position(c.Pos()).Line)...)
			}
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING {
				all = append(all, bannedIn(s.Value, set.Position(s.Pos()).Line)...)
			}
			return true
		})
	} else {
		text, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		all = bannedIn(string(text), 1)
	}
	for _, f := range all {
		if !isAllowed(file, f) {
			found = append(found, file+":"+f)
		}
	}
	return found
}

func isAllowed(file, found string) bool {
	for _, a := range allowed {
		if a.file == file && (a.word == "*" || strings.Contains(strings.ToLower(found), `"`+a.word+`"`)) {
			return true
		}
	}
	return false
}

func parse(t *testing.T, set *token.FileSet, file string) *ast.File {
	t.Helper()
	tree, err := parser.ParseFile(set, filepath.Join("..", file), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

var textEndings = []string{".go", ".md", ".yaml", ".yml", ".html", ".js", ".css", ".tpl", ".txt", ".mk", ".sh", ".json", ".mod", ".svg",
	".prom", ".golden", ".csv", ".story", ".ci/run", "Makefile", "CODEOWNERS", ".helmignore", ".gitignore"}

// textFiles returns the paths, relative to the repository root, of the files whose words the tests check.
func textFiles(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		if d.IsDir() {
			if name == ".git" || name == "bin" || name == "dist" || d.Name() == "rapid" {
				return filepath.SkipDir
			}
			return nil
		}
		ours := slices.ContainsFunc(textEndings, func(end string) bool { return strings.HasSuffix(name, end) })
		if ours && !strings.HasPrefix(name, "pkg/calendar/testdata/") {
			files = append(files, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
