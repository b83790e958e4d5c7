package learned

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

var nine = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// model returns the model that the controller has learned for a workload during an hour of load.
func model(t testing.TB, name string, at time.Time) *engine.SavedModel {
	t.Helper()
	m := objective.New()
	for i := range 720 {
		now := at.Add(time.Duration(i-719) * 5 * time.Second)
		e := objective.Evidence{Ready: 2, Arrivals: objective.Value{V: float64(i % 7), At: now, Known: true}}
		m.Observe(now, &e)
		m.Plan(now, objective.Objective{Limit: 10 * time.Second, Percentile: 99, Capacity: 2}, objective.Limits{Max: 9})
	}
	data, err := m.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &engine.SavedModel{Key: scaling.Key{Namespace: "team", Name: name},
		Target: scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: name}, Work: scaling.Work{1, 0, 3, 0}, At: at,
		Observed: time.Hour, Data: data}
}

// signed returns a document with its checksum appended.
func signed(document []byte) []byte {
	return binary.LittleEndian.AppendUint32(document, crc32.ChecksumIEEE(document))
}

// decode must return an error with the reason for each document that gpuscaler did not write.
func TestOtherDocumentsAreRefused(t *testing.T) {
	good, err := encode(model(t, "chat", nine))
	if err != nil {
		t.Fatal(err)
	}
	late, err := encode(model(t, "chat", nine.Add(time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	broken := model(t, "chat", nine)
	broken.Data = broken.Data[:100]
	short, err := encode(broken)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		document []byte
		want     string
	}{
		"nothing":            {nil, "0 bytes"},
		"half":               {good[:len(good)/2], "checksum"},
		"text":               {[]byte("apiVersion: v1"), "version 97"},
		"a later version":    {signed(append([]byte{documentVersion + 1}, good[1:len(good)-4]...)), "version 2"},
		"not compressed":     {signed([]byte("\x01 what is this")), "decompressed"},
		"an empty content":   {signed([]byte{1, 3, 0}), "text ends"},
		"huge":               {make([]byte, maxDocument+1), "16385 bytes"},
		"from the future":    {late, "2026-11-20T10:00:00Z"},
		"half a model":       {short, objective.ErrEncoding.Error()},
		"a bit that flipped": {append(append([]byte{}, good[:50]...), append([]byte{good[50] ^ 4}, good[51:]...)...), "checksum"},
	} {
		if m, err := decode(c.document, nine); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want an error with %q", name, m, err, c.want)
		}
	}
}

// A small document can expand to a large text when it is decompressed. decode must then return an error and allocate little memory.
func TestALargeContentIsRefused(t *testing.T) {
	large := model(t, "chat", nine)
	large.Data = make([]byte, 8<<20)
	document, err := encode(large)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decode(document, nine); !errors.Is(err, errDocument) || len(document) > maxDocument {
		t.Errorf("%d bytes: %v", len(document), err)
	}
}

// For random bytes with a correct checksum, and for documents with random changes, decode must return an error or a usable model.
func TestRandomDocumentsDoNotPanic(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	good, err := encode(model(t, "chat", nine))
	if err != nil {
		t.Fatal(err)
	}
	for range 3000 {
		document := bytes.Clone(good[:len(good)-4])
		if random.IntN(2) == 0 {
			document = document[:2+random.IntN(len(document)-2)]
		}
		for range random.IntN(8) {
			document[1+random.IntN(len(document)-1)] = byte(random.Uint32())
		}
		m, err := decode(signed(document), nine)
		if err != nil {
			continue
		}
		o := objective.New()
		if err := o.UnmarshalBinary(m.Data); err != nil {
			t.Fatalf("a decoded document has no model: %v", err)
		}
		o.Observe(nine, &objective.Evidence{Ready: 1})
		p := o.Plan(nine, objective.Objective{Limit: time.Second, Percentile: 99}, objective.Limits{Max: 9})
		if p.Replicas < 0 || p.Replicas > 9 {
			t.Fatalf("the plan has %d replicas", p.Replicas)
		}
	}
}

func TestADocumentIsDecodedAsItWasEncoded(t *testing.T) {
	in := model(t, "chat", nine)
	document, err := encode(in)
	if err != nil {
		t.Fatal(err)
	}
	out, err := decode(document, nine)
	if err != nil || out.Key != in.Key || out.Target != in.Target || out.Work != in.Work || !out.At.Equal(in.At) ||
		out.Observed != in.Observed || !bytes.Equal(out.Data, in.Data) {
		t.Errorf("%v: got %+v", err, out)
	}
	t.Logf("%d bytes for a model of %d bytes", len(document), len(in.Data))
	long := scaling.Key{Namespace: "team", Name: strings.Repeat("a", 253)}
	if key := keyOf(long); len(key) > 253 || key == keyOf(scaling.Key{Namespace: "team", Name: strings.Repeat("a", 252)}) {
		t.Errorf("the key of a long name is %q", key)
	}
}

// suite is a Store with a fake API server, its metrics and its log.
type suite struct {
	*Store
	client  *fake.Clientset
	metrics *prometheus.Registry
	log     *bytes.Buffer
}

func newSuite(objects ...runtime.Object) *suite {
	s := &suite{client: fake.NewClientset(objects...)}
	return s.next()
}

// next returns the Store of the next leader, which uses the same API server.
func (s *suite) next() *suite {
	n := &suite{client: s.client, metrics: prometheus.NewRegistry(), log: &bytes.Buffer{}}
	n.Store = newStore(s.client, Options{Namespace: "gpuscaler-system", ConfigMap: "gpuscaler-learned",
		Log: slog.New(slog.NewTextHandler(n.log, nil)), Metrics: n.metrics})
	return n
}

func (s *suite) configMap(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	found, err := s.client.CoreV1().ConfigMaps("gpuscaler-system").Get(t.Context(), "gpuscaler-learned", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// patches returns the number of writes of the ConfigMap until now.
func (s *suite) patches() (n int) {
	for _, a := range s.client.Actions() {
		if a.GetVerb() == "patch" {
			n++
		}
	}
	return n
}

func empty() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "gpuscaler-system", Name: "gpuscaler-learned", ResourceVersion: "1"}}
}

