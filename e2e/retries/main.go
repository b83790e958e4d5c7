// Command retries checks for end-to-end tests that failed and passed when they were repeated. It reads gotestsum's report of repeated tests
// and the list of known flaky tests:
//
//	go run ./retries REPORT flaky.txt
//
// The command prints the repeated tests. If the environment variable STRICT_RETRIES is set, it fails for a test that is not in the list,
// because a repetition must not hide a race for which no issue exists.
package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: retries REPORT LIST")
		os.Exit(2)
	}
	report, err := os.ReadFile(os.Args[1])
	if os.IsNotExist(err) {
		return // no test was repeated
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "retries:", err)
		os.Exit(1)
	}
	list, err := os.ReadFile(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "retries:", err)
		os.Exit(1)
	}
	known, problems := parseList(string(list))
	unknown := unlisted(string(report), known)
	for _, line := range strings.Split(strings.TrimSpace(string(report)), "\n") {
		if line != "" {
			fmt.Println("repeated:", line)
		}
	}
	for _, p := range problems {
		fmt.Fprintf(os.Stderr, "retries: %s: %s\n", os.Args[2], p)
	}
	for _, name := range unknown {
		fmt.Fprintf(os.Stderr, "retries: %s failed at first and is not in e2e/%s: fix it, or add it with an issue\n", name, os.Args[2])
	}
	if len(problems) > 0 || len(unknown) > 0 && os.Getenv("STRICT_RETRIES") != "" {
		os.Exit(1)
	}
}

// reportLine matches a line of gotestsum's report. It contains the package and the test, the number of runs and the number of failures.
var reportLine = regexp.MustCompile(`^(\S+): \d+ runs, \d+ failures`)

// issue matches a reference to an issue.
var issue = regexp.MustCompile(`(^|\s)(#\d+|https://\S+/issues/\d+)(\s|$)`)

// parseList returns the tests in the list of known flaky tests, as package.Test, and the lines that do not refer to an issue as problems.
func parseList(text string) (known, problems []string) {
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "# ") {
			continue
		}
		name, reason, _ := strings.Cut(line, " ")
		if !issue.MatchString(reason) {
			problems = append(problems, fmt.Sprintf("line %d: %s has no issue; write \"%s #123 what races\"", i+1, name, name))
			continue
		}
		known = append(known, name)
	}
	return known, problems
}

// unlisted returns the repeated tests in gotestsum's report that are not in the list known. The names are relative to the e2e module, such
// as karpenter.TestX.
func unlisted(report string, known []string) (names []string) {
	for _, line := range strings.Split(report, "\n") {
		m := reportLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		name := m[1][strings.LastIndex(m[1], "/e2e/")+1:]
		name = strings.TrimPrefix(name, "e2e/")
		if top, _, sub := strings.Cut(name, "/"); sub && slices.Contains(known, top) {
			continue // the test is a subtest of a listed test
		}
		if !slices.Contains(known, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
