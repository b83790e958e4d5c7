package annotations

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const scheduleAllowed = `name zone "start cron" "end cron" min=2 max=8 lead=5m, one schedule a line`

// applySchedules parses the lines of the annotation schedule.
func (f overlay) applySchedules(written *spec.Policy, w Layer) {
	count := 0
	for n, line := range strings.Split(w.Values[Schedule], "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if count++; count > scaling.MaxSchedules {
			f.RejectText(w.Field(Schedule), line, fmt.Sprintf("has more than %d schedules", scaling.MaxSchedules),
				fmt.Sprintf("at most %d", scaling.MaxSchedules))
			return
		}
		s, err := parseScheduleLine(line)
		if err != nil {
			f.RejectText(fmt.Sprintf("%s line %d", w.Field(Schedule), n+1), line, err.Error(), scheduleAllowed)
			continue
		}
		f.schedule(written, s, decode.Origin{Field: fmt.Sprintf("%s line %d", w.Field(Schedule), n+1), Text: line})
	}
}

func parseScheduleLine(line string) (spec.Schedule, error) {
	words, err := quotedFields(line)
	if err != nil {
		return spec.Schedule{}, err
	}
	if len(words) < 4 {
		return spec.Schedule{}, errors.New("has too few fields")
	}
	s := spec.Schedule{Name: words[0], Timezone: words[1], Start: words[2], End: words[3]}
	for _, word := range words[4:] {
		key, value, ok := strings.Cut(word, "=")
		if !ok {
			return s, fmt.Errorf("%s is not key=value", wording.Quote(word))
		}
		switch key {
		case "min", "max":
			n, err := replicas(value)
			if err != nil {
				return s, fmt.Errorf("%s: %w", key, err)
			}
			if key == "min" {
				s.MinReplicas = &n
			} else {
				s.MaxReplicas = &n
			}
		case "lead":
			if err := s.LeadTime.Parse(value); err != nil {
				return s, fmt.Errorf("lead %w", err)
			}
		default:
			return s, fmt.Errorf("there is no such key %s%s", wording.Quote(key), wording.DidYouMean(key, []string{"min", "max", "lead"}))
		}
	}
	return s, nil
}

// quotedFields splits a line at spaces outside of double quotes.
func quotedFields(line string) (words []string, err error) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] != '"' {
			word, rest, _ := strings.Cut(line, " ")
			words, line = append(words, word), rest
			continue
		}
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return nil, errors.New("has a quote that is not closed")
		}
		word, _ := strconv.Unquote(quoted)
		words, line = append(words, word), line[len(quoted):]
	}
	return words, nil
}