// Without the ConfigMap, a leader must start immediately, log what is missing, and write nothing. After the ConfigMap was created, the
// leader must write its models.
func TestALeaderWorksWithoutTheConfigMap(t *testing.T) {
	s := newSuite()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s.Load(t.Context())
		if took := time.Since(began); took > 0 {
			t.Errorf("the leader waited %s for a ConfigMap that does not exist", took)
		}
	})
	if !strings.Contains(s.log.String(), "may get and patch") {
		t.Errorf("log: %s", s.log)
	}
	models := []*engine.SavedModel{model(t, "chat", nine)}
	now := time.Now()
	s.Write(t.Context(), now, models, false)
	if s.patches() != 0 {
		t.Error("a ConfigMap that was not read was written")
	}
	if _, err := s.client.CoreV1().ConfigMaps("gpuscaler-system").Create(t.Context(), empty(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Write(t.Context(), now.Add(2*time.Minute), models, false)
	if len(s.configMap(t).BinaryData) != 1 {
		t.Error("the model was not written after the ConfigMap was created")
	}
}

// Damaged documents must be reported and ignored, and other documents must be read. A write must keep all documents that it does not
// replace.
func TestDamagedDocumentsDoNotAffectOthers(t *testing.T) {
	now, found := time.Now(), empty()
	good, err := encode(model(t, "chat", now.Add(-time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	found.BinaryData = map[string][]byte{"team_chat": good, "team_half": good[:99], "team_other": good, "note": []byte("hello")}
	found.Data = map[string]string{"text": "hello"}
	s := newSuite(found)
	s.Load(t.Context())
	key := scaling.Key{Namespace: "team", Name: "chat"}
	if s.Recall(key) == nil || s.Recall(scaling.Key{Namespace: "team", Name: "half"}) != nil {
		t.Fatalf("recalled %v", s.recall)
	}
	if n := testutil.ToFloat64(s.ignored); n != 3 || strings.Count(s.log.String(), "is ignored") != 3 {
		t.Errorf("%v documents are ignored, want 3\n%s", n, s.log)
	}
	s.Write(t.Context(), now, []*engine.SavedModel{model(t, "half", now)}, false)
	next := s.next()
	next.Load(t.Context())
	if next.Recall(key) == nil || next.Recall(scaling.Key{Namespace: "team", Name: "half"}) == nil || testutil.ToFloat64(next.ignored) != 2 {
		t.Errorf("after a write: %v, %v ignored", next.recall, testutil.ToFloat64(next.ignored))
	}
}

// Models must be written when they change, at most once a minute, and immediately when the leader stops. A rejected write must be repeated.
func TestModelsAreWrittenAtMostOnceAMinute(t *testing.T) {
	s := newSuite(empty())
	s.Load(t.Context())
	now := time.Now()
	chat, embed := model(t, "chat", now), model(t, "embed", now)
	write := func(after time.Duration, last bool, want int, what string, models ...*engine.SavedModel) {
		t.Helper()
		now = now.Add(after)
		if s.Write(t.Context(), now, models, last); s.patches() != want {
			t.Fatalf("%s: %d writes, want %d\n%s", what, s.patches(), want, s.log)
		}
	}
	write(0, false, 0, "no model")
	write(time.Second, false, 1, "the first model", chat)
	write(2*time.Minute, false, 1, "the same model", chat)
	write(time.Second, false, 2, "another workload", chat, embed)
	chat = model(t, "chat", now)
	write(30*time.Second, false, 2, "half a minute later", chat, embed)
	write(31*time.Second, false, 3, "a minute later", chat, embed)
	chat = model(t, "chat", now)
	write(time.Second, true, 4, "the leader stops", chat, embed)

	refuse := true
	s.client.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refuse, nil, errors.New("etcd is full")
	})
	chat = model(t, "chat", now)
	write(2*time.Minute, false, 5, "a rejected write", chat, embed)
	refuse = false
	write(2*time.Minute, false, 6, "after it", chat, embed)
	write(2*time.Minute, false, 6, "nothing is left", chat, embed)
	if testutil.ToFloat64(s.writes.WithLabelValues("error")) != 1 {
		t.Error("the rejected write is not counted")
	}
}

// If the ConfigMap is full, documents of removed workloads must be removed, the oldest first. If the space is still not sufficient,
// gpuscaler must write only some of the models and log this.
func TestAFullConfigMapDropsPreviousWorkloads(t *testing.T) {
	const limit = 20_000
	now, found := time.Now(), empty()
	found.BinaryData = map[string][]byte{}
	size := 0
	for i := 0; size < limit-1000; i++ {
		m := model(t, fmt.Sprintf("old-%03d", i), now.Add(-time.Duration(1000-i)*time.Hour))
		document, err := encode(m)
		if err != nil {
			t.Fatal(err)
		}
		found.BinaryData[keyOf(m.Key)] = document
		size += len(document) + len(keyOf(m.Key))
	}
	s := newSuite(found)
	s.limit = limit
	s.Load(t.Context())
	before := len(found.BinaryData)
	var models []*engine.SavedModel
	for i := range 10 {
		models = append(models, model(t, fmt.Sprintf("new-%03d", i), now))
	}
	s.Write(t.Context(), now, models, false)
	after := s.configMap(t).BinaryData
	if after["team_old-000"] != nil || after["team_new-009"] == nil || len(after) > before+5 || len(after) < before-5 {
		t.Errorf("%d documents, before %d", len(after), before)
	}
	for i := range 60 {
		models = append(models, model(t, fmt.Sprintf("more-%04d", i), now))
	}
	s.Write(t.Context(), now.Add(2*time.Minute), models, false)
	total := 0
	for key, value := range s.configMap(t).BinaryData {
		total += len(key) + len(value)
	}
	if total > limit || total != s.size || testutil.ToFloat64(s.unsaved) < 1 || strings.Count(s.log.String(), "is full") != 1 {
		t.Errorf("%d bytes (%d noted), %v unsaved\n%s", total, s.size, testutil.ToFloat64(s.unsaved), s.log)
	}
}

// A leader could not read the ConfigMap at its start, and later writes its models. It must not replace a model that took days to learn by a
// model of a few minutes.
func TestALateReadKeepsWhatTookLongerToLearn(t *testing.T) {
	now, found := time.Now(), empty()
	old := model(t, "chat", now.Add(-time.Hour))
	old.Observed = 48 * time.Hour
	document, err := encode(old)
	if err != nil {
		t.Fatal(err)
	}
	found.BinaryData = map[string][]byte{"team_chat": document}
	s := newSuite(found)
	fail := true
	s.client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return fail, nil, errors.New("the server is busy")
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	s.Load(ctx)
	fail = false
	s.Write(t.Context(), now.Add(2*time.Minute), []*engine.SavedModel{model(t, "chat", now), model(t, "embed", now)}, false)
	after := s.configMap(t).BinaryData
	if !bytes.Equal(after["team_chat"], document) || after["team_embed"] == nil {
		t.Error("the model of 48 hours was replaced by one of an hour, or the other was not written")
	}
}
