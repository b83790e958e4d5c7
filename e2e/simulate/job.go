package main

import "time"

// job is the writes that a tick starts. It runs in its own goroutine, as in the product, but only while the simulation waits for it, so
// that a run has one order. A stalled job continues later.
type job struct {
	resume, yielded chan struct{}
	started, ended  bool
	requests        int
	stall           *stall // nil if the job does not stall
}

func newJob(send func()) *job {
	j := &job{resume: make(chan struct{}), yielded: make(chan struct{})}
	go func() {
		<-j.resume
		send()
		j.ended = true
		j.yielded <- struct{}{}
	}()
	return j
}

// delayedWrite is a job that continues later, because the API server is slow or the process is paused.
type delayedWrite struct {
	at   time.Time
	job  *job
	done chan struct{}
}

// proceed runs a job until it ends or stalls. A job that stalls pauses the process.
func (r *replica) proceed(w delayedWrite) {
	before := r.job
	r.job, w.job.started = w.job, true
	w.job.resume <- struct{}{}
	<-w.job.yielded
	r.job = before
	if w.job.ended {
		close(w.done)
		return
	}
	w.at = r.paused
	r.pending = append(r.pending, w)
}

// pause stops the process for a time.
func (r *replica) pause(d time.Duration) {
	r.paused = r.sim.now.Add(d)
	r.sim.trace("%s: paused for %s", r.name, d)
}

// stallAfterRequest stalls the job that runs if it has sent the number of requests after which it stalls.
func (r *replica) stallAfterRequest() {
	j := r.job
	if j == nil {
		return
	}
	j.requests++
	if j.stall == nil || j.requests != j.stall.request || !r.up {
		return
	}
	r.pause(j.stall.lasting)
	j.yielded <- struct{}{}
	<-j.resume
}

// sendDelayed continues the jobs that are due. A stalled job is first, because the writer sends the patches of a NodePool one after the
// other.
func (r *replica) sendDelayed() {
	all := r.pending
	r.pending = nil
	for _, started := range []bool{true, false} {
		for _, w := range all {
			switch now := r.sim.now; {
			case w.job.started != started:
			case r.up && (now.Before(w.at) || now.Before(r.paused)):
				r.pending = append(r.pending, w)
			default:
				r.proceed(w)
			}
		}
	}
}

// abandon ends the jobs of a process that was killed. Their requests do not reach the API server.
func (r *replica) abandon() {
	all := r.pending
	r.pending = nil
	for _, w := range all {
		r.proceed(w)
	}
}
